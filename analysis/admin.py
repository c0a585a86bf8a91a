from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone

from analysis.models import Action, DeclaredSource, Session
from memories.admin.base import AdminsOnly
from memories.identity.caller import caller_from_request


@admin.register(DeclaredSource)
class DeclaredSourceAdmin(admin.ModelAdmin[DeclaredSource]):
    """Where an analysis may read from and act on. The form checks the whole declaration and names what is wrong."""

    list_display = ["name", "is_enabled", "updated_at"]
    list_filter = ["is_enabled"]
    search_fields = ["name", "declaration"]

    def save_model(self, request: HttpRequest, obj: DeclaredSource, form: Any, change: bool) -> None:
        obj.updated_at = timezone.now()
        super().save_model(request, obj, form, change)


@admin.register(Session)
class SessionAdmin(AdminsOnly):
    list_display = ["analysis_id", "owner", "created_at", "last_used_at"]
    search_fields = ["analysis_id", "owner"]
    date_hierarchy = "created_at"


@admin.register(Action)
class ActionAdmin(AdminsOnly):
    list_display = ["kind", "model", "owner", "state", "created_at"]
    list_filter = ["state", "kind"]

    def get_queryset(self, request: HttpRequest) -> Any:
        return Action.objects.visible_to(caller_from_request(request, channel="admin"))

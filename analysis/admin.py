from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from analysis import source_health
from analysis.models import Action, DeclaredSource, Session
from analysis.sources import declaration as source_declaration
from analysis.sql import declaration as sql_declaration
from analysis.sql import engines
from analysis.storage import declaration as store_declaration
from foundation.operations.errors import DomainError
from memories.admin.base import AdminsOnly, ExportsList, admin_caller
from memories.admin.rows import TestAnswer


class DeclaredSourceForm(forms.ModelForm[DeclaredSource]):
    warning = ""  # what couldn't be checked about a valid declaration

    class Meta:
        model = DeclaredSource
        fields = ["name", "declaration", "is_enabled"]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        name = values.get("name", "")
        text = values.get("declaration", "")
        try:
            if sql_declaration.is_sql(text):
                self.warning = engines.check_source(sql_declaration.parse(name, text))
            elif store_declaration.is_store(text):
                store_declaration.parse(name, text)
            else:
                source_declaration.parse(name, text)
        except DomainError as error:
            self.add_error("declaration", error.message)
        return values


@admin.register(DeclaredSource)
class DeclaredSourceAdmin(ExportsList):
    form = DeclaredSourceForm
    list_display = ["name", "is_enabled", "updated_at"]
    list_filter = ["is_enabled"]
    search_fields = ["name", "declaration"]
    test_title = gettext_lazy("Test: read one row")

    def test(self, request: HttpRequest, row: DeclaredSource, values: Mapping[str, Any]) -> TestAnswer:
        trial = source_health.try_declaration(admin_caller(request), name=row.name, text=row.declaration)
        return TestAnswer(not trial.error, trial.error or gettext("The source answered."), trial.lines)

    def save_model(self, request: HttpRequest, obj: DeclaredSource, form: Any, change: bool) -> None:
        obj.updated_at = timezone.now()
        super().save_model(request, obj, form, change)
        if form.warning:
            messages.warning(request, form.warning)


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
        return Action.objects.visible_to(admin_caller(request))

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest

from memories.models import Persona, PersonaMembership


class MembershipInline(admin.TabularInline[PersonaMembership, Persona]):
    model = PersonaMembership
    extra = 1
    autocomplete_fields = ["user"]


@admin.register(Persona)
class PersonaAdmin(admin.ModelAdmin[Persona]):
    list_display = ["name", "title", "is_default", "tools_allow", "tools_deny", "calls_per_minute", "writes_per_day"]
    list_filter = ["is_default"]
    search_fields = ["name", "title", "description"]
    inlines = [MembershipInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Persona | None = None) -> list[str]:
        return ["name", "is_default"] if obj else ["is_default"]  # memories refer to a persona by its name

    def has_delete_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return obj is not None and not obj.is_default and super().has_delete_permission(request, obj)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from foundation.operations.toolsets import toolsets
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.tools.declaration import load_toolset
from memories.admin.base import ExportsList
from memories.admin.rows import TestAnswer


class MembershipInline(admin.TabularInline[PersonaMembership, Persona]):
    model = PersonaMembership
    extra = 0

    # A membership gives access to memories, which operators don't manage. Admins change it on the page of the person.
    def has_view_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return bool(request.user.is_superuser)

    def has_add_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return False


class PersonaForm(forms.ModelForm[Persona]):
    toolsets = forms.MultipleChoiceField(
        required=False,
        choices=lambda: [(name, name) for name in toolsets()],
        widget=forms.CheckboxSelectMultiple,
        help_text=Persona._meta.get_field("toolsets").help_text,
    )


@admin.register(Persona)
class PersonaAdmin(ExportsList):
    form = PersonaForm
    list_display = ["name", "title", "is_default", "tools_allow", "tools_deny", "calls_per_minute", "writes_per_day"]
    list_filter = ["is_default"]
    search_fields = ["name", "title", "description"]
    inlines = [MembershipInline]
    test_title = gettext_lazy("Test: show the tools of its agents")

    def test(self, request: HttpRequest, row: Persona, values: Mapping[str, Any]) -> TestAnswer:
        names = row.toolsets or settings.MCP_TOOLSETS
        chosen = [name for name in toolsets() if "all" in names or name in names]
        agent = Caller(
            email="",
            persona=row.name,
            personas=frozenset({row.name}),
            tools_allow=tuple(row.tools_allow),
            tools_deny=tuple(row.tools_deny),
        )
        tools = [tool for name in chosen for tool in load_toolset(name)]
        offered = [tool for tool in tools if tool.choices_for(agent) and tool.is_listed_for(agent)]
        choices = {tool.name: [choice for choice in tool.choices_for(agent) if choice] for tool in offered}
        lines = [f"{name}: {', '.join(those)}" if those else name for name, those in choices.items()]
        text = gettext("Agents that choose no toolsets are offered %(offered)s of %(all)s tools.")
        return TestAnswer(bool(offered), text % {"offered": len(offered), "all": len(tools)}, lines)

    def get_readonly_fields(self, request: HttpRequest, obj: Persona | None = None) -> list[str]:
        return ["name", "is_default"] if obj else ["is_default"]  # memories refer to a persona by its name

    def has_delete_permission(self, request: HttpRequest, obj: Persona | None = None) -> bool:
        return obj is not None and not obj.is_default and super().has_delete_permission(request, obj)

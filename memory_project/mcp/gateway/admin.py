from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from foundation.operations.errors import Invalid, with_allowed
from memories.admin.base import ExportsList, admin_caller, age, badge
from memories.admin.rows import Link, TestAnswer
from memory_project.mcp.gateway import declarations, health, tool_queue, trial
from memory_project.mcp.gateway.models import WAITING, DeclaredUpstream, PinnedTool, PinState, UpstreamStatus

TOOLS_SHOWN = 30  # names of tools in the answer of a test


class DeclaredUpstreamForm(forms.ModelForm[DeclaredUpstream]):
    confirms = forms.BooleanField(label=gettext_lazy("Disable it"), required=False)

    class Meta:
        model = DeclaredUpstream
        fields = ("name", "declaration", "is_enabled")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        name = self.instance.name if self.instance.pk else values.get("name", "")
        if not name or "declaration" not in values:
            return values
        try:
            declarations.check(name, values["declaration"])
        except Invalid as error:
            is_name = error.field in ("name", f"{name}.name") and "name" in self.fields
            self.add_error("name" if is_name else "declaration", _shown(error, name))
        if is_disabling(self.instance, values.get("is_enabled", False)) and not values.get("confirms"):
            self.add_error("is_enabled", gettext("%(loss)s Tick “Disable it” to confirm.") % {"loss": loss_of(name)})
        return values


def _shown(error: Invalid, name: str) -> str:
    """Return the error with the key of the declaration that it is about, if there is one."""
    key = error.field.removeprefix(f"{name}.")
    fault = with_allowed(error.fault, error.allowed)
    return fault if key in ("name", name, "") else f"{key}: {fault}"


def is_disabling(row: DeclaredUpstream, is_enabled: bool) -> bool:
    return not is_enabled and DeclaredUpstream.objects.filter(pk=row.pk, is_enabled=True).exists()


def loss_of(name: str) -> str:
    """Return what agents lose together with an upstream."""
    count = PinnedTool.objects.filter(upstream=name, state=PinState.APPROVED).count()
    if not count:
        return gettext("Agents lose nothing: no tool of this server is approved.")
    text = ngettext(
        "Agents lose %(n)s tool of this server at once. Its approval and the decisions are kept.",
        "Agents lose %(n)s tools of this server at once. Their approvals and the decisions are kept.",
        count,
    )
    return text % {"n": count}


@admin.register(DeclaredUpstream)
class DeclaredUpstreamAdmin(ExportsList):
    form = DeclaredUpstreamForm
    list_display = [
        "name",
        "is_enabled",
        "condition",
        "last_contact",
        "last_error",
        "approved",
        "waiting",
        "updated_at",
    ]
    list_filter = ["is_enabled"]
    search_fields = ["name", "declaration"]
    test_title = gettext_lazy("Test: connect and list the tools")

    def has_view_permission(self, request: HttpRequest, obj: DeclaredUpstream | None = None) -> bool:
        return request.user.is_authenticated and admin_caller(request).is_operator

    has_change_permission = has_delete_permission = has_view_permission

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[DeclaredUpstream]:
        status = UpstreamStatus.objects.filter(name=OuterRef("name"))
        pins = PinnedTool.objects.filter(upstream=OuterRef("name")).order_by().values("upstream")
        columns = {name: Subquery(status.values(name)[:1]) for name in ("reached_at", "failed_at", "error")}
        counts = {
            "approved_count": Count("pk", filter=Q(state=PinState.APPROVED)),
            "waiting_count": Count("pk", filter=Q(state__in=WAITING)),
        }
        counted = {name: Subquery(pins.annotate(n=count).values("n")) for name, count in counts.items()}
        rows: QuerySet[DeclaredUpstream] = super().get_queryset(request).annotate(**columns, **counted)
        return rows

    def get_readonly_fields(self, request: HttpRequest, obj: DeclaredUpstream | None = None) -> list[str]:
        return ["name"] if obj else []  # agents know the tools by it

    def get_fields(self, request: HttpRequest, obj: DeclaredUpstream | None = None) -> Any:
        own = ["name", "declaration", "is_enabled"]
        asks = request.method == "POST" and obj is not None and obj.is_enabled and "is_enabled" not in request.POST
        return [*own, "confirms"] if asks else own

    # -- columns -------------------------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("state"))
    def condition(self, row: Any) -> SafeString:
        state = health.NEVER
        if not row.is_enabled:
            state = health.DISABLED
        elif row.failed_at and (not row.reached_at or row.failed_at > row.reached_at):
            state = health.FAILING
        elif row.reached_at:
            state = health.OK
        return badge(health.COLORS[state], health.label_of(state))

    @admin.display(description=gettext_lazy("last contact"), ordering="reached_at")
    def last_contact(self, row: Any) -> str:
        return age(row.reached_at)

    @admin.display(description=gettext_lazy("last error"))
    def last_error(self, row: Any) -> str:
        return row.error or "–"

    @admin.display(description=gettext_lazy("tools"), ordering="approved_count")
    def approved(self, row: Any) -> int:
        return row.approved_count or 0

    @admin.display(description=gettext_lazy("waiting tools"), ordering="waiting_count")
    def waiting(self, row: Any) -> int:
        return row.waiting_count or 0

    # -- pages ---------------------------------------------------------------------------------------------------

    def row_title(self, row: DeclaredUpstream) -> str:
        return row.name

    def links(self, request: HttpRequest, row: DeclaredUpstream) -> Mapping[str, Sequence[Link]]:
        address = f"{reverse('admin:upstream-tools')}?state=all&upstream={row.name}"
        return {gettext("Tools"): [Link(gettext("Tools of this server, and decisions about them"), address)]}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        of_file = [state for state in health.look().states if state.upstream and state.upstream.is_from_file]
        return super().changelist_view(request, {"of_file": of_file, **(extra_context or {})})

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> Any:
        row = self.get_object(request, object_id)
        loss = loss_of(row.name) if row is not None else ""
        return super().delete_view(request, object_id, {"loss": loss, **(extra_context or {})})

    def test(self, request: HttpRequest, row: DeclaredUpstream, values: Mapping[str, Any]) -> TestAnswer:
        answer = trial.try_declaration(admin_caller(request), name=row.name, text=values["declaration"])
        if answer.problem:
            hint = gettext(
                "A server declared here has to be on a public host, or on one in MCP_UPSTREAM_PRIVATE_HOSTS."
            )
            return TestAnswer(False, answer.problem, [hint])
        return TestAnswer(True, told(answer), lines_of(answer))

    def save_model(self, request: HttpRequest, obj: DeclaredUpstream, form: Any, change: bool) -> None:
        declarations.save(admin_caller(request), declared=obj)

    def delete_model(self, request: HttpRequest, obj: DeclaredUpstream) -> None:
        declarations.delete(admin_caller(request), declared=obj)


def told(answer: trial.UpstreamTrial) -> str:
    """Return what an upstream answered, in one sentence."""
    text = ngettext(
        "%(server)s answered in %(ms)s ms with %(n)s tool and %(resources)s resources.",
        "%(server)s answered in %(ms)s ms with %(n)s tools and %(resources)s resources.",
        len(answer.tools),
    )
    server = answer.server or gettext("The server")
    return text % {"server": server, "ms": answer.milliseconds, "n": len(answer.tools), "resources": answer.resources}


def lines_of(answer: trial.UpstreamTrial) -> list[str]:
    lines = []
    if answer.tools:
        left = len(answer.tools) - TOOLS_SHOWN
        lines.append(", ".join(answer.tools[:TOOLS_SHOWN]) + (f", … (+{left})" if left > 0 else ""))
    if answer.flagged:
        flags = [
            f"{tool}: {', '.join(str(tool_queue.FLAGS[rule][0]) for rule in rules)}"
            for tool, rules in list(answer.flagged.items())[:TOOLS_SHOWN]
        ]
        lines.append(gettext("Flags: %(tools)s") % {"tools": "; ".join(flags)})
    return lines

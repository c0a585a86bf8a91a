from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.operations.errors import DomainError, Invalid
from foundation.people.models import Persona
from memories.admin.base import ExportsList, OperatorsOnly, admin_caller, age, badge
from memory_project.exchange.subscriptions import addresses, operations, services
from memory_project.exchange.subscriptions.models import RunState, Subscription, SubscriptionItem, SubscriptionRun

COLORS = {
    RunState.DONE: "active", RunState.FAILED: "low", RunState.HELD: "stale", RunState.RUNNING: "medium",
    RunState.QUEUED: "medium",
}  # fmt: skip
SET_ONCE = ("kind", "location", "branch", "subfolder", "persona", "visibility")


class SubscriptionForm(forms.ModelForm[Subscription]):
    class Meta:
        model = Subscription
        fields = ("name", *SET_ONCE, "interval_min", "is_paused")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "persona" in self.fields:
            names = [(name, name) for name in Persona.objects.order_by("name").values_list("name", flat=True)]
            self.fields["persona"] = forms.ChoiceField(choices=[("", gettext("Your own")), *names], required=False)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        checks = {"branch": addresses.check_branch, "subfolder": addresses.check_subfolder}
        if values.get("kind") and values.get("location"):
            checks["location"] = lambda location: addresses.check_location(values["kind"], location)
        for name, check in checks.items():
            try:
                if name in values:
                    values[name] = check(values[name])
            except Invalid as error:
                self.add_error(name, error.message)
        return values


@admin.register(Subscription)
class SubscriptionAdmin(ExportsList):
    """Sources that are kept in step. People see their own subscriptions, and admins see all."""

    form = SubscriptionForm
    list_display = ["name", "health", "last_run", "location", "persona", "interval_min", "is_paused", "created_by"]
    list_filter = ["kind", "is_paused", "persona"]
    show_facets = admin.ShowFacets.NEVER
    search_fields = ["name", "location", "created_by"]
    actions = ["sync", "plan", "sync_with_removals", "pause", "resume", "remove_keep", "remove_forget"]

    def has_view_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        return request.user.is_authenticated and admin_caller(request).is_operator

    has_change_permission = has_view_permission

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        return False  # the actions ask what becomes of the memories

    def get_queryset(self, request: HttpRequest) -> QuerySet[Subscription]:
        newest = SubscriptionRun.objects.filter(subscription=OuterRef("pk")).order_by("-started_at")
        return services.visible_to(admin_caller(request)).annotate(
            last_state=Subquery(newest.values("state")[:1]), last_at=Subquery(newest.values("started_at")[:1])
        )

    def get_readonly_fields(self, request: HttpRequest, obj: Subscription | None = None) -> list[str]:
        return [*SET_ONCE, "created_by", "history"] if obj else []

    def get_fields(self, request: HttpRequest, obj: Subscription | None = None) -> Any:
        own = ["name", *SET_ONCE, "interval_min"]
        return [*own, "is_paused", "created_by", "history"] if obj else own

    @admin.display(description=gettext_lazy("last result"))
    def health(self, row: Subscription) -> SafeString | str:
        state: str = row.last_state  # type: ignore[attr-defined]  # annotated above
        return badge(COLORS[RunState(state)], str(RunState(state).label)) if state else "–"

    @admin.display(description=gettext_lazy("last run"))
    def last_run(self, row: Subscription) -> str:
        return age(row.last_at)  # type: ignore[attr-defined]  # annotated above

    @admin.display(description=gettext_lazy("runs"))
    def history(self, row: Subscription) -> SafeString:
        lines = [
            (run.pk, f"{run.started_at:%Y-%m-%d %H:%M}", _outcome(run)) for run in row.runs.order_by("-started_at")[:10]
        ]
        runs = format_html_join("", '<p><a href="../../../subscriptionrun/{}/change/">{}</a> {}</p>', lines)
        texts = format_html(
            '<p><a href="../../../subscriptionitem/?subscription__id__exact={}">{}</a></p>', row.pk, gettext("Texts")
        )
        return runs + texts

    def save_model(self, request: HttpRequest, obj: Subscription, form: Any, change: bool) -> None:
        caller = admin_caller(request)
        values = form.cleaned_data
        if change:
            changed = {name: values[name] for name in form.changed_data}
            if changed:
                operation = operations.ChangeSubscription.read({"id": obj.pk.hex, **changed})
                services.change(caller, operation)
            return
        given = {name: values[name] for name in ("name", *SET_ONCE, "interval_min")}
        obj.pk = services.add(caller, operations.AddSubscription.read(given)).pk

    def _each(self, request: HttpRequest, rows: QuerySet[Subscription], perform: Any, done: str) -> None:
        caller = admin_caller(request)
        count = 0
        for row in rows:
            try:
                perform(row, caller)
                count += 1
            except DomainError as error:
                messages.error(request, f"{row.name}: {error.message}")
        if count:
            messages.success(request, f"{count} {done}.")

    def _start(self, request: HttpRequest, rows: QuerySet[Subscription], **options: Any) -> None:
        def start(row: Subscription, caller: Any) -> None:
            held = row.runs.filter(state=RunState.HELD).first() if options.get("confirms") else None
            values = {"id": row.pk.hex, "plan": options.get("plan"), "removals": held.missing_files if held else None}
            services.start(caller, operations.RunSubscription.read(values))

        self._each(request, rows, start, "queued; the result is under Runs")

    @admin.action(description=gettext_lazy("Run now"))
    def sync(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._start(request, rows)

    @admin.action(description=gettext_lazy("Plan: show what would change"))
    def plan(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._start(request, rows, plan=True)

    @admin.action(description=gettext_lazy("Run now, and confirm the missing files of the waiting run"))
    def sync_with_removals(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._start(request, rows, confirms=True)

    @admin.action(description=gettext_lazy("Pause"))
    def pause(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._set_paused(request, rows, True)

    @admin.action(description=gettext_lazy("Resume"))
    def resume(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._set_paused(request, rows, False)

    def _set_paused(self, request: HttpRequest, rows: QuerySet[Subscription], is_paused: bool) -> None:
        def change(row: Subscription, caller: Any) -> None:
            values = {"id": row.pk.hex, "is_paused": is_paused}
            services.change(caller, operations.ChangeSubscription.read(values))

        self._each(request, rows, change, "paused" if is_paused else "resumed")

    @admin.action(description=gettext_lazy("Remove, and keep the memories"))
    def remove_keep(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._remove(request, rows, operations.KEEP)

    @admin.action(description=gettext_lazy("Remove, and forget the memories"))
    def remove_forget(self, request: HttpRequest, rows: QuerySet[Subscription]) -> None:
        self._remove(request, rows, operations.FORGET)

    def _remove(self, request: HttpRequest, rows: QuerySet[Subscription], memories: str) -> None:
        def remove(row: Subscription, caller: Any) -> None:
            values = {"id": row.pk.hex, "memories": memories}
            services.remove(caller, operations.RemoveSubscription.read(values))

        self._each(request, rows, remove, "removed")


def _outcome(run: SubscriptionRun) -> str:
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(run.counts.items()))
    return f"{'plan, ' if run.is_plan else ''}{run.get_state_display()}: {run.error or counts or 'nothing yet'}"


@admin.register(SubscriptionRun)
class RunAdmin(OperatorsOnly):
    list_display = ["subscription", "started_at", "result", "summary", "progress", "is_plan"]
    list_filter = ["state", "is_plan"]
    list_select_related = ["subscription"]
    search_fields = ["subscription__name"]
    date_hierarchy = "started_at"
    fields = [
        "subscription", "started_at", "finished_at", "started_by", "is_plan", "result", "progress", "summary",
        "missing_files", "version", "error", "changes",
    ]  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[SubscriptionRun]:
        return SubscriptionRun.objects.filter(subscription__in=services.visible_to(admin_caller(request)))

    @admin.display(description=gettext_lazy("result"), ordering="state")
    def result(self, run: SubscriptionRun) -> SafeString:
        return badge(COLORS[RunState(run.state)], run.get_state_display())

    @admin.display(description=gettext_lazy("progress"))
    def progress(self, run: SubscriptionRun) -> str:
        return gettext("%(done)s of %(all)s") % {"done": run.done, "all": run.total}

    @admin.display(description=gettext_lazy("summary"))
    def summary(self, run: SubscriptionRun) -> str:
        return ", ".join(f"{count:,} {what}" for what, count in sorted(run.counts.items())) or run.error

    @admin.display(description=gettext_lazy("changes"))
    def changes(self, run: SubscriptionRun) -> SafeString:
        lines = [(line["what"], line["text"], line.get("why", "")) for line in run.report]
        return format_html_join("", "<p>{} <code>{}</code> {}</p>", lines)


@admin.register(SubscriptionItem)
class ItemAdmin(OperatorsOnly):
    list_display = ["key", "subscription", "result", "reason", "memory", "updated_at"]
    list_filter = ["state", "subscription"]
    list_select_related = ["subscription"]
    search_fields = ["path"]
    presets = (
        (gettext_lazy("Conflicts"), "state__exact=conflicting"),
        (gettext_lazy("Refused"), "state__exact=refused"),
    )
    fields = ["subscription", "path", "key", "result", "reason", "memory", "is_ours", "version", "updated_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[SubscriptionItem]:
        return SubscriptionItem.objects.filter(subscription__in=services.visible_to(admin_caller(request)))

    @admin.display(description=gettext_lazy("state"), ordering="state")
    def result(self, item: SubscriptionItem) -> SafeString:
        return badge({"kept": "active", "conflicting": "stale", "refused": "low"}[item.state], item.get_state_display())

    @admin.display(description=gettext_lazy("memory"))
    def memory(self, item: SubscriptionItem) -> SafeString | str:
        if item.record_id is None:
            return "–"
        return format_html('<a href="{}">{}</a>', url_for("memory", item.record_id.hex), item.record_id.hex[:8])

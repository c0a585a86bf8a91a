"""Admin pages of changesets: the writes to the catalog, their source insights, and rollback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from knowledge.admin.insights import line_of
from knowledge.changesets import rollback
from knowledge.changesets.diff import of_changes
from knowledge.insights.queries import may_curate
from knowledge.models import Change, Changeset, ChangesetState, Insight
from memories.admin.actions import AdminAct
from memories.admin.base import PickFilter, ReadOnlyAdmin, admin_caller, age, badge, entity_names
from memories.contract.errors import DomainError
from memories.contract.urls import url_for
from memories.identity.caller import Caller


def preview_rollback(caller: Caller, changesets: Sequence[Changeset]) -> list[SafeString]:
    lines = []
    for changeset in changesets:
        subject = entity_names([changeset.entity_urn]) if changeset.entity_urn else "No target entity"
        try:
            plan = rollback.roll_back_preview(caller=caller, changeset_id=changeset.pk)
            used = rollback.users_of_created(changeset)
        except DomainError as error:
            lines.append(format_html('{} <span class="fault">{}</span>', subject, error.message))
            continue
        own_changes = of_changes((undo.change for undo in plan if undo.is_possible), back=True)
        rows = format_html_join("", "<li>{}</li>", ((line_of(change),) for change in own_changes))
        conflicts = sum(not undo.is_ours for undo in plan)
        erased = sum(undo.is_erased for undo in plan)
        notes = [f"others have changed {conflicts} of its values, so the rollback will be refused"] if conflicts else []
        notes += [f"the earlier value of {erased} was erased, so the rollback will be refused"] if erased else []
        note = "; ".join([*notes, *(f"removed, although others may use it: {usage}" for usage in used)])
        kept = sum(undo.is_kept for undo in plan)
        keeps = f"{kept} of its values stay, because other insights rely on them" if kept else ""
        lines.append(format_html('{} <span class="fault">{}</span> {}<ul>{}</ul>', subject, note, keeps, rows))
    return lines


ROLL_BACK = AdminAct(
    "roll_back",
    "Roll back",
    "Restores the previous values in the catalog and returns the insights to review.",
    permissions=["curate"],
    preview=preview_rollback,
    narrow=lambda caller, rows: rows.filter(
        state__in=[ChangesetState.APPLIED, ChangesetState.PARTIAL, ChangesetState.PLANNED]
    ),
)


class EntityFilter(PickFilter):
    title, parameter_name, kind, column = "entity", "entity", "entity", "entity_urn"


class AppliedByFilter(PickFilter):
    title, parameter_name, kind, column = "applied by", "by", "person", "applied_by"


class ChangeInline(admin.TabularInline[Change, Changeset]):
    model = Change
    fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    readonly_fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    extra = 0
    can_delete = False
    classes = ["collapse"]
    verbose_name_plural = "stored writes"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Changeset)
class ChangesetAdmin(ReadOnlyAdmin):
    list_display = ["subject", "badge", "summary", "applied_by", "captured", "rolled_back_by", "catalog"]
    list_filter = ["state", "persona", "catalog", EntityFilter, AppliedByFilter]
    date_hierarchy = "created_at"
    search_fields = ["entity_urn", "applied_by"]
    search_help_text = "Search by a part of the entity's URN, or by the curator who applied the changeset."
    fieldsets = [
        (None, {"fields": ["page", "subject", "badge", "diff", "sources", "applied_by", "created_at", "finished_at"]}),
        ("Rolled back", {"fields": ["rolled_back_by", "rolled_back_at"]}),
        ("Stored values", {"classes": ["collapse"], "fields": ["entity_urn", "insight_ids", "personas", "error"]}),
    ]
    readonly_fields = ["page", "subject", "badge", "diff", "sources"]
    inlines = [ChangeInline]
    actions = [ROLL_BACK.as_action()]
    view_page = "admin:knowledge_changeset_changelist"
    presets = (("Applied", "state__exact=applied"), ("Partial or failed", "state__in=partial,failed"))

    def has_curate_permission(self, request: HttpRequest) -> bool:
        return may_curate(admin_caller(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Changeset]:
        return Changeset.objects.visible_to(admin_caller(request)).prefetch_related("changes")

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Changeset | None:
        changeset: Changeset | None = super().get_object(request, *args, **kwargs)
        if changeset is not None:
            changeset.visible_sources = visible_sources(admin_caller(request), changeset)  # type: ignore[attr-defined]
        return changeset

    @admin.display(description="changeset", ordering="entity_urn")
    def subject(self, changeset: Changeset) -> str:
        return entity_names([changeset.entity_urn]) if changeset.entity_urn else "No target entity"

    @admin.display(description="state", ordering="state")
    def badge(self, changeset: Changeset) -> SafeString:
        return badge(changeset.state, changeset.get_state_display().lower())

    @admin.display(description="changes")
    def summary(self, changeset: Changeset) -> str:
        titles = [f"{change.title} of {change.entity}" for change in of_changes(changeset.changes.all())]
        return "; ".join(titles[:2]) + (f" and {len(titles) - 2} more" if len(titles) > 2 else "")

    @admin.display(description="applied", ordering="created_at")
    def captured(self, changeset: Changeset) -> str:
        return age(changeset.created_at)

    @admin.display(description="page")
    def page(self, changeset: Changeset) -> SafeString:
        return format_html('<a href="{}">Open, roll back or export</a>', url_for("changeset", changeset.pk.hex))

    @admin.display(description="changes")
    def diff(self, changeset: Changeset) -> SafeString:
        rows = ((line_of(change), change.outcome) for change in of_changes(changeset.changes.all()))
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} ({})</li>", rows))

    @admin.display(description="source insights")
    def sources(self, changeset: Changeset) -> SafeString:
        insights: list[Insight] = getattr(changeset, "visible_sources", [])
        rows = ((url_for("insight", insight.pk.hex), str(insight.record)) for insight in insights)
        return format_html("<ul>{}</ul>", format_html_join("", '<li><a href="{}">{}</a></li>', rows))


def visible_sources(caller: Caller, changeset: Changeset) -> list[Insight]:
    return list(Insight.objects.visible_to(caller).filter(pk__in=changeset.insight_ids).select_related("record"))

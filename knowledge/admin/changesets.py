"""Admin pages of changesets: the writes to the catalog, their source insights, and rollback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, gettext_lazy, ngettext

from foundation.links import url_for
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from knowledge.admin.insights import line_of
from knowledge.admin.related import entity_links, insight_links, lines_of_changeset
from knowledge.changesets import rollback
from knowledge.changesets.diff import of_changes
from knowledge.insights.queries import may_curate
from knowledge.models import Change, Changeset, Decision, Insight
from memories.admin.actions import AdminAction
from memories.admin.base import PickFilter, ReadOnlyAdmin, admin_caller, age, badge, entity_names
from memories.admin.history import HistoryLine
from memories.admin.rows import Link


def preview_rollback(caller: Caller, changesets: Sequence[Changeset]) -> list[SafeString]:
    lines = []
    for changeset in changesets:
        subject = entity_names([changeset.entity_urn]) if changeset.entity_urn else gettext("No target entity")
        try:
            preview = rollback.roll_back_preview(caller, changeset_id=changeset.pk)
        except DomainError as error:
            lines.append(format_html('{} <span class="fault">{}</span>', subject, error.message))
            continue
        own_changes = of_changes((undo.change for undo in preview.undos if undo.is_possible), back=True)
        rows = format_html_join("", "<li>{}</li>", ((line_of(change),) for change in own_changes))
        conflicts = sum(not undo.is_ours for undo in preview.undos)
        erased = sum(undo.is_erased for undo in preview.undos)
        note = "; ".join([*_obstacles(conflicts, erased), *(_removed(usage) for usage in preview.used)])
        keeps = _keeps(sum(undo.is_kept for undo in preview.undos))
        lines.append(format_html('{} <span class="fault">{}</span> {}<ul>{}</ul>', subject, note, keeps, rows))
    return lines


def _obstacles(conflicts: int, erased: int) -> list[str]:
    others = ngettext(
        "others have changed %(n)s of its values, so the rollback will be refused",
        "others have changed %(n)s of its values, so the rollback will be refused",
        conflicts,
    )
    gone = ngettext(
        "%(n)s earlier value was erased, so the rollback will be refused",
        "%(n)s earlier values were erased, so the rollback will be refused",
        erased,
    )
    return [text % {"n": count} for text, count in ((others, conflicts), (gone, erased)) if count]


def _removed(usage: object) -> str:
    return gettext("removed, although others may use it: %(usage)s") % {"usage": usage}


def _keeps(kept: int) -> str:
    text = ngettext(
        "%(n)s of its values stays, because other insights rely on it",
        "%(n)s of its values stay, because other insights rely on them",
        kept,
    )
    return text % {"n": kept} if kept else ""


class EntityFilter(PickFilter):
    title = gettext_lazy("entity")
    parameter_name = "entity"
    kind = "entity"
    column = "entity_urn"


class AppliedByFilter(PickFilter):
    title = gettext_lazy("applied by")
    parameter_name = "by"
    kind = "person"
    column = "applied_by"


class ChangeInline(admin.TabularInline[Change, Changeset]):
    model = Change
    fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    readonly_fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    extra = 0
    can_delete = False
    classes = ["collapse"]
    verbose_name_plural = gettext_lazy("stored writes")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Changeset)
class ChangesetAdmin(ReadOnlyAdmin):
    list_display = ["subject", "badge", "summary", "applied_by", "captured", "rolled_back_by", "catalog"]
    list_filter = ["state", "persona", "catalog", EntityFilter, AppliedByFilter]
    date_hierarchy = "created_at"
    search_fields = ["entity_urn", "applied_by"]
    search_help_text = gettext_lazy(
        "Search by a part of the entity's URN, or by the curator who applied the changeset."
    )
    fieldsets = [
        (None, {"fields": ["subject", "badge", "diff", "applied_by", "created_at", "finished_at"]}),
        (gettext_lazy("Rolled back"), {"fields": ["rolled_back_by", "rolled_back_at"]}),
        (
            gettext_lazy("Stored values"),
            {"classes": ["collapse"], "fields": ["entity_urn", "insight_ids", "personas", "error"]},
        ),
    ]
    readonly_fields = ["subject", "badge", "diff"]
    inlines = [ChangeInline]
    actions = [AdminAction("roll_back", preview_rollback, permissions=["curate"]).for_menu()]
    presets = (
        (gettext_lazy("Applied"), "state__exact=applied"),
        (gettext_lazy("Partial or failed"), "state__in=partial,failed"),
    )

    def has_curate_permission(self, request: HttpRequest) -> bool:
        return may_curate(admin_caller(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Changeset]:
        return Changeset.objects.visible_to(admin_caller(request)).prefetch_related("changes")

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Changeset | None:
        changeset: Changeset | None = super().get_object(request, *args, **kwargs)
        if changeset is not None:
            # Read once for the links and the history.
            changeset.sources = visible_sources(admin_caller(request), changeset)  # type: ignore[attr-defined]
        return changeset

    def portal_links(self, request: HttpRequest, row: Changeset) -> Sequence[Link]:
        return [Link(gettext("Open, roll back or export"), url_for("changeset", row.pk.hex))]

    def links(self, request: HttpRequest, row: Changeset) -> Mapping[str, Sequence[Link]]:
        entities = dict.fromkeys([row.entity_urn, *(change.urn for change in row.changes.all())])
        return {
            gettext("Source insights"): insight_links(getattr(row, "sources", [])),
            gettext("Entities"): entity_links([urn for urn in entities if urn]),
        }

    def history_lines(self, request: HttpRequest, row: Changeset) -> Sequence[HistoryLine]:
        decisions = Decision.objects.filter(insight__in=getattr(row, "sources", []))
        reviewed = [HistoryLine(one.at, one.get_kind_display(), one.by, one.notes) for one in decisions]
        return sorted([*lines_of_changeset(row), *reviewed], key=lambda line: line.at, reverse=True)

    @admin.display(description=gettext_lazy("changeset"), ordering="entity_urn")
    def subject(self, changeset: Changeset) -> str:
        return entity_names([changeset.entity_urn]) if changeset.entity_urn else gettext("No target entity")

    @admin.display(description=gettext_lazy("state"), ordering="state")
    def badge(self, changeset: Changeset) -> SafeString:
        return badge(changeset.state, changeset.get_state_display().lower())

    @admin.display(description=gettext_lazy("changes"))
    def summary(self, changeset: Changeset) -> str:
        titles = [
            gettext("%(value)s of %(entity)s") % {"value": change.title, "entity": change.entity}
            for change in of_changes(changeset.changes.all())
        ]
        shown = "; ".join(titles[:2])
        if len(titles) <= 2:
            return shown
        return gettext("%(changes)s and %(n)s more") % {"changes": shown, "n": len(titles) - 2}

    @admin.display(description=gettext_lazy("applied"), ordering="created_at")
    def captured(self, changeset: Changeset) -> str:
        return age(changeset.created_at)

    @admin.display(description=gettext_lazy("changes"))
    def diff(self, changeset: Changeset) -> SafeString:
        rows = ((line_of(change), change.outcome) for change in of_changes(changeset.changes.all()))
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} ({})</li>", rows))


def visible_sources(caller: Caller, changeset: Changeset) -> list[Insight]:
    return list(Insight.objects.visible_to(caller).filter(pk__in=changeset.insight_ids).select_related("record"))

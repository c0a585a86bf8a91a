from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.timesince import timesince

from knowledge import catalog as catalogs
from knowledge import review
from knowledge.catalog.snapshot import Snapshot
from knowledge.changes.readable import Readable, of_changes
from knowledge.models import CatalogAspect, CatalogCursor, CatalogEntity, Change, Changeset, EntityBaseline, Insight
from knowledge.queries import may_curate
from memories.access import Caller, caller_of
from memories.admin import ReadOnlyAdmin, entity_names
from memories.admin_actions import AdminAct
from memories.contract.links import link_to
from memories.models import MemoryRecord

ACTS = [
    AdminAct(
        "approve",
        "Approve",
        "Each memory gets the visibility that its owner asked for. An insight of your own, or of a persona that you "
        "don't hold, is refused; the others are approved.",
        permissions=["curate"],
    ),
    AdminAct(
        "reject",
        "Reject",
        "Each memory is archived, and its author is shown the reason.",
        needs_reason=True,
        reasons=review.REASONS,
        permissions=["curate"],
    ),
    AdminAct(
        "undo_review",
        "Undo decision",
        "Decisions that nothing was applied on are undone: the insights wait for review again.",
        permissions=["curate"],
    ),
]


SHOWN = [
    "page", "text", "badge", "category", "confidence", "persona", "captured_by", "captured_at", "about", "effect",
    "decisions", "changeset", "wanted_visibility",
]  # fmt: skip


@admin.register(Insight)
class InsightAdmin(ReadOnlyAdmin):
    list_display = [
        "text",
        "badge",
        "category",
        "confidence",
        "persona",
        "captured_by",
        "about",
        "captured_at",
        "notes",
    ]
    list_filter = ["state", "record__category", "record__confidence", "record__persona"]
    ordering = ["-record__created_at"]
    search_fields = ["record__content", "record__created_by"]
    search_help_text = "Words of the text, an author, or the URN of an entity."
    fields = (*SHOWN,)
    readonly_fields = SHOWN
    actions = [act.as_action() for act in ACTS]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Insight]:
        return Insight.objects.visible_to(caller_of(request, door="admin")).select_related("record", "changeset")

    def has_curate_permission(self, request: HttpRequest) -> bool:
        return may_curate(caller_of(request, door="admin"))

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Insight], search_term: str
    ) -> tuple[QuerySet[Insight], bool]:
        if search_term.startswith("urn:li:"):
            return queryset.filter(record__entity_urns__contains=[search_term.strip()]), False
        return super().get_search_results(request, queryset, search_term)

    @admin.display(description="insight")
    def text(self, insight: Insight) -> str:
        return str(insight.record)

    @admin.display(description="state", ordering="state")
    def badge(self, insight: Insight) -> SafeString:
        return format_html('<span class="badge {0}">{0}</span>', insight.state)

    @admin.display(description="category", ordering="record__category")
    def category(self, insight: Insight) -> str:
        return insight.record.category.replace("_", " ")

    @admin.display(description="confidence", ordering="record__confidence")
    def confidence(self, insight: Insight) -> str:
        return insight.record.confidence

    @admin.display(description="persona", ordering="record__persona")
    def persona(self, insight: Insight) -> str:
        return insight.record.persona

    @admin.display(description="captured by", ordering="record__created_by")
    def captured_by(self, insight: Insight) -> str:
        return insight.record.created_by

    @admin.display(description="captured", ordering="record__created_at")
    def captured_at(self, insight: Insight) -> str:
        return f"{timesince(insight.record.created_at)} ago"

    @admin.display(description="about")
    def about(self, insight: Insight) -> str:
        return entity_names(insight.record.entity_urns)

    @admin.display(description="decision")
    def notes(self, insight: Insight) -> str:
        return f"{insight.reviewed_by}: {insight.review_notes}" if insight.review_notes else insight.reviewed_by

    @admin.display(description="page")
    def page(self, insight: Insight) -> SafeString:
        return format_html('<a href="{}">Open in the review</a>', link_to("insight", insight.pk.hex))

    @admin.display(description="what applying would change")
    def effect(self, insight: Insight) -> SafeString:
        effect = review.effect(insight, Snapshot(catalogs.readable()))
        if effect.error:
            return format_html("<p>{}</p>", effect.error)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((line_of(c),) for c in effect.readable)))

    @admin.display(description="decisions")
    def decisions(self, insight: Insight) -> SafeString:
        rows = ((f"{d.at:%Y-%m-%d %H:%M}", d.get_kind_display(), d.by, d.notes) for d in insight.decisions.all())
        return format_html("<ol>{}</ol>", format_html_join("", "<li>{} {} by {} {}</li>", rows))


def line_of(change: Readable) -> SafeString:
    """One change as a line: what, where, before and after."""
    before = format_html("<del>{}</del> ", change.before) if change.had_before else ""
    after = "removed" if change.removes else format_html("<ins>{}</ins>", change.after)
    return format_html("{} of {}: {}{}", change.title, change.entity, before, after)


class ChangeInline(admin.TabularInline[Change, Changeset]):
    model = Change
    fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    readonly_fields = ["change_type", "urn", "aspect", "path", "had_before", "before", "written", "outcome", "error"]
    extra = 0
    can_delete = False
    classes = ["collapse"]
    verbose_name_plural = "writes as they are stored"

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Changeset)
class ChangesetAdmin(ReadOnlyAdmin):
    list_display = ["subject", "badge", "applied_by", "created_at", "rolled_back_by", "catalog"]
    list_filter = ["state", "catalog"]
    date_hierarchy = "created_at"
    search_fields = ["entity_urn", "applied_by"]
    search_help_text = "A part of the entity's URN, or who applied it."
    fieldsets = [
        (None, {"fields": ["page", "subject", "badge", "diff", "sources", "applied_by", "created_at", "finished_at"]}),
        ("Rolled back", {"fields": ["rolled_back_by", "rolled_back_at"]}),
        ("As it is stored", {"classes": ["collapse"], "fields": ["entity_urn", "insight_ids", "personas", "error"]}),
    ]
    readonly_fields = ["page", "subject", "badge", "diff", "sources"]
    inlines = [ChangeInline]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Changeset]:
        return Changeset.objects.visible_to(caller_of(request, door="admin"))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Changeset | None:
        changeset: Changeset | None = super().get_object(request, *args, **kwargs)
        if changeset is not None:
            caller = caller_of(request, door="admin")
            changeset.visible_sources = visible_sources(caller, changeset)  # type: ignore[attr-defined]
        return changeset

    @admin.display(description="changeset", ordering="entity_urn")
    def subject(self, changeset: Changeset) -> str:
        return entity_names([changeset.entity_urn]) if changeset.entity_urn else "A document"

    @admin.display(description="state", ordering="state")
    def badge(self, changeset: Changeset) -> SafeString:
        return format_html('<span class="badge {}">{}</span>', changeset.state, changeset.get_state_display().lower())

    @admin.display(description="page")
    def page(self, changeset: Changeset) -> SafeString:
        return format_html('<a href="{}">Open, roll back or export</a>', link_to("changeset", changeset.pk.hex))

    @admin.display(description="what was written")
    def diff(self, changeset: Changeset) -> SafeString:
        rows = ((line_of(change), change.outcome) for change in of_changes(changeset.changes.all()))
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{} ({})</li>", rows))

    @admin.display(description="from these insights")
    def sources(self, changeset: Changeset) -> SafeString:
        insights: list[Insight] = getattr(changeset, "visible_sources", [])
        rows = ((link_to("insight", insight.pk.hex), str(insight.record)) for insight in insights)
        return format_html("<ul>{}</ul>", format_html_join("", '<li><a href="{}">{}</a></li>', rows))


def visible_sources(caller: Caller, changeset: Changeset) -> list[Insight]:
    """The insights that a changeset was made from, of those that the caller may see."""
    return list(Insight.objects.visible_to(caller).filter(pk__in=changeset.insight_ids).select_related("record"))


@admin.register(CatalogEntity)
class CatalogEntityAdmin(ReadOnlyAdmin):
    list_display = ["name", "entity_type", "platform", "deprecated", "removed"]
    list_filter = ["entity_type", "platform", "deprecated", "removed"]
    search_fields = ["name", "qualified_name"]
    exclude = ["search"]


@admin.register(CatalogAspect)
class CatalogAspectAdmin(ReadOnlyAdmin):
    list_display = ["urn", "aspect", "version", "is_latest", "created_at"]
    list_filter = ["aspect", "is_latest"]
    search_fields = ["urn"]


@admin.register(CatalogCursor)
class CatalogCursorAdmin(ReadOnlyAdmin):
    """How far events and the mirror have got, and what the watcher's last sweep could not do."""

    list_display = ["name", "value", "updated_at"]


@admin.register(EntityBaseline)
class EntityBaselineAdmin(ReadOnlyAdmin):
    list_display = ["record", "urn", "existed", "deprecated", "taken_at", "checked_at", "to_verify"]
    list_filter = ["existed", "deprecated"]
    search_fields = ["urn"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[EntityBaseline]:
        visible = MemoryRecord.objects.visible_to(caller_of(request, door="admin")).values("pk")
        return EntityBaseline.objects.filter(record__in=visible).select_related("record")

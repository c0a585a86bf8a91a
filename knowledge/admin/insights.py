"""Admin pages of insights, with the review actions and their previews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy

from foundation.links import url_for
from foundation.operations.display import show_invisible
from foundation.people.caller import Caller
from knowledge.admin.related import links_of_record, review_of_record
from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.snapshot import CatalogSnapshot
from knowledge.changesets.diff import Readable, of_changes
from knowledge.insights.queries import may_curate
from knowledge.models import Insight, InsightState
from knowledge.review import suggested
from knowledge.review.review_page import effect_of
from memories.admin.actions import AdminAction, Preview, as_they_are
from memories.admin.base import (
    ConditionFilter,
    NameSearch,
    PersonaFilter,
    PickFilter,
    ReadOnlyAdmin,
    admin_caller,
    age,
    badge,
    entity_names,
    person,
    stacked,
    with_name,
)
from memories.admin.history import HistoryLine, add_source, lines_about
from memories.admin.records import chain_list
from memories.admin.rows import Link, add_links, links_of
from memories.history import chain
from memories.models import MemoryRecord


def line_of(change: Readable) -> SafeString:
    before = format_html("<del>{}</del> ", change.before) if change.had_before else ""
    after = gettext("removed") if change.removes else format_html("<ins>{}</ins>", change.after)
    title = gettext("%(value)s of %(entity)s") % {"value": change.title, "entity": change.entity}
    return format_html("{}: {}{}", title, before, after)


def preview_approval(caller: Caller, insights: Sequence[Insight]) -> list[SafeString]:
    return [
        format_html(
            "{} <small>· {}</small>",
            show_invisible(str(insight.record)),
            gettext("readers once approved: %(readers)s")
            % {"readers": insight.get_wanted_visibility_display().lower()},
        )
        for insight in insights
    ]


def preview_application(caller: Caller, insights: Sequence[Insight]) -> list[SafeString]:
    preview = suggested.preview(insights)
    lines = []
    for entry in [*preview.possible, *preview.impossible]:
        changes = format_html_join("", "<li>{}</li>", ((line_of(change),) for change in entry.effect.readable))
        problem = "" if entry.effect.is_possible else entry.effect.error or gettext("it suggests no change")
        text = show_invisible(str(entry.insight.record))
        lines.append(format_html('{} <span class="fault">{}</span><ul>{}</ul>', text, problem, changes))
    return lines


CURATES = ["curate"]
# How the confirmation page shows what becomes of the rows, for each action.
PREVIEWS: dict[str, Preview] = {
    "approve": preview_approval,
    "reject": as_they_are,
    "needs_more": as_they_are,
    "hand_over": as_they_are,
    "apply": preview_application,
    "roll_back_insight": as_they_are,
    "undo_review": as_they_are,
}


class EntityFilter(PickFilter):
    title = gettext_lazy("entity")
    parameter_name = "entity"
    kind = "entity"
    column = "record__entity_urns__contains"


class InsightPersonaFilter(PersonaFilter):
    column = "record__persona"


class WaitsForAuthor(ConditionFilter):
    title = gettext_lazy("open question")
    parameter_name = "question"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", gettext("Waiting for the author")), ("none", gettext("No open question"))]

    def condition(self, value: str) -> Q | None:
        return Q(question_at__isnull=value == "none") if value in ("open", "none") else None


class AuthorFilter(PickFilter):
    title = gettext_lazy("author")
    parameter_name = "author"
    kind = "person"
    column = "record__created_by"


SHOWN = (
    "content", "badge", "effect", "category", "confidence", "persona", "captured_by", "captured_at", "replaced",
    "chain", "wanted_visibility", "assignee",
)  # fmt: skip
STORED = ("suggested_actions", "pending_edit", "question_at", "reviewed_at", "applied_at")


@admin.register(Insight)
class InsightAdmin(NameSearch, ReadOnlyAdmin):
    owner_column = "record__created_by"
    entities_column = "record__entity_urns"
    list_display = ["text", "badge", "category", "author", "captured_at", "decided_by"]
    more_columns = ("confidence", "of_persona", "notes")
    list_filter = [
        "state", "record__category", "record__confidence", InsightPersonaFilter, EntityFilter, AuthorFilter,
        WaitsForAuthor, "assignee",
    ]  # fmt: skip
    date_hierarchy = "record__created_at"
    ordering = ["-record__created_at"]
    search_fields = ["record__content"]
    search_help_text = gettext_lazy("Words of the text, a person, or the name or URN of an entity.")
    fieldsets = [(None, {"fields": SHOWN}), ("Stored values", {"classes": ["collapse"], "fields": STORED})]
    readonly_fields = [*SHOWN, *STORED]
    actions = [AdminAction(name, preview, CURATES).for_menu() for name, preview in PREVIEWS.items()]
    presets = (
        (gettext_lazy("Waiting"), "state__exact=pending&question=none"),
        (gettext_lazy("Needs info"), "state__exact=pending&question=open"),
        (gettext_lazy("Approved, not applied"), "state__exact=approved"),
        (gettext_lazy("Applied"), "state__exact=applied"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Insight]:
        rows = Insight.objects.visible_to(admin_caller(request)).select_related("record", "changeset")
        named = with_name(rows.defer("record__search"), "record__created_by")
        return with_name(named, "reviewed_by", "reviewer_name")

    def has_curate_permission(self, request: HttpRequest) -> bool:
        return may_curate(admin_caller(request))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Insight | None:
        insight: Insight | None = super().get_object(request, *args, **kwargs)
        if insight is not None:
            insight.visible_chain = chain(admin_caller(request), insight.record)  # type: ignore[attr-defined]
        return insight

    def portal_links(self, request: HttpRequest, row: Insight) -> Sequence[Link]:
        page = Link(gettext("Open in the review"), url_for("insight", row.pk.hex))
        may_edit = admin_caller(request).can_review_for(row.record.persona)
        if row.state != InsightState.PENDING or not may_edit:
            return [page]
        return [page, Link(gettext("Edit"), url_for("edit-insight", row.pk.hex))]

    def links(self, request: HttpRequest, row: Insight) -> Mapping[str, Sequence[Link]]:
        caller = admin_caller(request)
        memory = MemoryRecord.objects.visible_to(caller).filter(pk=row.pk).first()
        address = reverse("admin:memories_memoryrecord_change", args=[row.pk])
        own = [Link(show_invisible(str(row.record)), address)] if memory else []
        related = links_of(caller, row.record)
        others = [link for link in related.pop(gettext("Insights"), []) if str(row.pk) not in link.address]
        return {gettext("Memory"): own, **related, gettext("Other insights"): others}

    def history_lines(self, request: HttpRequest, row: Insight) -> Sequence[HistoryLine]:
        return lines_about(admin_caller(request), row.record, getattr(row, "visible_chain", [row.record]))

    @admin.display(description=gettext_lazy("insight"))
    def content(self, insight: Insight) -> str:
        return show_invisible(insight.record.content)

    @admin.display(description=gettext_lazy("insight"))
    def text(self, insight: Insight) -> SafeString:
        text = Truncator(show_invisible(insight.record.content)).chars(200)
        return stacked(text, entity_names(insight.record.entity_urns))

    @admin.display(description=gettext_lazy("captured by"), ordering="record__created_by")
    def author(self, insight: Insight) -> SafeString:
        return person(insight.record.created_by, getattr(insight, "person_name", None))

    @admin.display(description=gettext_lazy("decided by"), ordering="reviewed_at")
    def decided_by(self, insight: Insight) -> SafeString | str:
        if not insight.reviewed_by:
            return "–"
        return person(insight.reviewed_by, getattr(insight, "reviewer_name", None))

    @admin.display(description=gettext_lazy("persona"), ordering="record__persona")
    def of_persona(self, insight: Insight) -> str:
        return insight.record.persona

    @admin.display(description=gettext_lazy("state"), ordering="state")
    def badge(self, insight: Insight) -> SafeString:
        has_question = insight.state == InsightState.PENDING and insight.question_at
        return badge(insight.state, gettext("needs info") if has_question else insight.get_state_display().lower())

    @admin.display(description=gettext_lazy("category"), ordering="record__category")
    def category(self, insight: Insight) -> str:
        return insight.record.get_category_display().lower()

    @admin.display(description=gettext_lazy("confidence"), ordering="record__confidence")
    def confidence(self, insight: Insight) -> str:
        return insight.record.get_confidence_display().lower()

    @admin.display(description=gettext_lazy("captured by"), ordering="record__created_by")
    def captured_by(self, insight: Insight) -> str:
        return insight.record.created_by

    @admin.display(description=gettext_lazy("captured"), ordering="record__created_at")
    def captured_at(self, insight: Insight) -> str:
        return age(insight.record.created_at)

    @admin.display(description=gettext_lazy("note of the decision"))
    def notes(self, insight: Insight) -> str:
        return show_invisible(insight.review_notes) or "–"

    @admin.display(description=gettext_lazy("changes to the catalog"))
    def effect(self, insight: Insight) -> SafeString:
        if insight.state == InsightState.APPLIED and insight.changeset:  # the catalog has the new values already
            done = format_html_join(
                "", "<li>{}</li>", ((line_of(c),) for c in of_changes(insight.changeset.changes.all()))
            )
            return format_html("<ul>{}</ul>", done)
        effect = effect_of(insight, CatalogSnapshot(get_readable_catalog()))
        if effect.error:
            return format_html("<p>{}</p>", effect.error)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((line_of(c),) for c in effect.readable)))

    @admin.display(description=gettext_lazy("replaces"))
    def replaced(self, insight: Insight) -> SafeString | str:
        return (
            format_html(
                '<a href="{}">{}</a>',
                reverse("admin:memories_memoryrecord_change", args=[insight.replaces_id]),
                gettext("a memory"),
            )
            if insight.replaces_id
            else "–"
        )

    @admin.display(description=gettext_lazy("correction chain"))
    def chain(self, insight: Insight) -> SafeString:
        return chain_list(getattr(insight, "visible_chain", []), insight.pk)


add_source(review_of_record)
add_links(links_of_record)

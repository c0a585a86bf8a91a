"""Admin pages of insights, with the review actions and their previews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from knowledge.catalog.current import get_readable_catalog
from knowledge.catalog.snapshot import Snapshot
from knowledge.changesets import suggested
from knowledge.changesets.diff import Readable
from knowledge.insights.queries import may_curate
from knowledge.models import Insight, InsightState
from knowledge.review import clarifications
from knowledge.review.cases import QUESTIONS, REASONS, effect_of
from knowledge.review.seen import versions_of
from memories.admin.actions import AdminAct
from memories.admin.base import PickFilter, ReadOnlyAdmin, admin_caller, age, badge, entity_names, stacked
from memories.contract.display import show_invisible
from memories.contract.urls import url_for
from memories.history import chain
from memories.identity.caller import Caller


def line_of(change: Readable) -> SafeString:
    before = format_html("<del>{}</del> ", change.before) if change.had_before else ""
    after = "removed" if change.removes else format_html("<ins>{}</ins>", change.after)
    return format_html("{} of {}: {}{}", change.title, change.entity, before, after)


def preview_approval(caller: Caller, insights: Sequence[Insight]) -> list[SafeString]:
    return [
        format_html(
            "{} <small>· visibility once approved: {}</small>",
            show_invisible(str(insight.record)),
            insight.get_wanted_visibility_display().lower(),
        )
        for insight in insights
    ]


def preview_application(caller: Caller, insights: Sequence[Insight]) -> list[SafeString]:
    preview = suggested.preview(insights)
    lines = []
    for entry in [*preview.possible, *preview.impossible]:
        changes = format_html_join("", "<li>{}</li>", ((line_of(change),) for change in entry.effect.readable))
        problem = "" if entry.effect.is_possible else entry.effect.error or "it suggests no change"
        text = show_invisible(str(entry.insight.record))
        lines.append(format_html('{} <span class="fault">{}</span><ul>{}</ul>', text, problem, changes))
    return lines


def in_states(*states: str) -> Any:
    return lambda caller, rows: rows.filter(state__in=states)


def colleague_choices(caller: Caller) -> list[tuple[str, str]]:
    return [(person.email, str(person)) for person in clarifications.colleagues(caller)]


CURATES = ["curate"]
ACTS = [
    AdminAct(
        "approve",
        "Approve",
        "Each memory gets the visibility that its owner asked for. Unless you are an admin, your own insights and "
        "those of personas that you don't hold are skipped and stay undecided.",
        permissions=CURATES,
        versions=versions_of,
        preview=preview_approval,
    ),
    AdminAct(
        "reject",
        "Reject",
        "Archives each memory and shows the reason to its author.",
        needs_reason=True,
        reasons=REASONS,
        permissions=CURATES,
        versions=versions_of,
    ),
    AdminAct(
        "needs_more",
        "Needs info",
        "Asks the authors your question. The insights leave the queue until their authors have answered.",
        needs_reason=True,
        reasons=QUESTIONS,
        permissions=CURATES,
        versions=versions_of,
    ),
    AdminAct(
        "hand_over",
        "Hand to a colleague",
        "Asks a colleague to decide. Other curators can still decide, too.",
        choices=colleague_choices,
        choice_label="The colleague",
        permissions=CURATES,
        versions=versions_of,
    ),
    AdminAct(
        "apply",
        "Apply to the catalog",
        "Writes the suggested changes of approved insights to the catalog. Each insight gets its own changeset, which "
        "can be rolled back.",
        permissions=CURATES,
        versions=versions_of,
        preview=preview_application,
        narrow=in_states(InsightState.APPROVED),
    ),
    AdminAct(
        "roll_back_insight",
        "Roll back",
        "Restores the previous values in the catalog and returns the insights to review. An insight is skipped if "
        "others have changed its values in the catalog since.",
        permissions=CURATES,
        narrow=in_states(InsightState.APPLIED),
    ),
    AdminAct(
        "undo_review",
        "Undo decision",
        "Undoes the last decision and returns the insights to review. Applied insights have to be rolled back instead.",
        permissions=CURATES,
        versions=versions_of,
        narrow=in_states(InsightState.APPROVED, InsightState.REJECTED),
    ),
]


class EntityFilter(PickFilter):
    title, parameter_name, kind, column = "entity", "entity", "entity", "record__entity_urns__contains"


class WaitsForAuthor(admin.SimpleListFilter):
    title, parameter_name = "open question", "question"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("open", "Waiting for the author"), ("none", "No open question")]

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(question_at__isnull=self.value() == "none") if self.value() in ("open", "none") else rows


class AuthorFilter(PickFilter):
    title, parameter_name, kind, column = "author", "author", "person", "record__created_by"


SHOWN = (
    "page", "text", "badge", "category", "confidence", "persona", "captured_by", "captured_at", "about", "effect",
    "replaced", "decisions", "chain", "changeset", "wanted_visibility", "assignee",
)  # fmt: skip
STORED = ("suggested_actions", "pending_edit", "question_at", "reviewed_at", "applied_at")


@admin.register(Insight)
class InsightAdmin(ReadOnlyAdmin):
    list_display = [
        "text", "kind", "author", "captured_at", "decision",
    ]  # fmt: skip
    list_filter = [
        "state", "record__category", "record__confidence", "record__persona", EntityFilter, AuthorFilter,
        WaitsForAuthor, "assignee",
    ]  # fmt: skip
    date_hierarchy = "record__created_at"
    ordering = ["-record__created_at"]
    search_fields = ["record__content", "record__created_by"]
    search_help_text = "Search by words of the text, an author, or the URN of an entity."
    fieldsets = [(None, {"fields": SHOWN}), ("Stored values", {"classes": ["collapse"], "fields": STORED})]
    readonly_fields = [*SHOWN, *STORED]
    actions = [act.as_action() for act in ACTS]
    view_page = "admin:knowledge_insight_changelist"
    presets = (
        ("Waiting", "state__exact=pending&question=none"),
        ("Needs info", "state__exact=pending&question=open"),
        ("Approved, not applied", "state__exact=approved"),
        ("Applied", "state__exact=applied"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Insight]:
        rows = Insight.objects.visible_to(admin_caller(request)).select_related("record", "changeset")
        return rows.defer("record__search")

    def has_curate_permission(self, request: HttpRequest) -> bool:
        return may_curate(admin_caller(request))

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Insight | None:
        insight: Insight | None = super().get_object(request, *args, **kwargs)
        if insight is not None:
            insight.visible_chain = chain(admin_caller(request), insight.record)  # type: ignore[attr-defined]
        return insight

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Insight], search_term: str
    ) -> tuple[QuerySet[Insight], bool]:
        if search_term.startswith("urn:li:"):
            return queryset.filter(record__entity_urns__contains=[search_term.strip()]), False
        return super().get_search_results(request, queryset, search_term)

    @admin.display(description="insight")
    def text(self, insight: Insight) -> SafeString:
        text = Truncator(show_invisible(insight.record.content)).chars(200)
        return stacked(text, entity_names(insight.record.entity_urns))

    @admin.display(description="state", ordering="state")
    def kind(self, insight: Insight) -> SafeString:
        record = insight.record
        return stacked(self.badge(insight), f"{record.category.replace('_', ' ')}, {record.confidence}")

    @admin.display(description="captured by", ordering="record__created_by")
    def author(self, insight: Insight) -> SafeString:
        return stacked(insight.record.created_by, insight.record.persona)

    @admin.display(description="decision", ordering="reviewed_at")
    def decision(self, insight: Insight) -> SafeString:
        assignment = f"handed to {insight.assignee}" if insight.assignee else ""
        return stacked(self.notes(insight), assignment)

    @admin.display(description="state", ordering="state")
    def badge(self, insight: Insight) -> SafeString:
        has_question = insight.state == InsightState.PENDING and insight.question_at
        return badge(insight.state, "needs info" if has_question else "")

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
        return age(insight.record.created_at)

    @admin.display(description="entities")
    def about(self, insight: Insight) -> str:
        return entity_names(insight.record.entity_urns)

    @admin.display(description="decision")
    def notes(self, insight: Insight) -> str:
        return f"{insight.reviewed_by}: {insight.review_notes}" if insight.review_notes else insight.reviewed_by

    @admin.display(description="page")
    def page(self, insight: Insight) -> SafeString:
        return format_html('<a href="{}">Open in the review</a>', url_for("insight", insight.pk.hex))

    @admin.display(description="changes to the catalog")
    def effect(self, insight: Insight) -> SafeString:
        effect = effect_of(insight, Snapshot(get_readable_catalog()))
        if effect.error:
            return format_html("<p>{}</p>", effect.error)
        return format_html("<ul>{}</ul>", format_html_join("", "<li>{}</li>", ((line_of(c),) for c in effect.readable)))

    @admin.display(description="replaces")
    def replaced(self, insight: Insight) -> SafeString | str:
        return (
            format_html('<a href="{}">a memory</a>', url_for("memory", insight.replaces_id.hex))
            if insight.replaces_id
            else "nothing"
        )

    @admin.display(description="correction chain")
    def chain(self, insight: Insight) -> SafeString:
        links = getattr(insight, "visible_chain", [])
        rows = ((url_for("memory", link.pk.hex), show_invisible(link.content), link.status) for link in links)
        return format_html("<ol>{}</ol>", format_html_join("", '<li><a href="{}">{}</a> ({})</li>', rows))

    @admin.display(description="decisions")
    def decisions(self, insight: Insight) -> SafeString:
        rows = ((f"{d.at:%Y-%m-%d %H:%M}", d.get_kind_display(), d.by, d.notes) for d in insight.decisions.all())
        return format_html("<ol>{}</ol>", format_html_join("", "<li>{} {} by {} {}</li>", rows))

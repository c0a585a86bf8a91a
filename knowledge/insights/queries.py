"""Queries for insights and changesets that the caller may see, and the changes that `synthesize` proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import (
    Count,
    DateTimeField,
    DurationField,
    ExpressionWrapper,
    F,
    Func,
    Max,
    Min,
    Q,
    TextField,
    Value,
)
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.current import get_catalog
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.models import CatalogAspect, Changeset, Insight, InsightState
from knowledge.models.changeset import ChangesetQuerySet
from knowledge.models.insight import InsightQuerySet
from memories.models import IN_USE, Feedback, MemoryRecord
from memories.models.record import about_any
from memories.models.validity import within

ENTITIES_SHOWN = 50
MAX_TITLE = 80  # maximum number of characters of a proposed document's title


def insight(caller: Caller, insight_id: UUID | str) -> Insight:
    pk = validate(Id, insight_id, "insight_id")
    row = Insight.objects.visible_to(caller).select_related("record").filter(pk=pk).first()
    if row is None:
        raise NotFound(gettext("no such insight"), field="insight_id")
    return row


def may_curate(caller: Caller) -> bool:
    return caller.is_curator


def waiting(caller: Caller) -> InsightQuerySet:
    """Return the review queue, oldest first: pending insights and edits of approved ones.

    Left out are withdrawn insights, and pending insights that are snoozed or have an open question to their author (see
    `snoozed` and `awaiting_authors`).
    """
    is_awake = Q(snoozed_until__isnull=True) | Q(snoozed_until__lte=timezone.now())
    pending = Q(state=InsightState.PENDING, question_at__isnull=True) & is_awake
    rows = Insight.objects.visible_to(caller).filter(pending | Q(edit_at__isnull=False))
    return rows.filter(record__status__in=IN_USE).select_related("record").order_by("record__created_at", "pk")


def awaiting_authors(caller: Caller) -> InsightQuerySet:
    """Return pending insights with a curator's question that the author hasn't answered yet."""
    rows = Insight.objects.visible_to(caller).filter(state=InsightState.PENDING, question_at__isnull=False)
    return rows.filter(record__status__in=IN_USE).select_related("record")


def snoozed(caller: Caller) -> InsightQuerySet:
    """Return pending insights that return to the queue later."""
    return in_state(caller, InsightState.PENDING).filter(snoozed_until__gt=timezone.now())


def with_due_time(rows: InsightQuerySet) -> InsightQuerySet:
    """Add `due_at`: when the insight, or the pending edit, reaches the target age of its rule or of the setting."""
    days = Coalesce(F("target_days"), Value(settings.REVIEW_TARGET_DAYS))
    target = Func(days, template="make_interval(days => %(expressions)s)", output_field=DurationField())
    since = Coalesce(F("edit_at"), F("record__created_at"))
    return rows.annotate(due_at=ExpressionWrapper(since + target, output_field=DateTimeField()))


def backlog(caller: Caller) -> InsightQuerySet:
    """Return approved insights that aren't in a changeset yet."""
    return in_state(caller, InsightState.APPROVED).filter(changeset__isnull=True)


def in_state(caller: Caller, state: str) -> InsightQuerySet:
    rows = Insight.objects.visible_to(caller).filter(state=state).select_related("record")
    # An insight that was withdrawn no longer has to be decided or applied.
    return rows.filter(record__status__in=IN_USE) if state in (InsightState.PENDING, InsightState.APPROVED) else rows


def insight_of(caller: Caller, record: MemoryRecord) -> Insight | None:
    """Return the insight of a memory, or None if there is none that the caller may see."""
    return Insight.objects.visible_to(caller).filter(pk=record.pk).select_related("changeset").first()


def by_ids(caller: Caller, ids: Sequence[UUID]) -> InsightQuerySet:
    """Return those of these insights that the caller may see."""
    return Insight.objects.visible_to(caller).filter(pk__in=ids).select_related("record")


def proposed_by(caller: Caller) -> InsightQuerySet:
    return Insight.objects.filter(record__created_by=caller.email).select_related("record", "changeset")


def stamp_of_entity(caller: Caller, urn: str) -> str:
    """Return a string that changes with the entity, and with the memories about it that the caller may read."""
    rows = MemoryRecord.objects.visible_to(caller).lasting().filter(about_any([urn]))
    true_now = Count("pk", filter=within())
    memories = rows.order_by().aggregate(at=Max("updated_at"), count=Count("pk"), true_now=true_now)
    marks = Feedback.objects.filter(record__in=rows).order_by().aggregate(at=Max("at"), count=Count("pk"))
    versions = CatalogAspect.objects.filter(urn=urn, is_latest=True).order_by().aggregate(newest=Max("pk"))
    return f"{memories} {marks} {versions['newest']}"


def states_of(rows: InsightQuerySet) -> dict[str, int]:
    return dict(rows.order_by().values_list("state").annotate(n=Count("pk")))


def about(caller: Caller, urn: str) -> InsightQuerySet:
    rows = Insight.objects.visible_to(caller).about(urn).select_related("record")
    return rows.order_by("record__created_at", "pk")


def changesets(caller: Caller, urn: str = "") -> ChangesetQuerySet:
    rows = Changeset.objects.visible_to(caller)
    return rows.filter(entity_urn=urn) if urn else rows


@dataclass(frozen=True)
class CuratedPrompt:
    """A prompt made from an insight. `by` names the insight's authors, `curator` the curator who applied it."""

    name: str
    title: str
    text: str
    by: str
    curator: str

    @property
    def provenance(self) -> str:
        writers = f"Written by {self.by}, " if self.by and self.by != self.curator else ""
        return f"{writers}added by the curator {self.curator or 'unknown'}; not part of Commonplace."


def curated_prompts() -> list[CuratedPrompt]:
    """Return the prompts that curators have added, by name. Every user may see them."""
    rows = CatalogAspect.objects.filter(aspect="promptInfo", is_latest=True, value__isnull=False)
    living = LocalCatalog().existing([row.urn for row in rows])
    values = [row.value or {} for row in rows if row.urn in living]
    fields = ("name", "title", "text", "by", "curator")
    prompts = [CuratedPrompt(*(str(value.get(field, "")) for field in fields)) for value in values]
    return sorted(prompts, key=lambda prompt: prompt.name)


def overview(caller: Caller) -> dict[str, Any]:
    queue = waiting(caller).order_by()
    oldest: datetime | None = queue.aggregate(at=Min("record__created_at"))["at"]
    entity = Func(F("record__entity_urns"), function="unnest", output_field=TextField())
    by_entity = (
        queue.annotate(urn=entity)
        .values("urn")
        .annotate(
            count=Count("pk"),
            latest_at=Max("record__created_at"),
            categories=ArrayAgg("record__category", distinct=True),
        )
        .order_by("-count", "urn")
    )
    rows = list(by_entity[: ENTITIES_SHOWN + 1])
    return {
        "total_pending": queue.count(),
        "oldest_at": oldest.isoformat() if oldest else None,
        "by_entity": [
            {
                "urn": row["urn"],
                "count": row["count"],
                "categories": row["categories"],
                "latest_at": row["latest_at"].isoformat(),
            }
            for row in rows[:ENTITIES_SHOWN]
        ],
        "more_entities": len(rows) > ENTITIES_SHOWN,
        "by_category": dict(queue.values_list("record__category").annotate(n=Count("pk")).order_by("-n")),
        "by_confidence": dict(queue.values_list("record__confidence").annotate(n=Count("pk")).order_by("-n")),
    }


def synthesize(caller: Caller, urn: str, insights: Sequence[Insight]) -> tuple[list[dict[str, Any]], str]:
    """Return the changes that these insights propose, and a note on missing values or missing insights.

    Changes of the entity's description include the current description.
    """
    proposed = proposals(insights)
    note = ""
    current = ""
    if urn:
        try:
            aspects = get_catalog().read([urn], entity_view.ASPECTS)[urn]
            values = {name: aspect.value for name, aspect in aspects.items() if aspect.value is not None}
            current = entity_view.parse_entity(urn, values).description
        except (CatalogUnavailable, CatalogRefused) as error:
            note = f"current values are missing: {error.message}"
    for proposal in proposed:
        if proposal["change_type"] == "update_description" and not proposal["target"]:
            proposal["current_value"] = current
    if not proposed:
        note = note or "no approved insights: a curator reviews the waiting ones first"
    return proposed, note


def proposals(insights: Sequence[Insight]) -> list[dict[str, Any]]:
    """Return the changes that insights suggest, deterministically. Equal suggestions become one change.

    An insight without suggested actions becomes a context document.
    """
    proposed: dict[tuple[str, ...], dict[str, Any]] = {}
    for source in insights:
        for action in source.suggested_actions or [_document(source)]:
            names = ("action_type", "target", "detail", "query_sql", "query_description")
            texts = tuple(str(action.get(name, "")) for name in names)
            proposal = proposed.setdefault(
                texts,
                {
                    "change_type": action["action_type"],
                    "target": action.get("target", ""),
                    "suggested_value": action.get("detail", ""),
                    "source_insight_ids": [],
                },
            )
            for name in ("query_sql", "query_description"):
                if action.get(name):
                    proposal[name] = action[name]
            proposal["source_insight_ids"].append(source.pk.hex)
    return list(proposed.values())


def _document(source: Insight) -> dict[str, str]:
    """Return an action that stores an insight, such as "we have two selling seasons", as a context document."""
    first = source.record.content.split(". ")[0].strip()
    title = first if len(first) <= MAX_TITLE else f"{first[: MAX_TITLE - 1].rsplit(' ', 1)[0]}…"
    return {
        "action_type": "add_context_document",
        "target": title,
        "detail": source.record.content,
        "query_description": source.record.category,
    }

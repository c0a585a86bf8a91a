"""Promoted knowledge: the entities that changesets have changed, with the memories whose insights were applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Q
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from knowledge.catalog.entity_view import short_name
from knowledge.changesets.delivery import ERASE
from knowledge.models import CatalogEntity, Change, ChangeOutcome, ChangesetState, Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from memories.models import IN_USE, MemoryRecord
from memories.models.record import MemoryRecordQuerySet, about_any

MAX_ENTITIES = 40
KINDS = {
    "entities": gettext_lazy("Entities"),
    "glossary": gettext_lazy("Glossary"),
    "documents": gettext_lazy("Documents"),
}
GLOSSARY, DOCUMENTS = Q(urn__startswith="urn:li:glossary"), Q(urn__startswith="urn:li:document")


@dataclass(frozen=True)
class Promoted:
    urn: str
    last: datetime
    changes: int
    name: str
    description: str = ""
    sources: list[MemoryRecord] = field(default_factory=list)


def _written_changes() -> Any:
    states = [ChangesetState.APPLIED, ChangesetState.PARTIAL]
    outcomes = [ChangeOutcome.LANDED, ChangeOutcome.NOOP]
    rows = Change.objects.filter(changeset__state__in=states, outcome__in=outcomes)
    return rows.exclude(change_type=ERASE)  # it is no knowledge that a text is gone


def counts() -> dict[str, int]:
    row: dict[str, int] = _written_changes().aggregate(
        glossary=Count("urn", distinct=True, filter=GLOSSARY),
        documents=Count("urn", distinct=True, filter=DOCUMENTS),
        entities=Count("urn", distinct=True, filter=~GLOSSARY & ~DOCUMENTS),
    )
    return row


def newest(caller: Caller, kind: str) -> list[Promoted]:
    condition = {"glossary": GLOSSARY, "documents": DOCUMENTS}.get(kind, ~GLOSSARY & ~DOCUMENTS)
    rows = list(
        _written_changes()
        .filter(condition)
        .values("urn")
        .annotate(
            last=Max("changeset__created_at"), count=Count("pk"), changesets=ArrayAgg("changeset_id", distinct=True)
        )
        .order_by("-last", "urn")[:MAX_ENTITIES]
    )
    entities = CatalogEntity.objects.defer("search").in_bulk([row["urn"] for row in rows])
    sources = _sources(caller, [pk for row in rows for pk in row["changesets"]])
    return [
        Promoted(
            urn=row["urn"],
            last=row["last"],
            changes=row["count"],
            name=str(entities[row["urn"]]) if row["urn"] in entities else short_name(row["urn"]),
            description=entities[row["urn"]].description if row["urn"] in entities else "",
            sources=[record for pk in row["changesets"] for record in sources.get(pk, [])],
        )
        for row in rows
    ]


def _sources(caller: Caller, changesets: Sequence[UUID]) -> dict[UUID, list[MemoryRecord]]:
    by_changeset: dict[UUID, list[MemoryRecord]] = {}
    applied = Insight.objects.visible_to(caller).filter(changeset__in=changesets, state=InsightState.APPLIED)
    for insight in applied.select_related("record").defer("record__search"):
        if insight.changeset_id:
            by_changeset.setdefault(insight.changeset_id, []).append(insight.record)
    return by_changeset


def about(caller: Caller, urn: str) -> tuple[MemoryRecordQuerySet, InsightQuerySet]:
    """Return the active and stale memories, and the pending and approved insights, about an entity.

    Both contain only what the caller may see.
    """
    memories = MemoryRecord.objects.visible_to(caller).facts().filter(about_any([urn]))
    memories = memories.filter(status__in=IN_USE).defer("search")
    insights = Insight.objects.visible_to(caller).about(urn).select_related("record")
    return memories, insights.filter(state__in=[InsightState.PENDING, InsightState.APPROVED])

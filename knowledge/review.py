"""What a curator sees while deciding: the queue's order, and everything that bears on one insight."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.utils import timezone
from pgvector.django import CosineDistance

from knowledge import catalog as catalogs
from knowledge import queries
from knowledge.catalog import facts
from knowledge.catalog.baselines import urns_of
from knowledge.catalog.port import CatalogPort, CatalogRefused, CatalogUnavailable
from knowledge.catalog.snapshot import Snapshot
from knowledge.changes.change_request import CHANGE_TYPES, Request
from knowledge.changes.planning import plan
from knowledge.changes.readable import Readable, of_planned
from knowledge.evidence import beside
from knowledge.models import Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from memories.access import Caller
from memories.contract.errors import DomainError
from memories.contract.operations import checked
from memories.history import chain
from memories.models import MemoryRecord, Status
from memories.queries import COUNT_MOST

NEIGHBOURS = 6
REASONS = ("Not true", "Known already", "Too vague to use", "Not for the catalog")  # presets of a rejection
ALIKE = 0.5  # cosine from which a memory about no named entity is near


@dataclass(frozen=True)
class Place:
    """The number of an insight in the queue, counted from 1, and its neighbours; after the last comes the first."""

    number: int
    total: int
    next_id: UUID | None = None
    previous_id: UUID | None = None


@dataclass(frozen=True)
class Queue:
    """What waits for this curator, oldest first, perhaps only about one entity or of one category."""

    caller: Caller
    entity: str = ""
    category: str = ""

    @property
    def rows(self) -> InsightQuerySet:
        rows = queries.waiting(self.caller)
        if not self.caller.is_admin:
            rows = rows.exclude(record__created_by=self.caller.email)  # somebody else decides those
        return self.narrowed(rows)

    def narrowed(self, rows: InsightQuerySet) -> InsightQuerySet:
        if self.entity:
            rows = rows.about(self.entity)
        return rows.filter(record__category=self.category) if self.category else rows

    @property
    def query_string(self) -> str:
        filters = {name: value for name, value in (("entity", self.entity), ("category", self.category)) if value}
        return f"?{urlencode(filters)}" if filters else ""

    def locate(self, insight: Insight | None = None) -> Place:
        """Where an insight stands; what is not in the queue stands before its first."""
        ids = list(self.rows.values_list("pk", flat=True)[: COUNT_MOST + 1])
        if insight is None or insight.pk not in ids:
            return Place(0, len(ids), next_id=ids[0] if ids else None)
        at = ids.index(insight.pk)
        other_ids = [*ids[at + 1 :], *ids[:at]]
        return Place(at + 1, len(ids), other_ids[0] if other_ids else None, ids[at - 1] if at else None)


def decided_today(caller: Caller) -> InsightQuerySet:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    return Insight.objects.filter(reviewed_by=caller.email, reviewed_at__gte=midnight)


def also_waiting(caller: Caller, insight: Insight) -> InsightQuerySet:
    """Other insights of the queue about the same entities: equal cases are decided together."""
    rows = queries.waiting(caller).filter(record__entity_urns__overlap=insight.record.entity_urns or [""])
    return rows.exclude(pk=insight.pk)


@dataclass(frozen=True)
class Effect:
    """What applying the insight would do to the catalog; `error` says why it can't be done as it stands."""

    entity_urn: str = ""
    changes: list[dict[str, Any]] = field(default_factory=list)
    readable: list[Readable] = field(default_factory=list)
    error: str = ""

    @property
    def is_possible(self) -> bool:
        return bool(self.readable) and not self.error


@dataclass(frozen=True)
class Case:
    """One insight with all that bears on it."""

    insight: Insight
    evidence: dict[str, Any]
    effect: Effect
    replaced: MemoryRecord | None
    hides_replaced: bool  # it replaces a memory that this curator may not see
    line: Sequence[MemoryRecord]
    neighbours: Sequence[MemoryRecord]


def case(caller: Caller, insight: Insight) -> Case:
    record = insight.record
    replaced = None
    if insight.replaces_id:
        replaced = MemoryRecord.objects.visible_to(caller).filter(pk=insight.replaces_id).first()
    catalog = Snapshot(catalogs.readable())
    with contextlib.suppress(CatalogUnavailable, CatalogRefused):  # said by the evidence
        catalog.read(urns_of(record), facts.ASPECTS)
    return Case(
        insight=insight,
        evidence=beside(insight, catalog=catalog),
        effect=effect(insight, catalog),
        replaced=replaced,
        hides_replaced=bool(insight.replaces_id) and replaced is None,
        line=chain(caller, replaced or record),
        neighbours=_neighbours(caller, insight, skip=[record.pk, insight.replaces_id]),
    )


def effect(insight: Insight, catalog: CatalogPort) -> Effect:
    """The before and after of the suggested actions, planned on the catalog as it is now; nothing is written."""
    changes = queries.proposals([insight])
    urn = next(iter(insight.record.entity_urns), "")
    try:
        requests = [checked(Request, change, "changes") for change in changes]
        if not urn and any(CHANGE_TYPES[request.change_type].kinds for request in requests):
            return Effect(changes=changes, error="it names no catalog entity, so there is nothing to change")
        planned = plan(catalog, urn, requests, "preview", "preview")
        entities = {}
        if urn:
            read = catalog.read([urn], facts.ASPECTS)[urn]
            entities[urn] = facts.of(urn, {name: a.value for name, a in read.items() if a.value is not None})
    except DomainError as error:
        return Effect(urn, changes, error=error.message)
    return Effect(urn, changes, of_planned(planned, entities))


def problems_of(insight: Insight) -> list[str]:
    """What keeps each suggested action from being applied as it stands, told to who suggests it."""
    urn, problems = next(iter(insight.record.entity_urns), ""), []
    catalog = Snapshot(catalogs.readable())
    for index, action in enumerate(insight.suggested_actions):
        try:
            request = checked(Request, action, "")
            if urn or not CHANGE_TYPES[request.change_type].kinds:
                plan(catalog, urn, [request], "preview", "preview")
            else:
                problems.append(f"suggested_actions[{index}]: the insight names no entity that it would change")
        except (CatalogUnavailable, CatalogRefused):
            return []  # said by the evidence
        except DomainError as error:
            problems.append(f"suggested_actions[{index}]: {error.message}")
    return problems


def _neighbours(caller: Caller, insight: Insight, skip: Sequence[UUID | None]) -> list[MemoryRecord]:
    """What else is known about the same entities, or of the same thing where none is named: nearest by meaning, newest
    first while there is no vector."""
    record = insight.record
    rows = MemoryRecord.objects.visible_to(caller).facts()
    if record.entity_urns:
        rows = rows.filter(entity_urns__overlap=record.entity_urns)
    rows = rows.filter(status__in=[Status.ACTIVE, Status.STALE]).exclude(pk__in=[pk for pk in skip if pk])
    candidates = rows.exclude(insight__state=InsightState.REJECTED).defer("embedding", "search")
    vector = record.embedding
    if vector is not None:
        near = candidates.filter(embedding__isnull=False).annotate(distance=CosineDistance("embedding", vector))
        if not record.entity_urns:
            near = near.filter(distance__lt=1 - ALIKE)
        return list(near.order_by("distance", "id")[:NEIGHBOURS])
    return list(candidates.order_by("-created_at", "id")[:NEIGHBOURS]) if record.entity_urns else []

"""Reads that are not searches: one record, lists, counts. Every one is scoped by who is asking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet

from memories.contract.errors import NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.database.queryset_sql import Statement
from memories.identity.caller import Caller
from memories.models import Feedback, MemoryRecord, Status, Verdict, Visibility
from memories.models.record import MemoryRecordQuerySet
from memories.operations import ListMemories
from memories.retrieval.scope import Filters, in_scope

MAX_COUNT = 10_000  # beyond this a count is shown as "10,000+"
MAX_FACET = 12  # values shown per facet
LIST_FACETS = ("tags", "entity_urns")


def get(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    record = MemoryRecord.objects.visible_to(caller).defer("search").filter(pk=validate(Id, record_id, "id")).first()
    if record is None:
        raise NotFound("no such memory", field="id")
    return record


def newest(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    """A list under these filters, newest first."""
    return in_scope(caller, filters).defer("search").order_by("-created_at", "id")


def list_memories(caller: Caller, operation: ListMemories) -> MemoryRecordQuerySet:
    filters = Filters(
        dimension=operation.dimension or "",
        category=operation.category or "",
        entity=operation.entity_urn or "",
        statuses=[operation.status],
    )
    return newest(caller, filters)


def stale_memories(caller: Caller) -> MemoryRecordQuerySet:
    """What waits for the stale review, longest first."""
    return in_scope(caller, Filters(statuses=[Status.STALE])).defer("search").order_by("stale_at", "id")


def reviewable_stale(caller: Caller) -> MemoryRecordQuerySet:
    """Of the stale ones, those that the caller decides: their own, a curator's personas', all for an admin."""
    rows = stale_memories(caller)
    return rows if caller.is_admin else rows.filter(decided_by(caller))


def decided_by(caller: Caller) -> Q:
    """The rule of revising.may_decide for stale memories, as a condition."""
    rule = Q(created_by=caller.email)
    if caller.is_curator:
        rule |= Q(persona__in=sorted(caller.personas)) & ~Q(visibility=Visibility.PRIVATE)
    return rule


def unresolved_reports() -> QuerySet[Feedback]:
    """Wrong marks of an outer record since it was last verified."""
    since = Q(at__gt=OuterRef("last_verified_at")) | Q(record__last_verified_at__isnull=True)
    return Feedback.objects.filter(since, record=OuterRef("pk"), verdict=Verdict.WRONG)


def corrections(caller: Caller) -> MemoryRecordQuerySet:
    """Memories that took another one's place."""
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(supersedes__isnull=False)
    return rows.exclude(status=Status.ARCHIVED).defer("search")


def by_id(caller: Caller, ids: Iterable[UUID | None]) -> dict[UUID, MemoryRecord]:
    """Those of these memories that the caller may see."""
    pks = [pk for pk in ids if pk]
    return MemoryRecord.objects.visible_to(caller).defer("search").in_bulk(pks)


def capped_count(rows: QuerySet[Any]) -> int:
    """How many rows, up to MAX_COUNT + 1."""
    return rows.order_by()[: MAX_COUNT + 1].count()


def capped_counts(**querysets: QuerySet[Any]) -> dict[str, int]:
    """Several capped counts in one round trip."""
    statement = Statement()
    tables = [statement.table(rows.order_by().values("pk")[: MAX_COUNT + 1]) for rows in querysets.values()]
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)  # noqa: S608 - names of the statement's own
    (row,) = statement.run(f"SELECT {counts}")
    return dict(zip(querysets, row, strict=True))


def facet_counts_of(records: Sequence[MemoryRecord], facet: str) -> list[tuple[str, int]]:
    """The values of a column among records at hand, most frequent first."""
    counted: Counter[str] = Counter()
    for record in records:
        value = getattr(record, facet)
        counted.update(value if facet in LIST_FACETS else [value])
    return counted.most_common(MAX_FACET)

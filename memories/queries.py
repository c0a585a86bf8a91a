"""Queries for single memories, lists and counts. Functions with a `caller` return only what the caller may read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database.queryset_sql import CompiledQuery
from foundation.operations.errors import NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.models import DOUBTS, Feedback, MemoryRecord, Report, Status, Verdict, Visibility
from memories.models.record import MemoryRecordQuerySet
from memories.operations import ListMemories
from memories.retrieval.filters import ANY_TIME, Filters, by_status, visible_rows

MAX_COUNT = 10_000  # maximum number of rows that are counted; a larger number is shown as "10,000+"
MAX_BADGE = 99  # the same for a count that is shown on every page, in the navigation
MAX_FACET = 12  # maximum number of values shown for each facet
LIST_FACETS = ("tags", "entity_urns")
DOUBT_DAYS = 30  # days for which a report as wrong or outdated counts
DOUBTERS = 2  # number of people whose reports make a memory one that needs verification


# The annotation of MemoryRecord.has_reports. It saves the query for reports of a memory that has none.
HAS_REPORTS: dict[str, Any] = {"has_reports": Exists(Report.objects.filter(record=OuterRef("pk")))}


def get(caller: Caller, record_id: UUID | str, **annotations: Any) -> MemoryRecord:
    rows = MemoryRecord.objects.visible_to(caller).defer("search").annotate(**annotations)
    record: MemoryRecord | None = rows.filter(pk=validate(Id, record_id, "id")).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="id")
    return record


def newest(caller: Caller, filters: Filters) -> MemoryRecordQuerySet:
    return visible_rows(caller, filters).defer("search").order_by("-created_at", "id")


def list_memories(caller: Caller, operation: ListMemories) -> MemoryRecordQuerySet:
    filters = Filters(
        dimension=operation.dimension or "",
        category=operation.category or "",
        entity=operation.entity_urn or "",
        **by_status(operation.status),
    )
    return newest(caller, filters)


def stale_memories(caller: Caller) -> MemoryRecordQuerySet:
    return (
        visible_rows(caller, Filters(statuses=[Status.STALE], validity=ANY_TIME))
        .defer("search")
        .order_by("stale_at", "id")
    )


def reviewable_stale(caller: Caller) -> MemoryRecordQuerySet:
    rows = stale_memories(caller)
    return rows if caller.is_admin else rows.filter(decided_by(caller))


def decided_by(caller: Caller) -> Q:
    """Return the condition for stale memories about which a caller who is not an admin may decide.

    revision.can_review applies the same rule to a single memory.
    """
    rule = Q(created_by=caller.email)
    if caller.is_curator:
        rule |= Q(persona__in=sorted(caller.personas)) & ~Q(visibility=Visibility.PRIVATE)
    return rule


def unresolved_marks() -> QuerySet[Feedback]:
    """Return a subquery for the "wrong" marks of the outer query's record that count for others.

    Marks from before the record's last verification are left out.
    """
    since = Q(at__gt=OuterRef("last_verified_at")) | Q(record__last_verified_at__isnull=True)
    return Feedback.objects.filter(since, record=OuterRef("pk"), verdict=Verdict.WRONG, counts=True)


def open_reports() -> QuerySet[Report]:
    """Return the reports as wrong or outdated of the last DOUBT_DAYS days that are not settled (Report.is_settled)."""
    since = Q(at__gt=F("record__last_verified_at")) | Q(record__last_verified_at__isnull=True)
    recent = Q(at__gt=timezone.now() - timedelta(days=DOUBT_DAYS), verdict__in=DOUBTS)
    return Report.objects.filter(since, recent, content_key=F("record__content_key"))


def doubted(*, by: int = DOUBTERS) -> QuerySet[Any]:
    """Return a subquery for the ids of memories with open reports of at least `by` people."""
    people = open_reports().order_by().values("record").annotate(people=Count("by", distinct=True))
    return people.filter(people__gte=by).values("record")


def corrections(caller: Caller) -> MemoryRecordQuerySet:
    rows = MemoryRecord.objects.visible_to(caller).facts().filter(supersedes__isnull=False)
    return rows.exclude(status=Status.ARCHIVED).defer("search")


def by_id(caller: Caller, ids: Iterable[UUID | None]) -> dict[UUID, MemoryRecord]:
    pks = [pk for pk in ids if pk]
    return MemoryRecord.objects.visible_to(caller).defer("search").in_bulk(pks)


def capped_count(rows: QuerySet[Any], limit: int = MAX_COUNT) -> int:
    """Count rows, at most limit + 1 of them."""
    return rows.order_by()[: limit + 1].count()


def capped_counts(limits: Mapping[str, int] = MappingProxyType({}), /, **querysets: QuerySet[Any]) -> dict[str, int]:
    """Return several capped counts with a single query. `limits` are smaller limits than MAX_COUNT, by name."""
    statement = CompiledQuery()
    tables = [
        statement.table(rows.order_by().values("pk")[: limits.get(name, MAX_COUNT) + 1])
        for name, rows in querysets.items()
    ]
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)  # noqa: S608 - generated names
    (row,) = statement.run(f"SELECT {counts}")
    return dict(zip(querysets, row, strict=True))


def facet_counts_of(records: Sequence[MemoryRecord], facet: str) -> list[tuple[str, int]]:
    """Return the most frequent values of a column in loaded records with their counts, at most MAX_FACET values."""
    counts: Counter[str] = Counter()
    for record in records:
        value = getattr(record, facet)
        counts.update(value if facet in LIST_FACETS else [value])
    return counts.most_common(MAX_FACET)

"""The search for contradictions, in a worker: memories against memories, and against descriptions in the catalog.

A memory is compared when it is new, when it has changed, and when a description of one of its entities has changed.
It is compared with the memories that are nearest in meaning, and with what the local catalog, or the copy of DataHub,
says about its entities and the columns that it lists.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from foundation.database import identity
from foundation.database.queryset_sql import condition
from knowledge.catalog import entity_view
from knowledge.contradictions.queries import descriptions_of, standing_verdicts, text_key
from knowledge.freshness.baselines import urns_of
from knowledge.models import (
    CatalogAspect,
    CatalogCursor,
    Contradiction,
    ContradictionScan,
    Insight,
    InsightState,
    Settlement,
)
from memories.models import MemoryRecord, Source, Status, Visibility
from memories.models.record import MemoryRecordQuerySet, about_any
from memories.retrieval.near_duplicates import nearest_records, vectors_of
from memories.texts.contradiction import contradiction

BATCH = 50  # memories that are compared in one transaction
MIN_COSINE = 0.5  # of two memories that are compared, as for the closest memory of an insight
MAX_REASON = 300
CURSOR = "contradictions"
DESCRIBING = {aspect for places in entity_view.DESCRIPTIONS.values() for aspect, _ in places} | {
    "schemaMetadata", "editableSchemaMetadata",
}  # fmt: skip


@identity.service("worker")
def scan(seconds: float) -> tuple[int, int]:
    """Compare the memories that are due, for about this time. Return their number, and that of new contradictions."""
    deadline = time.monotonic() + seconds
    _note_changed_descriptions()
    compared = found = 0
    while time.monotonic() < deadline:
        now = timezone.now()  # before reading, so that a memory that changes meanwhile is due again
        records = list(_due()[:BATCH])
        if not records:
            break
        found += _scan_records(records, now)
        compared += len(records)
    return compared, found


def _due() -> MemoryRecordQuerySet:
    current = ContradictionScan.objects.filter(record=OuterRef("pk"), at__gte=OuterRef("updated_at"))
    return comparable().filter(~Exists(current)).exclude(embedding_model="").defer("search").order_by("pk")


def comparable() -> MemoryRecordQuerySet:
    """Return the memories that may contradict others: active facts, other than notes and undecided proposals."""
    undecided = Insight.objects.filter(pk=OuterRef("pk"), state__in=[InsightState.PENDING, InsightState.REJECTED])
    facts = MemoryRecord.objects.facts().filter(status=Status.ACTIVE)
    return facts.exclude(source=Source.NOTE).filter(~Exists(undecided))


def _note_changed_descriptions() -> None:
    """Let the memories about entities be compared again whose descriptions have changed since the last time."""
    cursor, _ = CatalogCursor.objects.get_or_create(name=CURSOR)
    now = timezone.now()
    since = _since(cursor)
    changed = CatalogAspect.objects.filter(aspect__in=DESCRIBING, is_latest=True)
    if since:
        changed = changed.filter(created_at__gt=since)
        urns = list(changed.order_by().values_list("urn", flat=True).distinct())
        for start in range(0, len(urns), BATCH):
            about = MemoryRecord.objects.filter(about_any(urns[start : start + BATCH]))
            ContradictionScan.objects.filter(record__in=about.values("pk")).delete()
    CatalogCursor.objects.filter(pk=cursor.pk).update(value=now.isoformat(), updated_at=now)


def _since(cursor: CatalogCursor) -> datetime | None:
    return datetime.fromisoformat(cursor.value) if cursor.value else None


def _scan_records(records: Sequence[MemoryRecord], now: datetime) -> int:
    """Compare these memories, and store what is found. Return the number of new contradictions."""
    searched = condition(comparable())
    vectors = vectors_of([record.pk for record in records])
    near = {
        record.pk: [
            pk
            for pk, distance in nearest_records(searched, vectors[record.pk], besides=[record.pk]).items()
            if 1 - distance >= MIN_COSINE
        ]
        for record in records
        if record.pk in vectors
    }
    others = MemoryRecord.objects.defer("search").in_bulk({pk for pks in near.values() for pk in pks})
    with transaction.atomic():
        found: dict[tuple[object, ...], Contradiction] = {}
        for record in records:
            for pair in [*_with_memories(record, near.get(record.pk, []), others), *_with_catalog(record)]:
                found[_place(pair)] = pair
        new = _store([record.pk for record in records], found)
        ContradictionScan.objects.bulk_create(
            [ContradictionScan(record=record, at=now) for record in records],
            update_conflicts=True,
            unique_fields=["record"],
            update_fields=["at"],
        )
    return new


def _with_memories(
    record: MemoryRecord, near: Sequence[UUID], others: dict[UUID, MemoryRecord]
) -> Iterator[Contradiction]:
    for pk in near:
        other = others.get(pk)
        if other is None or not _have_a_reader(record, other):
            continue
        first, second = sorted((record, other), key=lambda row: (row.created_at, row.pk))
        if reason := contradiction(first.content, second.content):
            yield Contradiction(
                first=first,
                second=second,
                first_key=first.content_key,
                second_key=second.content_key,
                reason=reason[:MAX_REASON],
            )


def _have_a_reader(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Return whether anybody but an admin may read both. Two private memories of two people have no such reader."""
    are_private = Visibility.PRIVATE == one.visibility == other.visibility
    return not are_private or one.created_by == other.created_by


def _with_catalog(record: MemoryRecord) -> Iterator[Contradiction]:
    listed = {(each["urn"], entity_view.simple_path(each["column"])) for each in record.related_columns}
    for urn in urns_of(record):
        for column, text in descriptions_of(urn).items():
            if column and (urn, column) not in listed:
                continue
            if reason := contradiction(record.content, text):
                yield Contradiction(
                    first=record,
                    urn=urn,
                    column=column,
                    first_key=record.content_key,
                    second_key=text_key(text),
                    reason=reason[:MAX_REASON],
                )


def _place(pair: Contradiction) -> tuple[object, ...]:
    return (pair.first_id, pair.second_id, pair.urn, pair.column)


def _store(ids: Sequence[UUID], found: dict[tuple[object, ...], Contradiction]) -> int:
    """Store the pairs of these memories, and delete those that no longer contradict each other.

    A pair of memories stays if it was found from the other memory, of which this one is among the nearest.
    """
    concerned = Contradiction.objects.filter(Q(first__in=ids) | Q(second__in=ids)).select_related("first", "second")
    gone = []
    for old in concerned.defer("first__search", "second__search"):
        new = found.pop(_place(old), None)
        if new is None and old.second is not None:
            reason = contradiction(old.first.content, old.second.content)
            new = Contradiction(first_key=old.first.content_key, second_key=old.second.content_key, reason=reason)
        if new is None or not new.reason:
            gone.append(old.pk)
        elif (new.first_key, new.second_key) != (old.first_key, old.second_key):
            changes = {"first_key": new.first_key, "second_key": new.second_key, "reason": new.reason[:MAX_REASON]}
            Contradiction.objects.filter(pk=old.pk).update(**changes, found_at=timezone.now())
    Contradiction.objects.filter(pk__in=gone).delete()
    Contradiction.objects.bulk_create(found.values(), ignore_conflicts=True)
    return len(found)


@identity.service("worker")
def forget_outdated() -> int:
    """Delete the pairs of memories that are no longer active, or whose texts have changed since.

    A pair that a verdict has ended stays for as long as the verdict can be undone.
    """
    archived = ~Q(first__status=Status.ACTIVE) | Q(second__isnull=False) & ~Q(second__status=Status.ACTIVE)
    changed = ~Q(first__content_key=F("first_key")) | Q(second__isnull=False) & ~Q(second__content_key=F("second_key"))
    rows = Contradiction.objects.filter(archived & ~Exists(standing_verdicts()) | changed)
    return int(rows.delete()[0])


@identity.service("erasure")
def forget_record(record_id: UUID) -> None:
    """Delete the pairs of a memory that is erased, and the verdicts on them, also of people who can't read both."""
    of_record = Q(first=record_id) | Q(second=record_id)
    for model in (Contradiction, Settlement):
        model.objects.filter(of_record).delete()
    ContradictionScan.objects.filter(record=record_id).delete()

"""Review of stale memories, with the changes in the catalog, and of active memories that need verification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from foundation.people.caller import Caller
from knowledge.catalog import entity_view
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.freshness import baselines, stale_detection
from knowledge.models import EntityBaseline
from memories.models import Feedback, Impression, MemoryRecord, Report, ReportVerdict, Verdict
from memories.models.record import MemoryRecordQuerySet
from memories.queries import (
    HAS_REPORTS,
    decided_by,
    doubted,
    open_reports,
    reviewable_stale,
    unresolved_marks,
)
from memories.retrieval.filters import Filters, visible_rows
from memories.writing.revision import may_verify
from memories.writing.seen import memory_versions

CAUSES_SHOWN = 12
UNUSED_DAYS = 90  # minimum number of days since a memory was written, and since its last verification
MIN_HISTORY_DAYS = 14  # minimum number of days for which impressions are needed before a missing one means anything
UNUSED_SHOWN = 5
UNUSED = "not attached to any tool response in 30 days and not verified in 90: is it worth keeping?"


@dataclass(frozen=True)
class StaleEntity:
    """An entity that a memory refers to, with its changes since the baseline."""

    urn: str
    exists: bool = True
    newly_deprecated: bool = False
    note: str = ""
    replacement: str = ""
    changes: Sequence[str] = ()

    @property
    def name(self) -> str:
        return entity_view.short_name(self.urn)


@dataclass(frozen=True)
class StaleCase:
    record: MemoryRecord
    may_edit: bool
    seen: str  # token of the memory's state, which a decision carries back
    entities: list[StaleEntity] = field(default_factory=list)
    doubts: list[Feedback] = field(default_factory=list)


def needs_verification(caller: Caller) -> MemoryRecordQuerySet:
    """Return active memories that may be wrong, oldest first.

    A column that the memory's text mentions has changed, a reader has marked the memory as wrong since its last
    verification, or several people have reported it as wrong or outdated. Callers get their own memories. Curators also
    get shared memories of their personas, and admins get all memories.
    """
    hinted = EntityBaseline.objects.filter(record=OuterRef("pk")).exclude(hint="")
    rows = visible_rows(caller, Filters()).filter(Exists(hinted) | Exists(unresolved_marks()) | Q(pk__in=doubted()))
    rows = rows if caller.is_admin else rows.filter(decided_by(caller))
    return rows.defer("search").order_by("created_at", "id")


@dataclass(frozen=True)
class VerificationRequest:
    """An active memory that should be verified."""

    record: MemoryRecord
    hint: str
    doubts: list[Feedback]
    reports: list[Report]
    may_verify: bool
    seen: str  # token of the memory's state, which a decision carries back


def unused(caller: Caller) -> MemoryRecordQuerySet:
    """Return the caller's memories that refer to entities and seem to be unused.

    They are older than UNUSED_DAYS, were not verified in that time, were never rated or reported as used, and have no
    impression.
    Impressions are kept for 30 days. Returns nothing until impressions have been recorded for MIN_HISTORY_DAYS.
    """
    now = timezone.now()
    long_ago = now - timedelta(days=UNUSED_DAYS)
    has_history = Exists(Impression.objects.filter(at__lt=now - timedelta(days=MIN_HISTORY_DAYS)))
    rows = visible_rows(caller, Filters()).exclude(entity_urns=[]).filter(has_history, created_at__lt=long_ago)
    rows = rows.filter(Q(last_verified_at__isnull=True) | Q(last_verified_at__lt=long_ago))
    is_used = (
        Exists(Impression.objects.filter(record=OuterRef("pk")))
        | Exists(Feedback.objects.filter(record=OuterRef("pk"), counts=True))
        | Exists(Report.objects.filter(record=OuterRef("pk"), verdict=ReportVerdict.USED))
    )
    rows = rows.filter(created_by=caller.email).exclude(is_used)
    return rows.defer("search").order_by("created_at", "id")


def to_verify(caller: Caller) -> MemoryRecordQuerySet:
    """Return the memories that need verification, and a few that seem to be unused."""
    needed = needs_verification(caller).order_by().values("pk")
    few = unused(caller).values("pk")[:UNUSED_SHOWN]
    rows = visible_rows(caller, Filters()).filter(Q(pk__in=needed) | Q(pk__in=few))
    return rows.annotate(**HAS_REPORTS).defer("search")


def verification_requests(caller: Caller, records: Sequence[MemoryRecord]) -> list[VerificationRequest]:
    """Return what should be looked at in each record of `to_verify`."""
    ids = [record.pk for record in records]
    hints = stale_detection.hints(ids) if ids else {}
    doubts = _doubts(ids) if ids else {}
    reports = _reports([record.pk for record in records if record.has_reports])
    versions = memory_versions(records)
    idle = set(unused(caller).filter(pk__in=ids).values_list("pk", flat=True)) if ids else set()
    return [
        VerificationRequest(
            record,
            hints.get(record.pk) or (UNUSED if record.pk in idle else ""),
            doubts.get(record.pk, []),
            reports.get(record.pk, []),
            may_verify(caller, record),
            versions[record.pk],
        )
        for record in records
    ]


def _doubts(ids: Sequence[UUID]) -> dict[UUID, list[Feedback]]:
    by_record: dict[UUID, list[Feedback]] = {}
    for doubt in Feedback.objects.filter(record__in=ids, verdict=Verdict.WRONG, counts=True):
        by_record.setdefault(doubt.record_id, []).append(doubt)
    return by_record


def _reports(ids: Sequence[UUID]) -> dict[UUID, list[Report]]:
    by_record: dict[UUID, list[Report]] = {}
    if not ids:
        return by_record
    for report in open_reports().filter(record__in=ids):
        by_record.setdefault(report.record_id, []).append(report)
    return by_record


def causes(caller: Caller) -> list[tuple[str, int]]:
    """Return the most frequent reasons of the stale memories that the caller may decide on, with counts above 1."""
    counts = reviewable_stale(caller).order_by().values_list("stale_reason").annotate(count=Count("pk"))
    return list(counts.filter(count__gt=1).order_by("-count", "stale_reason")[:CAUSES_SHOWN])


def cases(caller: Caller, records: Sequence[MemoryRecord]) -> tuple[list[StaleCase], str]:
    """Return the records with the changes of their entities, and a note about the catalog.

    The note is empty unless the catalog is unavailable or a copy was read.
    """
    ids = [record.pk for record in records]
    by_record: dict[UUID, list[EntityBaseline]] = {}
    for baseline in EntityBaseline.objects.filter(record__in=ids):
        by_record.setdefault(baseline.record_id, []).append(baseline)
    doubts = _doubts(ids)
    versions = memory_versions(records)
    entities = {}
    note = ""
    urns = {baseline.urn for group in by_record.values() for baseline in group}
    if urns:
        try:
            catalog = get_readable_catalog()
            entities = baselines.read_entities(catalog, urns)
            note = copy_note(catalog)
        except (CatalogUnavailable, CatalogRefused) as error:
            note = error.message
    return [
        StaleCase(
            record=record,
            may_edit=caller.can_edit_for(record.created_by),
            seen=versions[record.pk],
            entities=[
                _entity(baseline, entities[baseline.urn])
                for baseline in by_record.get(record.pk, [])
                if baseline.urn in entities
            ],
            doubts=doubts.get(record.pk, []),
        )
        for record in records
    ], note


def _entity(baseline: EntityBaseline, snapshot: baselines.EntitySnapshot) -> StaleEntity:
    return StaleEntity(
        urn=baseline.urn,
        exists=snapshot.exists,
        newly_deprecated=snapshot.deprecated and not baseline.deprecated,
        note=snapshot.note if snapshot.deprecated else "",
        replacement=snapshot.replacement,
        changes=[change for _, change in stale_detection.columns_changed(baseline.columns, snapshot.columns)],
    )

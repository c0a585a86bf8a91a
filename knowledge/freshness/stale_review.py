"""What a person sees while deciding whether a stale memory is still true: what has changed since it was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone

from knowledge.catalog import entity_view
from knowledge.catalog.current import copy_note, get_readable_catalog
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.freshness import baselines, comparison
from knowledge.models import EntityBaseline
from memories.identity.caller import Caller
from memories.models import Feedback, Impression, MemoryRecord, Verdict
from memories.models.record import MemoryRecordQuerySet
from memories.queries import decided_by, reviewable_stale, stale_memories, unresolved_reports
from memories.retrieval.scope import Filters, in_scope
from memories.writing.revision import can_review

CAUSES_SHOWN = 12
UNMET_DAYS = 90  # age from which a memory that nobody meets is asked about
TELLING_DAYS = 14  # for so long memories must have come along before that says anything
UNMET_SHOWN = 5
UNMET = "it has come along with no answer in 30 days, and nobody has verified it in 90: is it worth keeping?"


@dataclass(frozen=True)
class Entity:
    """One entity that a memory names: then and now, column by column."""

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
    can_review: bool
    may_edit: bool
    entities: list[Entity] = field(default_factory=list)
    doubts: list[Feedback] = field(default_factory=list)


def rows(caller: Caller, *, everyone: bool, cause: str = "") -> MemoryRecordQuerySet:
    records = stale_memories(caller) if everyone else reviewable_stale(caller)
    return records.filter(stale_reason=cause) if cause else records


def needs_verification(caller: Caller) -> MemoryRecordQuerySet:
    """Memories that are still recalled, of which a column that their text names has changed, or that a reader called
    wrong: of those that the caller decides, oldest first."""
    hinted = EntityBaseline.objects.filter(record=OuterRef("pk")).exclude(hint="")
    rows = in_scope(caller, Filters()).filter(Exists(hinted) | Exists(unresolved_reports()))
    rows = rows if caller.is_admin else rows.filter(decided_by(caller))
    return rows.defer("search").order_by("created_at", "id")


@dataclass(frozen=True)
class Look:
    """One memory to look at again, although it stands."""

    record: MemoryRecord
    hint: str
    doubts: list[Feedback]
    may_verify: bool


def unmet(caller: Caller) -> MemoryRecordQuerySet:
    """The caller's memories about entities that nobody has met lately: old, not verified since, in thirty days beside
    no answer, and never rated; once memories have come along for long enough to tell."""
    now = timezone.now()
    long_ago = now - timedelta(days=UNMET_DAYS)
    if not Impression.objects.filter(at__lt=now - timedelta(days=TELLING_DAYS)).exists():
        return MemoryRecord.objects.none()
    rows = in_scope(caller, Filters()).exclude(entity_urns=[]).filter(created_at__lt=long_ago)
    rows = rows.filter(Q(last_verified_at__isnull=True) | Q(last_verified_at__lt=long_ago))
    met = Exists(Impression.objects.filter(record=OuterRef("pk"))) | Exists(
        Feedback.objects.filter(record=OuterRef("pk"))
    )
    rows = rows.filter(created_by=caller.email).exclude(met)
    return rows.defer("search").order_by("created_at", "id")


def looks(caller: Caller, limit: int) -> list[Look]:
    records = list(needs_verification(caller)[:limit])
    ids = [record.pk for record in records]
    hints = comparison.hints(ids) if ids else {}
    doubts = _doubts(ids) if ids else {}
    unmet_looks = [Look(record, UNMET, [], may_verify=True) for record in unmet(caller)[:UNMET_SHOWN]]
    first_looks = [
        Look(record, hints.get(record.pk, ""), doubts.get(record.pk, []), caller.can_edit_for(record.created_by))
        for record in records
    ]
    return [*first_looks, *(look for look in unmet_looks if look.record.pk not in set(ids))]


def _doubts(ids: Sequence[UUID]) -> dict[UUID, list[Feedback]]:
    by_record: dict[UUID, list[Feedback]] = {}
    for doubt in Feedback.objects.filter(record__in=ids, verdict=Verdict.WRONG):
        by_record.setdefault(doubt.record_id, []).append(doubt)
    return by_record


def causes(caller: Caller) -> list[tuple[str, int]]:
    """The commonest reasons among what the caller may decide, for deciding them together."""
    counted = reviewable_stale(caller).order_by().values_list("stale_reason").annotate(n=Count("pk"))
    return list(counted.filter(n__gt=1).order_by("-n", "stale_reason")[:CAUSES_SHOWN])


def cases(caller: Caller, records: Sequence[MemoryRecord]) -> tuple[list[StaleCase], str]:
    """The records with what changed around them, and a note when the catalog does not say."""
    ids = [record.pk for record in records]
    by_record: dict[UUID, list[EntityBaseline]] = {}
    for baseline in EntityBaseline.objects.filter(record__in=ids):
        by_record.setdefault(baseline.record_id, []).append(baseline)
    doubts = _doubts(ids)
    entities, note = {}, ""
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
            can_review=can_review(caller, record),
            may_edit=caller.can_edit_for(record.created_by),
            entities=[
                _entity(baseline, entities[baseline.urn])
                for baseline in by_record.get(record.pk, [])
                if baseline.urn in entities
            ],
            doubts=doubts.get(record.pk, []),
        )
        for record in records
    ], note


def _entity(baseline: EntityBaseline, now: baselines.EntitySnapshot) -> Entity:
    return Entity(
        urn=baseline.urn,
        exists=now.exists,
        newly_deprecated=now.deprecated and not baseline.deprecated,
        note=now.note if now.deprecated else "",
        replacement=now.replacement,
        changes=[change for _, change in comparison.columns_changed(baseline.columns, now.columns)],
    )

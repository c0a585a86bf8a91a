"""What a person sees while deciding whether a stale memory is still true: what has changed since it was said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Count

from knowledge import catalog as catalogs
from knowledge.catalog import facts, staleness
from knowledge.catalog.port import CatalogRefused, CatalogUnavailable
from knowledge.models import EntityBaseline
from memories.access import Caller
from memories.models import Feedback, MemoryRecord, Verdict
from memories.models.record import MemoryRecordQuerySet
from memories.queries import mine_to_review, stale

CAUSES_SHOWN = 12


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
        return facts.short_name(self.urn)


@dataclass(frozen=True)
class Case:
    record: MemoryRecord
    may_decide: bool
    entities: list[Entity] = field(default_factory=list)
    doubts: list[Feedback] = field(default_factory=list)


def rows(caller: Caller, *, everyone: bool, cause: str = "") -> MemoryRecordQuerySet:
    found = stale(caller) if everyone else mine_to_review(caller)
    return found.filter(stale_reason=cause) if cause else found


def causes(caller: Caller) -> list[tuple[str, int]]:
    """The commonest reasons among what the caller may decide, for deciding them together."""
    counted = mine_to_review(caller).order_by().values_list("stale_reason").annotate(n=Count("pk"))
    return list(counted.filter(n__gt=1).order_by("-n", "stale_reason")[:CAUSES_SHOWN])


def cases(caller: Caller, records: Sequence[MemoryRecord]) -> tuple[list[Case], str]:
    """The records with what changed around them, and a note when the catalog does not say."""
    ids = [record.pk for record in records]
    baselines: dict[UUID, list[EntityBaseline]] = {}
    for baseline in EntityBaseline.objects.filter(record__in=ids):
        baselines.setdefault(baseline.record_id, []).append(baseline)
    doubts: dict[UUID, list[Feedback]] = {}
    for doubt in Feedback.objects.filter(record__in=ids, verdict=Verdict.WRONG):
        doubts.setdefault(doubt.record_id, []).append(doubt)
    seen, note = {}, ""
    urns = {baseline.urn for found in baselines.values() for baseline in found}
    if urns:
        try:
            catalog = catalogs.readable()
            seen = staleness.look(catalog, urns)
            note = catalogs.copy_note(catalog)
        except (CatalogUnavailable, CatalogRefused) as error:
            note = error.message
    return [
        Case(
            record=record,
            may_decide=caller.acts_for(record.created_by),
            entities=[_entity(one, seen[one.urn]) for one in baselines.get(record.pk, []) if one.urn in seen],
            doubts=doubts.get(record.pk, []),
        )
        for record in records
    ], note


def _entity(baseline: EntityBaseline, now: staleness.Seen) -> Entity:
    return Entity(
        urn=baseline.urn,
        exists=now.exists,
        newly_deprecated=now.deprecated and not baseline.deprecated,
        note=now.note if now.deprecated else "",
        replacement=now.replacement,
        changes=[change for _, change in staleness.columns_changed(baseline.columns, now.columns)],
    )

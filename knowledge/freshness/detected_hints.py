"""Hints about entities that were detected in texts. They never make a memory stale, so they need no baselines."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from foundation.database import prepared_statements
from knowledge.models import CatalogAspect, CatalogEntity
from memories.models import MemoryRecord
from memories.rendering import entity_name

# Aspect → the words for the change
CHANGES = {"status": "removed", "deprecation": "deprecated"}


# The condition for memories of which a detected entity was removed or deprecated, perhaps before they were written.
ARE_GONE = """EXISTS (
    SELECT FROM catalog_entities WHERE urn = ANY(memory_records.detected_urns) AND (removed OR deprecated))"""
WITH_HINTS = f"""
    SELECT id FROM memory_records WHERE id = ANY(%(ids)s)
    AND (EXISTS (SELECT FROM entity_baselines WHERE record_id = memory_records.id AND hint <> '') OR {ARE_GONE})"""  # noqa: S608


def with_hints(record_ids: Sequence[UUID]) -> list[UUID]:
    """Return those of the memories that may have hints, also about entities that they state: most have none."""
    return [pk for (pk,) in prepared_statements.rows(WITH_HINTS, {"ids": list(record_ids)})]


def hints(record_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Return, by record id, which detected entities were removed or deprecated after the last verification.

    For a memory that was never verified, changes since it was written count. Reads only local tables: with a DataHub,
    its copy.
    """
    rows = MemoryRecord.objects.filter(pk__in=record_ids).exclude(detected_urns=[])
    records = list(rows.only("detected_urns", "created_at", "last_verified_at"))
    urns = {urn for record in records for urn in record.detected_urns}
    gone = CatalogEntity.objects.filter(urn__in=urns)
    states = {row.urn: row for row in gone.only("removed", "deprecated") if row.removed or row.deprecated}
    aspects = CatalogAspect.objects.filter(urn__in=states, aspect__in=CHANGES, is_latest=True).order_by("urn", "aspect")
    by_record: dict[UUID, list[str]] = {}
    for urn, aspect, at in aspects.values_list("urn", "aspect", "created_at"):
        if getattr(states[urn], CHANGES[aspect]):
            for record in records:
                if urn in record.detected_urns and at > (record.last_verified_at or record.created_at):
                    by_record.setdefault(record.pk, []).append(f"{entity_name(urn)} was {CHANGES[aspect]} since")
    return {pk: "; ".join(texts) for pk, texts in by_record.items()}

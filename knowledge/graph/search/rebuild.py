"""What literal search of a graph reads, derived anew from names, types and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from knowledge.graph.models import Entity, Observation
from knowledge.graph.search.trigrams import folded, grams

TOGETHER = 500


def rebuild() -> str:
    """Derives what has changed, and says of how many rows."""
    entities = _rebuild(Entity.objects.all(), lambda row: spelling(row.name, row.entity_type))
    observations = _rebuild(Observation.objects.all(), lambda row: folded(row.text))
    return f"graphs: {entities} entities and {observations} observations are found by other letters now"


def spelling(name: str, entity_type: str) -> str:
    """Where an entity itself is looked for."""
    return folded(f"{name}\n{entity_type}")


def _rebuild(rows: QuerySet[Any], text: Callable[[Any], str]) -> int:
    count = 0
    changes: list[Any] = []
    for row in rows.order_by("pk").iterator(chunk_size=TOGETHER):
        now = text(row)
        groups = grams(now)
        if (row.folded, row.grams) != (now, groups):
            row.folded, row.grams = now, groups
            changes.append(row)
        if len(changes) == TOGETHER:
            count += rows.bulk_update(changes, ["folded", "grams"])
            changes = []
    return count + (rows.bulk_update(changes, ["folded", "grams"]) if changes else 0)

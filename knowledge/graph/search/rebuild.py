"""Rebuild of the columns for literal search (`folded` and `grams`) from names, types and texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet

from knowledge.graph.models import Entity, Observation
from knowledge.graph.search.trigrams import folded, grams

BATCH_SIZE = 500


def rebuild() -> str:
    """Update the rows whose search columns are outdated. Returns a message with their number."""
    entities = _rebuild(Entity.objects.all(), lambda row: entity_text(row.name, row.entity_type))
    observations = _rebuild(Observation.objects.all(), lambda row: folded(row.text))
    return f"graphs: {entities} entities and {observations} observations were updated for literal search"


def entity_text(name: str, entity_type: str) -> str:
    """Return the case-folded text of an entity's name and type, which a literal search compares with the query."""
    return folded(f"{name}\n{entity_type}")


def _rebuild(rows: QuerySet[Any], text: Callable[[Any], str]) -> int:
    count = 0
    changes: list[Any] = []
    for row in rows.order_by("pk").iterator(chunk_size=BATCH_SIZE):
        row_text = text(row)
        row_grams = grams(row_text)
        if (row.folded, row.grams) != (row_text, row_grams):
            row.folded, row.grams = row_text, row_grams
            changes.append(row)
        if len(changes) == BATCH_SIZE:
            count += rows.bulk_update(changes, ["folded", "grams"])
            changes = []
    return count + (rows.bulk_update(changes, ["folded", "grams"]) if changes else 0)

"""Rebuild of the columns for literal search (`folded` and `grams`) from names, types and texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db import transaction
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
    outdated: list[Any] = []
    for row in rows.order_by("pk").iterator(chunk_size=BATCH_SIZE):
        if _refresh(row, text):
            outdated.append(row.pk)
        if len(outdated) == BATCH_SIZE:
            count += _save(rows, outdated, text)
            outdated = []
    return count + _save(rows, outdated, text)


def _refresh(row: Any, text: Callable[[Any], str]) -> bool:
    """Set the row's search columns. Returns whether they were outdated."""
    before = (row.folded, row.grams)
    row_text = text(row)
    row.folded = row_text
    row.grams = grams(row_text)
    return before != (row.folded, row.grams)


@transaction.atomic
def _save(rows: QuerySet[Any], outdated: Sequence[Any], text: Callable[[Any], str]) -> int:
    # Read again, with a lock: somebody may have renamed or rewritten a row since.
    current = rows.filter(pk__in=outdated).order_by("pk").select_for_update(of=("self",))
    changes = [row for row in current if _refresh(row, text)]
    return rows.bulk_update(changes, ["folded", "grams"]) if changes else 0

"""Memories in the CSV and Markdown exports of this program.

These formats hold the current text of each memory, but not its history. The JSON lines export holds everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memories.models import Source, Status
from memories.operations import MEMORY_FIELDS, RESERVED_METADATA
from memory_project.exchange.imports.formats.memory_rows import memory_row, problem_row
from memory_project.exchange.imports.rows import ImportedRow

KEYS = {"id", "dimension", "category", "status"}  # that each exported memory has
KEPT = (
    "summary", "dimension", "category", "confidence", "visibility", "tags", "created_at", *MEMORY_FIELDS,
)  # fmt: skip
SOURCES = [source for source in Source.values if source != Source.NOTE]  # as in the operation Remember


def own_row(place: str, content: str, values: Mapping[str, Any]) -> ImportedRow:
    """Return the row of an exported memory, or a row with a problem if the memory is not an active fact."""
    key = str(values["id"])
    status = values.get("status")
    if status != Status.ACTIVE:
        # As a new memory, it would be as good as what has replaced it.
        return problem_row(
            place, f"status: is {str(status)[:40]!r}; allowed: active, or the JSON lines export", key=key
        )
    if values.get("tier"):
        return problem_row(place, "tier: belongs to a conversation; allowed: the JSON lines export", key=key)
    data = {name: values.get(name) for name in KEPT}
    source = values.get("source")
    metadata = values.get("metadata")
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if name not in RESERVED_METADATA}
    data |= {"content": content, "source": source if source in SOURCES else None, "metadata": metadata}
    return memory_row(place, data, key=key)

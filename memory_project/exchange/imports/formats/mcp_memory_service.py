"""JSON exports of mcp-memory-service, and its memories as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from memories.models import Dimension
from memory_project.exchange.imports.formats.json_objects import read_objects, recognizes_objects
from memory_project.exchange.imports.formats.memory_rows import AGENT_FIELDS, problem_row, split_rows, tagged
from memory_project.exchange.imports.rows import ImportedRow

PATHS, KEYS = ("memories.item", "item"), {"content", "content_hash"}
KEPT = ("metadata", "memory_type", "updated_at", "export_source")


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    for item in read_objects(file, PATHS, KEYS):
        yield from [problem_row(item.place, item.problem)] if item.problem else _rows(item.place, item.value)


def _rows(place: str, value: Mapping[str, Any]) -> Iterator[ImportedRow]:
    # The hash is one of the content, so it can't tell that a memory is a later version of another.
    metadata = value.get("metadata")
    if isinstance(metadata, dict) and metadata.get("superseded_by"):
        yield problem_row(place, "is superseded by a newer memory of the export")
        return
    if not isinstance(value.get("content"), str):
        yield problem_row(place, "content: is missing; allowed: a text")
        return
    kept = {name: value[name] for name in KEPT if value.get(name)}
    kind = value.get("memory_type")
    data = {
        "content": value["content"],
        "created_at": value.get("created_at") or value.get("created_at_iso"),
        "dimension": kind if kind in Dimension.values else None,
    }
    yield from split_rows(place, {**AGENT_FIELDS, **data, **tagged(value.get("tags"), {"mcp_memory_service": kept})})


def recognizes(start: bytes, name: str) -> bool:
    return recognizes_objects(start, PATHS, KEYS)

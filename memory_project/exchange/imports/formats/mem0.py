"""Memories of mem0, as get_all() returns them: an object with a list of results, only the list, or lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from memory_project.exchange.imports.formats.json_objects import read_objects, recognizes_objects
from memory_project.exchange.imports.formats.memory_rows import (
    AGENT_FIELDS,
    bound_or_none,
    problem_row,
    split_rows,
    tagged,
    timestamp_or_none,
)
from memory_project.exchange.imports.rows import ImportedRow

PATHS, KEYS = ("results.item", "item"), {"id", "memory"}
KEPT = ("metadata", "user_id", "agent_id", "run_id", "actor_id", "role", "updated_at", "expiration_date")


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    for item in read_objects(file, PATHS, KEYS):
        yield from [problem_row(item.place, item.problem)] if item.problem else _rows(item.place, item.value)


def _rows(place: str, value: Mapping[str, Any]) -> Iterator[ImportedRow]:
    key = str(value.get("id") or "")
    expiry = timestamp_or_none(value.get("expiration_date"))
    # A date means its end, as in `valid_until`.
    if expiry and datetime.fromisoformat(expiry) + timedelta(days=1) < datetime.now(UTC):
        yield problem_row(place, f"expired on {str(value['expiration_date'])[:40]}", key=key)
        return
    if not isinstance(value.get("memory"), str):
        yield problem_row(place, "memory: is missing; allowed: a text", key=key)
        return
    kept = {name: value[name] for name in KEPT if value.get(name)}
    data = {
        "content": value["memory"],
        "created_at": value.get("created_at"),
        "valid_until": bound_or_none(value.get("expiration_date")),
    }
    yield from split_rows(place, {**AGENT_FIELDS, **data, **tagged(value.get("categories"), {"mem0": kept})}, key=key)


def recognizes(start: bytes, name: str) -> bool:
    return recognizes_objects(start, PATHS, KEYS)

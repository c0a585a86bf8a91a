"""Files of the MCP reference server "memory": entities with observations, and relations between entities.

The server writes JSON lines. A list of such objects and the answer of its tool read_graph, saved with or without what
clients wrap it in, are read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from foundation.operations.errors import Invalid
from knowledge.graph import dumps
from memories.models import Dimension
from memory_project.exchange.imports.formats.json_items import keys_at_start, read_items
from memory_project.exchange.imports.formats.json_lines import read_lines
from memory_project.exchange.imports.formats.memory_rows import AGENT_FIELDS, problem_row, split_rows, tagged
from memory_project.exchange.imports.rows import ImportedRow

ENTITY_KEYS, RELATION_KEYS = {"name", "observations"}, {"from", "to", "relationType"}
OUTER = ("", *(f"{name}." for name in dumps.WRAPPERS))
# Paths of the items in a file that is one JSON value.
PATHS = ("item", *(f"{outer}{name}.item" for outer in OUTER for name in ("entities", "relations")))
TEXTS = ("content.item", "result.content.item", "item")  # of a result whose text is JSON


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield a memory for each observation and each relation."""
    start = file.read(1 << 16)
    file.seek(0)
    if _is_graph(start) or _is_one_object(start):
        for item in read_items(file, PATHS if _is_graph(start) else [""]):
            yield from [problem_row(item.place, item.problem)] if item.problem else _rows(item.place, item.value)
        return
    if _is_result(start):
        yield from _rows_of_result(file)
        return
    is_empty = True
    for line in read_lines(file):
        is_empty = False
        yield from [problem_row(line.place, line.problem)] if line.problem else _rows(line.place, line.value)
    if is_empty:
        raise Invalid("is empty", field="file", allowed="JSON lines with entities and relations")


def _rows_of_result(file: BinaryIO) -> Iterator[ImportedRow]:
    """Yield the rows of the graphs in the texts of a result, numbered over all texts."""
    number = 0
    for part in read_items(file, TEXTS):
        if part.problem:
            yield problem_row(part.place, part.problem)
            continue
        values = dumps.items_of([part.value])
        if not values:
            yield problem_row(part.place, "is no graph in JSON; the file may have been cut")
        for value in values:
            number += 1
            yield from _rows(f"item {number}", value)


def _rows(place: str, value: Any) -> Iterator[ImportedRow]:
    kind = dumps.kind_of(value)
    if kind == dumps.ENTITY and value.keys() >= ENTITY_KEYS:
        yield from _observations(place, value)
    elif kind == dumps.RELATION and value.keys() >= RELATION_KEYS:
        yield from _relation(place, value)
    else:
        keys = "name, entityType and observations, or from, to and relationType"
        yield problem_row(place, f"is neither an entity nor a relation; allowed: an object with {keys}")


def _observations(place: str, entity: Mapping[str, Any]) -> Iterator[ImportedRow]:
    name = entity["name"]
    observations = entity["observations"]
    if not isinstance(name, str) or not isinstance(observations, list):
        yield problem_row(place, "has a name that is not a text, or observations that are not a list")
        return
    if not observations:
        yield problem_row(place, f"{name[:80]!r} has no observations")
    kind = entity.get("entityType") or ""
    metadata = {"mcp_memory": {"entity": name, "entity_type": kind}}
    for number, text in enumerate(observations, 1):
        where = f"{place}, observation {number}"
        if not isinstance(text, str) or not text.strip():
            yield problem_row(where, "is not a text")
            continue
        # An observation such as “prefers tea” can only be understood with the name.
        is_named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE)
        content = text if is_named else f"{name}: {text}"
        data = {"content": content, "dimension": Dimension.ENTITY.value, **tagged([kind] if kind else [], metadata)}
        yield from split_rows(where, {**AGENT_FIELDS, **data})


def _relation(place: str, relation: Mapping[str, Any]) -> Iterator[ImportedRow]:
    ends = [relation["from"], relation["relationType"], relation["to"]]
    if not all(isinstance(end, str) and end.strip() for end in ends):
        yield problem_row(place, "has a from, to or relationType that is not a text")
        return
    content = f"{ends[0]} {ends[1].replace('_', ' ')} {ends[2]}"
    metadata = {"mcp_memory": {"from": ends[0], "relation_type": ends[1], "to": ends[2]}}
    data = {"content": content, "dimension": Dimension.RELATIONSHIP.value, "metadata": metadata}
    yield from split_rows(place, {**AGENT_FIELDS, **data})


def _is_graph(start: bytes) -> bool:
    keys = keys_at_start(start)
    return any(keys.get(path, set()) >= names for path in PATHS for names in (ENTITY_KEYS, RELATION_KEYS))


def _is_one_object(start: bytes) -> bool:
    """Return whether a file is one entity or relation over several lines, of which none is an object."""
    first = keys_at_start(start).get("", set())
    is_item = first >= ENTITY_KEYS or first >= RELATION_KEYS
    return is_item and start.lstrip().partition(b"\n")[0].strip() == b"{"


def _is_result(start: bytes) -> bool:
    """Return whether a file is the result of a call whose text is a graph."""
    keys = keys_at_start(start)
    is_result = any(keys.get(path, set()) >= {"type", "text"} for path in TEXTS)
    return is_result and (b"entityType" in start or b"relationType" in start)


def recognizes(start: bytes, name: str) -> bool:
    first = keys_at_start(start).get("", set())
    return first >= ENTITY_KEYS or first >= RELATION_KEYS or _is_graph(start) or _is_result(start)

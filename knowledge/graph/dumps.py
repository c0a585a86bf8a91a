"""Entities and relations in the forms in which people save the graph of Anthropic's memory server.

Its own file has one object per line. Its tool read_graph returns one object, which clients wrap in their own: as the
result of a call, as structured content, or as a text with JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

WRAPPERS = ("result", "structuredContent", "structured_content", "graph", "data")
MAX_WRAPPERS = 5
ENTITY, RELATION = "entity", "relation"


def kind_of(item: Any) -> str:
    """Return whether an object is an entity or a relation, by its type or its keys; "" if it is neither."""
    if not isinstance(item, Mapping):
        return ""
    if item.get("type") in (ENTITY, RELATION):
        return str(item["type"])
    if {"from", "to"} <= item.keys():
        return RELATION
    return ENTITY if "name" in item and {"entityType", "observations"} & item.keys() else ""


def items_of(value: Any, wrappers: int = MAX_WRAPPERS) -> list[Any]:
    """Return the entities and relations of a parsed file, or [] if it has none in a known form."""
    if wrappers < 0:
        return []
    if isinstance(value, list):
        if any(map(kind_of, value)):
            return value
        texts = [part.get("text") for part in value if isinstance(part, Mapping)]
        return [item for text in texts if isinstance(text, str) for item in items_of(_parsed(text), wrappers - 1)]
    if not isinstance(value, Mapping):
        return []
    lists = [value[name] for name in ("entities", "relations") if isinstance(value.get(name), list)]
    if lists:
        return [item for items in lists for item in items]
    for name in (*WRAPPERS, "content"):
        if items := items_of(value.get(name), wrappers - 1):
            return items
    return []


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

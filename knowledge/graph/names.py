"""Comparison of entities' names.

A name keeps its spelling. Two spellings are the same name if they are equal after Unicode normalization (NFC). The
tools of Anthropic's profile compare names exactly. Therefore, a graph can have two entities of the same name.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from datetime import datetime

from knowledge.graph.models import Entity, Graph
from knowledge.graph.search import graph_reading

MAX_QUOTED = 60  # maximum number of characters of a text that a message quotes
Key = Callable[[str], str]  # two names are the same if their keys are equal


def exact(name: str) -> str:
    return name


def nfc(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def find(
    graph: Graph,
    names: Iterable[str],
    key: Key = nfc,
    *,
    placeholders: bool = False,
    as_of: datetime | None = None,
) -> dict[str, Entity]:
    """Return the entities with these names that exist now, or did at `as_of`, by the names as they were given.

    An entity with exactly this name comes first, then the oldest one with the same key. Placeholders come last.
    """
    names = list(dict.fromkeys(names))
    rows = graph_reading.entities(graph, names=names, any_form=True, placeholders=placeholders, as_of=as_of)
    by_name = {entity.name: entity for entity in rows}
    by_key: dict[str, Entity] = {}
    for entity in sorted(rows, key=lambda entity: entity.is_placeholder):
        by_key.setdefault(key(entity.name), entity)
    found: dict[str, Entity] = {}
    for name in names:
        candidates = [entity for entity in (by_name.get(name), by_key.get(key(name))) if entity]
        if candidates:
            found[name] = min(candidates, key=lambda entity: entity.is_placeholder)
    return found


def find_one(graph: Graph | None, name: str) -> Entity | None:
    return find(graph, [name]).get(name) if graph else None


def shortened(text: str) -> str:
    """Return a name or another text of the graph as messages quote it."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def groups(names: Iterable[str]) -> list[list[str]]:
    """Return the groups of different names that are the same after normalization."""
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        spellings.setdefault(nfc(name), []).append(name)
    return [group for group in spellings.values() if len(group) > 1]


def collisions(graph: Graph) -> list[list[Entity]]:
    """Return the groups of living entities that have the same name in different spellings, in order of creation."""
    rows = Entity.objects.filter(graph=graph, deleted_at=None, is_placeholder=False).only("number", "name")
    by_name = {entity.name: entity for entity in rows.order_by("number")}
    return [[by_name[name] for name in group] for group in groups(by_name)]

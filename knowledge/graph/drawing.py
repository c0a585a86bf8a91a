"""Content of the graph page: a graph's structure as numbers, and the entities and relations that are in view.

The structure (numbers of entities, their relations, and their clusters) is cached until the graph changes. Names and
texts are never cached: they are read for what is in view, so that erased texts are gone at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from django.core.cache import caches
from django.db.models import Q

from foundation.people.caller import Caller
from knowledge.graph.clusters import Path, paths_of
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.queries import entities, in_force

MAX_LOADED = 6_000  # maximum number of entities in a structure; of a larger graph, the newest
MAX_EDGES = 40_000
MAX_DRAWN = 60  # maximum number of entities drawn around a chosen one, or without clusters
MAX_EXPANDED = 120  # the same, with the neighbors of expanded entities
MAX_RELATIONS = 400
MAX_GRAPHS = 50
MAX_TYPES = 60
CACHED_S = 600


@dataclass(frozen=True)
class Structure:
    """The entities of a graph by number, their relations, and the path of each in the tree of clusters."""

    paths: dict[int, Path]
    edges: list[tuple[int, int]]

    @cached_property
    def neighbors(self) -> dict[int, list[int]]:
        found: dict[int, dict[int, None]] = defaultdict(dict)
        for start, end in self.edges:
            if start != end:
                found[start][end] = None
                found[end][start] = None
        return {number: list(others) for number, others in found.items()}

    def degree(self, number: int) -> int:
        return len(self.neighbors.get(number, ()))

    def most_connected(self, numbers: Collection[int]) -> list[int]:
        return sorted(numbers, key=lambda number: (-self.degree(number), number))


@dataclass(frozen=True)
class Contents:
    """The types of a graph's entities by number. `is_cut` is set if only the newest entities are included."""

    types: dict[int, str]
    is_cut: bool

    @property
    def counts(self) -> list[tuple[str, int]]:
        """The most frequent types with their counts."""
        counts = Counter(self.types.values())
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_TYPES]


@dataclass(frozen=True)
class Surroundings:
    """Numbers of entities around a center, nearest first, and how many neighbors the center has in all."""

    numbers: list[int]
    total: int
    is_cut: bool


def graphs_of(caller: Caller) -> list[Graph]:
    rows = Graph.objects.visible_to(caller).order_by("created_by", "persona")[:MAX_GRAPHS]
    return sorted(rows, key=lambda graph: graph.created_by != caller.email)


def contents_of(graph: Graph, as_of: datetime | None) -> Contents:
    rows = entities(graph, as_of).order_by("-number").values_list("number", "entity_type")[: MAX_LOADED + 1]
    newest = list(rows)
    return Contents(dict(reversed(newest[:MAX_LOADED])), len(newest) > MAX_LOADED)


def structure_of(graph: Graph, contents: Contents, as_of: datetime | None = None, entity_type: str = "") -> Structure:
    """Return the structure of a graph, or of its entities of one type. Earlier states are not cached."""
    numbers = [number for number, kind in contents.types.items() if not entity_type or kind == entity_type]
    kind = sha256(entity_type.encode()).hexdigest()[:16]
    key = f"graph-structure-{graph.pk.hex}-{graph.changed_at.timestamp()}-{graph.last_number}-{kind}"
    found: Structure | None = None if as_of else caches["process"].get(key)
    if found is None or found.paths.keys() != set(numbers):
        known = set(numbers)
        edges = [(start, end) for start, end in _edges(graph, as_of) if start in known and end in known]
        found = Structure(paths_of(numbers, edges), edges)
        if not as_of:
            caches["process"].set(key, Structure(found.paths, found.edges), CACHED_S)
    return found


def _edges(graph: Graph, as_of: datetime | None) -> list[tuple[int, int]]:
    relations = Relation.objects.filter(in_force(as_of=as_of), graph=graph).order_by("-number")
    return list(relations.values_list("source__number", "target__number")[:MAX_EDGES])


def around(
    structure: Structure, center: int, expanded: Collection[int] = (), of_type: Collection[int] | None = None
) -> Surroundings:
    """Return the center, its neighbors, and the neighbors of those neighbors that are expanded.

    If `of_type` is given, only these numbers are neighbors.
    """
    found = {center: None}
    limit = MAX_DRAWN
    is_cut = False
    queue = [center]
    while queue:
        number = queue.pop(0)
        for neighbor in structure.most_connected(structure.neighbors.get(number, ())):
            if neighbor in found or (of_type is not None and neighbor not in of_type):
                continue
            if len(found) > limit:
                is_cut = True
                break
            found[neighbor] = None
            if neighbor in expanded:
                queue.append(neighbor)
        limit = MAX_EXPANDED
    total = sum(of_type is None or other in of_type for other in structure.neighbors.get(center, ()))
    return Surroundings(list(found), total, is_cut)


def structure_around(graph: Graph, center: int, as_of: datetime | None) -> Structure:
    """Return the structure of one entity and its neighbors, for an entity that the graph's structure leaves out."""
    relations = Relation.objects.filter(in_force(as_of=as_of), graph=graph)
    rows = relations.filter(Q(source__number=center) | Q(target__number=center)).order_by("number")
    edges = list(rows.values_list("source__number", "target__number")[: MAX_EXPANDED + 1])
    numbers = dict.fromkeys([center, *(number for pair in edges for number in pair)])
    return Structure(dict.fromkeys(numbers, ()), edges)


def by_number(graph: Graph, numbers: Collection[int], as_of: datetime | None) -> dict[int, Entity]:
    """Return entities by number. Those that were deleted after the structure was read are missing."""
    rows = entities(graph, as_of).filter(number__in=list(numbers))
    return {entity.number: entity for entity in rows}


def relations_among(shown: Sequence[Entity], as_of: datetime | None) -> list[Relation]:
    pks = [entity.pk for entity in shown]
    rows = Relation.objects.filter(in_force(as_of=as_of), source__in=pks, target__in=pks)
    return list(rows.order_by("number")[:MAX_RELATIONS])

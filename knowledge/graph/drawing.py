"""What the graph page draws: a graph's structure as numbers, and the entities and relations that are in view.

The structure (numbers of entities, their relations, and their clusters) is cached until the graph changes. Names and
texts are never cached: they are read for what is in view, so that erased texts are gone at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from hashlib import sha256

from django.core.cache import cache
from django.db.models import Count

from knowledge.graph.clusters import Path, paths_of
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.queries import entities, in_force
from memories.identity.caller import Caller

MAX_LOADED = 6_000  # maximum number of entities in a structure; of a larger graph, those that changed last
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
    is_cut: bool = False

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
class Surroundings:
    """Numbers of entities around a center, nearest first, and how many neighbors the center has in all."""

    numbers: list[int]
    total: int
    is_cut: bool


def graphs_of(caller: Caller) -> list[Graph]:
    rows = Graph.objects.visible_to(caller).order_by("created_by", "persona")[:MAX_GRAPHS]
    return sorted(rows, key=lambda graph: graph.created_by != caller.email)


def types_of(graph: Graph, as_of: datetime | None) -> list[tuple[str, int]]:
    """Return the most frequent types of entities with their counts."""
    rows = entities(graph, as_of).order_by().values_list("entity_type").annotate(n=Count("pk"))
    return list(rows.order_by("-n", "entity_type")[:MAX_TYPES])


def structure_of(graph: Graph, as_of: datetime | None = None, entity_type: str = "") -> Structure:
    """Return the structure of a graph, or of its entities of one type. Earlier states are not cached."""
    if as_of:
        return _read(graph, as_of, entity_type)
    kind = sha256(entity_type.encode()).hexdigest()[:16]
    key = f"graph-structure-{graph.pk.hex}-{graph.changed_at.timestamp()}-{graph.last_number}-{kind}"
    found: Structure | None = cache.get(key)
    if found is None:
        found = _read(graph, as_of, entity_type)
        cache.set(key, Structure(found.paths, found.edges, found.is_cut), CACHED_S)
    return found


def _read(graph: Graph, as_of: datetime | None, entity_type: str) -> Structure:
    rows = entities(graph, as_of)
    if entity_type:
        rows = rows.filter(entity_type=entity_type)
    numbers = list(rows.order_by("-updated_at", "-number").values_list("number", flat=True)[: MAX_LOADED + 1])
    is_cut = len(numbers) > MAX_LOADED
    numbers = sorted(numbers[:MAX_LOADED])
    known = set(numbers)
    relations = Relation.objects.filter(in_force(as_of=as_of), graph=graph).order_by("number")
    pairs = relations.values_list("source__number", "target__number")[:MAX_EDGES]
    edges = [(start, end) for start, end in pairs if start in known and end in known]
    return Structure(paths_of(numbers, edges), edges, is_cut)


def around(structure: Structure, center: int, expanded: Collection[int]) -> Surroundings:
    """Return the center, its neighbors, and the neighbors of those neighbors that are expanded."""
    found = {center: None}
    limit = MAX_DRAWN
    is_cut = False
    queue = [center]
    while queue:
        number = queue.pop(0)
        for neighbor in structure.most_connected(structure.neighbors.get(number, ())):
            if neighbor in found:
                continue
            if len(found) > limit:
                is_cut = True
                break
            found[neighbor] = None
            if neighbor in expanded:
                queue.append(neighbor)
        limit = MAX_EXPANDED
    return Surroundings(list(found), structure.degree(center), is_cut)


def structure_around(graph: Graph, center: Entity, as_of: datetime | None) -> Structure:
    """Return the structure of one entity and its neighbors, for an entity that a cut structure leaves out."""
    relations = Relation.objects.filter(in_force(as_of=as_of))
    pks = relations.filter(source=center).values("target").union(relations.filter(target=center).values("source"))
    rows = entities(graph, as_of).filter(pk__in=pks).order_by("number")[: MAX_EXPANDED + 1]
    numbers = [center.number, *rows.values_list("number", flat=True)]
    edges = [(center.number, number) for number in numbers[1:]]
    return Structure(dict.fromkeys(numbers, ()), edges, len(numbers) > MAX_EXPANDED)


def by_number(graph: Graph, numbers: Collection[int], as_of: datetime | None) -> dict[int, Entity]:
    """Return entities by number. Those that were deleted after the structure was read are missing."""
    rows = entities(graph, as_of).filter(number__in=list(numbers))
    return {entity.number: entity for entity in rows}


def relations_among(shown: Sequence[Entity], as_of: datetime | None) -> list[Relation]:
    pks = [entity.pk for entity in shown]
    rows = Relation.objects.filter(in_force(as_of=as_of), source__in=pks, target__in=pks)
    return list(rows.order_by("number")[:MAX_RELATIONS])

"""Reads of a knowledge graph: entities by name or text, and the relations around them.

read_graph and search_nodes are paged. read_graph and open_nodes can also return the graph as it was at an earlier time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet

from foundation.operations.paging import invalid_cursor
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.models import Entity, Graph, Observation, Reflection, Relation
from knowledge.graph.operations import OpenNodes, ReadGraph, SearchNodes
from knowledge.graph.search import access_counts, graph_reading
from knowledge.graph.search.trigrams import folded

# Maximum number of observations, and of their characters, of an entity that responses to searches and writes contain as
# a whole, as the tools' contract shows it.
MAX_SHORT, MAX_SHORT_CHARACTERS = 10, 2_000
MAX_MATCHES = 20  # maximum number of matching observations of a longer entity


@dataclass
class Node:
    entity: Entity
    observations: list[Observation] = field(default_factory=list)
    reflections: list[Reflection] = field(default_factory=list)
    selected: list[Observation] | None = None  # those that a response contains; None: all

    @property
    def is_short(self) -> bool:
        texts = [row.text for row in self.observations]
        return len(texts) <= MAX_SHORT and sum(map(len, texts)) <= MAX_SHORT_CHARACTERS

    def select(self, rows: Iterable[Observation]) -> None:
        """Restrict a response to these observations, unless the entity is short enough to be returned as a whole."""
        if not self.is_short:
            pks = {row.pk for row in rows}
            self.selected = [row for row in self.observations if row.pk in pks]


@dataclass(frozen=True)
class GraphPage:
    nodes: list[Node]
    relations: list[Relation]
    next_cursor: str = ""


def in_force(prefix: str = "", as_of: datetime | None = None, *, end: str = "ended_at", begin: str = "created_at") -> Q:
    """Return the condition for rows that are in force now, or were at `as_of`."""
    if as_of is None:
        return Q(**{f"{prefix}{end}": None})
    not_ended = Q(**{f"{prefix}{end}": None}) | Q(**{f"{prefix}{end}__gt": as_of})
    return Q(**{f"{prefix}{begin}__lte": as_of}) & not_ended


def entities(graph: Graph, as_of: datetime | None = None) -> QuerySet[Entity]:
    rows = Entity.objects.filter(graph=graph, is_placeholder=False)
    return rows.filter(in_force(as_of=as_of, end="deleted_at")).defer("folded", "grams")


def nodes_of(
    rows: Sequence[Entity], as_of: datetime | None = None, kinds: Sequence[str] = (), *, superseded: bool = False
) -> list[Node]:
    nodes = {entity.pk: Node(entity) for entity in rows}
    for observation in graph_reading.observations(list(nodes), as_of, kinds, superseded=superseded):
        nodes[observation.entity_id].observations.append(observation)
    return [nodes[entity.pk] for entity in rows]


def changed_nodes(rows: Sequence[Entity], new_texts: Mapping[str, Collection[str]]) -> list[Node]:
    """Return entities after a write. Of those with many observations, the new texts are selected.

    `new_texts` are the texts that the write added, by the entity's name.
    """
    nodes = nodes_of(rows)
    for node in nodes:
        added = set(new_texts.get(node.entity.name, ()))
        node.select(row for row in node.observations if row.text in added)
    return nodes


def relations_of(rows: Iterable[Entity], as_of: datetime | None = None, *, ended: bool = False) -> list[Relation]:
    """Return the relations that start or end at one of these entities. With `ended`, include those that ended."""
    return graph_reading.relations([entity.pk for entity in rows], as_of, ended=ended)


def read_graph(caller: Caller, operation: ReadGraph) -> GraphPage:
    """Return a page of entities in order of creation, with the relations that start at them."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    rows = graph_reading.entities(
        graph, as_of=operation.as_of, after=_entity_number(operation.cursor), limit=operation.limit + 1
    )
    page = rows[: operation.limit]
    rest = rows[operation.limit :]
    pks = {entity.pk for entity in page}
    # Only outgoing relations are returned, so that each relation is on exactly one page.
    relations = relations_of(page, operation.as_of, ended=operation.include_ended)
    outgoing = [relation for relation in relations if relation.source_id in pks]
    return GraphPage(nodes_of(page, operation.as_of), outgoing, str(page[-1].number) if rest else "")


def search_nodes(caller: Caller, operation: SearchNodes) -> GraphPage:
    """Return a page of entities whose name, type or observations contain the query, ignoring case.

    Of entities with many observations, those that contain the query are selected.
    """
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    rows = graph_reading.entities(
        graph, holding=operation.query, after=_entity_number(operation.cursor), limit=operation.limit + 1
    )
    page = rows[: operation.limit]
    rest = rows[operation.limit :]
    relations = relations_of(page, ended=operation.include_ended)
    nodes = nodes_of(page)
    words = folded(operation.query)
    for node in nodes:
        node.select([row for row in node.observations if words in folded(row.text)][:MAX_MATCHES])
    return GraphPage(nodes, relations, str(page[-1].number) if rest else "")


def open_nodes(caller: Caller, operation: OpenNodes) -> GraphPage:
    """Return the named entities in the order of their names in the call. Unknown names are left out."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    by_name = names.find(graph, operation.names, as_of=operation.as_of)
    # Two names of the call may be spellings of one entity.
    rows = list({by_name[name].pk: by_name[name] for name in operation.names if name in by_name}.values())
    nodes = nodes_of(rows, operation.as_of, operation.kinds, superseded=operation.include_superseded)
    by_entity = {node.entity.pk: node for node in nodes}
    for reflection in Reflection.objects.filter(entity__in=rows).defer("vector").order_by("number"):
        if reflection.entity_id:
            by_entity[reflection.entity_id].reflections.append(reflection)
    if not operation.as_of:  # a look at the past is not counted as an access
        access_counts.queue_count([entity.pk for entity in rows])
    return GraphPage(nodes, relations_of(rows, operation.as_of, ended=operation.include_ended))


def _entity_number(cursor: str) -> int:
    if cursor and not cursor.isdecimal():
        raise invalid_cursor("cursor")
    return int(cursor or 0)

"""What a graph holds: entities by name or by a part of a text, relations around them, all of it page by page, now or
as it was at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q, QuerySet

from knowledge.graph import graphs
from knowledge.graph.models import Entity, Graph, Observation, Reflection, Relation
from knowledge.graph.operations import OpenNodes, ReadGraph, SearchNodes
from knowledge.graph.search import access_counts, sql
from memories.contract.errors import Invalid
from memories.identity.caller import Caller


@dataclass
class Node:
    """An entity with what is said of it at the time that was asked about."""

    entity: Entity
    observations: list[Observation] = field(default_factory=list)
    reflections: list[Reflection] = field(default_factory=list)


@dataclass(frozen=True)
class GraphPage:
    nodes: list[Node]
    relations: list[Relation]
    next_cursor: str = ""


def in_force(prefix: str = "", as_of: datetime | None = None, *, end: str = "ended_at", begin: str = "created_at") -> Q:
    """What holds now, or held at that time."""
    if as_of is None:
        return Q(**{f"{prefix}{end}": None})
    after = Q(**{f"{prefix}{end}": None}) | Q(**{f"{prefix}{end}__gt": as_of})
    return Q(**{f"{prefix}{begin}__lte": as_of}) & after


def entities(graph: Graph, as_of: datetime | None = None) -> QuerySet[Entity]:
    rows = Entity.objects.filter(graph=graph, is_placeholder=False)
    return rows.filter(in_force(as_of=as_of, end="deleted_at")).defer("folded", "grams")


def nodes_of(
    rows: Sequence[Entity], as_of: datetime | None = None, kinds: Sequence[str] = (), *, superseded: bool = False
) -> list[Node]:
    """The entities in their order, each with its observations."""
    nodes = {entity.pk: Node(entity) for entity in rows}
    for observation in sql.observations(list(nodes), as_of, kinds, superseded=superseded):
        nodes[observation.entity_id].observations.append(observation)
    return [nodes[entity.pk] for entity in rows]


def relations_of(rows: Iterable[Entity], as_of: datetime | None = None) -> list[Relation]:
    """The relations with an end among these."""
    return sql.relations([entity.pk for entity in rows], as_of)


def read_graph(operation: ReadGraph, *, caller: Caller) -> GraphPage:
    """The graph from the cursor on, in the order in which its entities were made."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    rows = sql.entities(graph, as_of=operation.as_of, after=_number(operation.cursor), limit=operation.limit + 1)
    page, rest = rows[: operation.limit], rows[operation.limit :]
    pks = {entity.pk for entity in page}
    outgoing = [relation for relation in relations_of(page, operation.as_of) if relation.source_id in pks]
    return GraphPage(nodes_of(page, operation.as_of), outgoing, str(page[-1].number) if rest else "")


def search_nodes(operation: SearchNodes, *, caller: Caller) -> GraphPage:
    """Entities whose name, type or observations hold the query literally, whatever its case; all for a blank one."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    rows = sql.entities(
        graph, holding=operation.query.strip(), after=_number(operation.cursor), limit=operation.limit + 1
    )
    page, rest = rows[: operation.limit], rows[operation.limit :]
    return GraphPage(nodes_of(page), relations_of(page), str(page[-1].number) if rest else "")


def open_nodes(operation: OpenNodes, *, caller: Caller) -> GraphPage:
    """The named entities in the order asked, those that are not there left out; what is looked at is counted."""
    graph = graphs.graph_of(caller)
    if graph is None:
        return GraphPage([], [])
    by_name = {entity.name: entity for entity in sql.entities(graph, names=operation.names, as_of=operation.as_of)}
    rows = [by_name[name] for name in dict.fromkeys(operation.names) if name in by_name]
    nodes = nodes_of(rows, operation.as_of, operation.kinds, superseded=operation.include_superseded)
    by_entity = {node.entity.pk: node for node in nodes}
    for reflection in Reflection.objects.filter(entity__in=rows).defer("vector").order_by("number"):
        if reflection.entity_id:
            by_entity[reflection.entity_id].reflections.append(reflection)
    if not operation.as_of:
        access_counts.count_later([entity.pk for entity in rows])
    return GraphPage(nodes, relations_of(rows, operation.as_of))


def _number(cursor: str) -> int:
    if cursor and not cursor.isdecimal():
        raise Invalid(f"{cursor[:20]!r} is not a cursor", field="cursor", allowed="next_cursor of the page before")
    return int(cursor or 0)

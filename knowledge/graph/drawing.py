"""What is drawn of a graph: an entity with its neighbours, those of the ones that were expanded too, or, before
anything was chosen, the entities with the most relations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.queries import entities, in_force
from memories.identity.caller import Caller

MAX_DRAWN = 500
MAX_OVERVIEW = 60
MAX_GRAPHS = 50


@dataclass(frozen=True)
class Neighbourhood:
    """`centre` first among the entities, then by their distance from it; `is_cut` where more are there than drawn."""

    centre: Entity | None
    entities: list[Entity]
    relations: list[Relation]
    is_cut: bool = False


def graphs_of(caller: Caller) -> list[Graph]:
    """The graphs that the caller may look at, their own first."""
    rows = Graph.objects.visible_to(caller).order_by("created_by", "persona")[:MAX_GRAPHS]
    return sorted(rows, key=lambda graph: graph.created_by != caller.email)


def around(
    graph: Graph, number: int | None, expanded: Collection[int] = (), as_of: datetime | None = None
) -> Neighbourhood:
    """The entity of this number with its neighbours and those of the expanded ones; without one, the overview."""
    rows = entities(graph, as_of)
    centre = rows.filter(number=number).first() if number else None
    if centre is None:
        return _overview(graph, as_of)
    by_pk = {centre.pk: centre}
    waiting = [centre]
    is_cut = False
    while waiting:
        entity = waiting.pop(0)
        for neighbour in _neighbours(graph, entity, as_of):
            if neighbour.pk in by_pk:
                continue
            if len(by_pk) >= MAX_DRAWN:
                is_cut = True
                break
            by_pk[neighbour.pk] = neighbour
            if neighbour.number in expanded:
                waiting.append(neighbour)
    return Neighbourhood(centre, list(by_pk.values()), _relations(by_pk, as_of), is_cut)


def _overview(graph: Graph, as_of: datetime | None) -> Neighbourhood:
    rule = in_force("outgoing__", as_of)
    reverse = in_force("incoming__", as_of)
    degree = Count("outgoing", filter=rule, distinct=True) + Count("incoming", filter=reverse, distinct=True)
    rows = list(entities(graph, as_of).annotate(degree=degree).order_by("-degree", "number")[: MAX_OVERVIEW + 1])
    by_pk = {entity.pk: entity for entity in rows[:MAX_OVERVIEW]}
    return Neighbourhood(None, list(by_pk.values()), _relations(by_pk, as_of), len(rows) > MAX_OVERVIEW)


def _neighbours(graph: Graph, entity: Entity, as_of: datetime | None) -> list[Entity]:
    relations = Relation.objects.filter(in_force(as_of=as_of))
    pks = relations.filter(source=entity).values("target").union(relations.filter(target=entity).values("source"))
    return list(entities(graph, as_of).filter(pk__in=pks).order_by("number")[: MAX_DRAWN + 1])


def _relations(by_pk: Collection[object], as_of: datetime | None) -> list[Relation]:
    pks = list(by_pk)
    rows = Relation.objects.filter(Q(source__in=pks) & Q(target__in=pks)).filter(in_force(as_of=as_of))
    return list(rows.order_by("number")[: 4 * MAX_DRAWN])

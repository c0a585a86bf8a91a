"""Selection of the entities and relations that the graph page draws.

If an entity is chosen, the page draws it, its neighbors and the neighbors of expanded entities. Otherwise the page
draws the entities with the most relations.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.queries import entities, in_force
from memories.identity.caller import Caller

MAX_DRAWN = 500  # maximum number of entities drawn, including the chosen one
MAX_OVERVIEW = 60  # maximum number of entities drawn if none is chosen
MAX_GRAPHS = 50


@dataclass(frozen=True)
class Neighborhood:
    """Entities and relations to draw.

    If there is a `center`, it is the first of `entities`, and the others are ordered by their distance from it.
    `is_cut` is set if entities were left out because of the limits.
    """

    center: Entity | None
    entities: list[Entity]
    relations: list[Relation]
    is_cut: bool = False


def graphs_of(caller: Caller) -> list[Graph]:
    rows = Graph.objects.visible_to(caller).order_by("created_by", "persona")[:MAX_GRAPHS]
    return sorted(rows, key=lambda graph: graph.created_by != caller.email)


def neighborhood_of(
    graph: Graph, number: int | None, expanded: Collection[int] = (), as_of: datetime | None = None
) -> Neighborhood:
    """Return the entity with this number, its neighbors, and the neighbors of entities with `expanded` numbers.

    If there is no such entity, return the entities with the most relations.
    """
    rows = entities(graph, as_of)
    center = rows.filter(number=number).first() if number else None
    if center is None:
        return _overview(graph, as_of)
    by_pk = {center.pk: center}
    queue = [center]
    is_cut = False
    while queue:
        entity = queue.pop(0)
        for neighbor in _neighbors(graph, entity, as_of):
            if neighbor.pk in by_pk:
                continue
            if len(by_pk) >= MAX_DRAWN:
                is_cut = True
                break
            by_pk[neighbor.pk] = neighbor
            if neighbor.number in expanded:
                queue.append(neighbor)
    return Neighborhood(center, list(by_pk.values()), _relations(by_pk, as_of), is_cut)


def _overview(graph: Graph, as_of: datetime | None) -> Neighborhood:
    rule = in_force("outgoing__", as_of)
    reverse = in_force("incoming__", as_of)
    degree = Count("outgoing", filter=rule, distinct=True) + Count("incoming", filter=reverse, distinct=True)
    rows = list(entities(graph, as_of).annotate(degree=degree).order_by("-degree", "number")[: MAX_OVERVIEW + 1])
    by_pk = {entity.pk: entity for entity in rows[:MAX_OVERVIEW]}
    return Neighborhood(None, list(by_pk.values()), _relations(by_pk, as_of), len(rows) > MAX_OVERVIEW)


def _neighbors(graph: Graph, entity: Entity, as_of: datetime | None) -> list[Entity]:
    relations = Relation.objects.filter(in_force(as_of=as_of))
    pks = relations.filter(source=entity).values("target").union(relations.filter(target=entity).values("source"))
    return list(entities(graph, as_of).filter(pk__in=pks).order_by("number")[: MAX_DRAWN + 1])


def _relations(by_pk: Collection[object], as_of: datetime | None) -> list[Relation]:
    pks = list(by_pk)
    rows = Relation.objects.filter(Q(source__in=pks) & Q(target__in=pks)).filter(in_force(as_of=as_of))
    return list(rows.order_by("number")[: 4 * MAX_DRAWN])

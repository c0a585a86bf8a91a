"""Entities of the graph that stand for catalog entities tell recall what is near them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from knowledge.graph.models import Entity, Graph, Relation
from memories.identity.caller import Caller

MAX_NEAR = 200


def neighbours(caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
    """Catalog URNs one relation away from these, in graphs that the caller may read; each at distance 1."""
    graphs = Graph.objects.visible_to(caller).values("pk")
    nodes = Entity.objects.filter(graph__in=graphs, urn__in=list(urns), deleted_at=None).values("pk")
    rows = Relation.objects.filter(Q(source__in=nodes) | Q(target__in=nodes), ended_at=None)
    pairs = rows.exclude(source__urn="").exclude(target__urn="").values_list("source__urn", "target__urn")[:MAX_NEAR]
    return {urn: 1 for pair in pairs for urn in pair if urn not in set(urns)}, ""


def of_entity(caller: Caller, urn: str) -> list[Entity]:
    """The graph's entities that stand for a catalog entity, in graphs that the caller may read."""
    rows = Entity.objects.filter(graph__in=Graph.objects.visible_to(caller), urn=urn, deleted_at=None)
    return list(rows.select_related("graph").defer("folded", "grams")[:20])

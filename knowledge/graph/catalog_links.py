"""Links between catalog entities and the graph entities that represent them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from knowledge.graph.models import Entity, Graph, Relation
from memories.identity.caller import Caller

MAX_RELATIONS = 200  # read per call


def neighbors(caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
    """Return the catalog URNs one relation away from `urns`, in graphs that the caller may read.

    Each is at distance 1. The second value, a note on what is degraded, is always empty.
    """
    graphs = Graph.objects.visible_to(caller).values("pk")
    nodes = Entity.objects.filter(graph__in=graphs, urn__in=list(urns), deleted_at=None).values("pk")
    rows = Relation.objects.filter(Q(source__in=nodes) | Q(target__in=nodes), ended_at=None)
    rows = rows.exclude(source__urn="").exclude(target__urn="")
    pairs = rows.values_list("source__urn", "target__urn")[:MAX_RELATIONS]
    return {urn: 1 for pair in pairs for urn in pair if urn not in set(urns)}, ""


def graph_entities_for(caller: Caller, urn: str) -> list[Entity]:
    """Return the graph entities that represent a catalog entity, from graphs that the caller may read."""
    rows = Entity.objects.filter(graph__in=Graph.objects.visible_to(caller), urn=urn, deleted_at=None)
    return list(rows.select_related("graph").defer("folded", "grams")[:20])

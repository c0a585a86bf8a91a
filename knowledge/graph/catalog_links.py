"""Links between catalog entities and the graph entities that represent them."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Q

from foundation.people.caller import Caller
from knowledge.graph.models import Entity, Graph, Relation

MAX_RELATIONS = 200  # maximum number of relations read per call


def neighbors(caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
    """Return the catalog URNs that one graph relation connects with `urns`, each with the distance 1.

    Only graphs that the caller may read are searched. The second value, a note about a failed lookup, is always empty.
    """
    graphs = Graph.objects.visible_to(caller).values("pk")
    nodes = Entity.objects.filter(graph__in=graphs, urn__in=list(urns), deleted_at=None).values("pk")
    rows = Relation.objects.filter(Q(source__in=nodes) | Q(target__in=nodes), ended_at=None)
    rows = rows.exclude(source__urn="").exclude(target__urn="")
    pairs = rows.values_list("source__urn", "target__urn")[:MAX_RELATIONS]
    return {urn: 1 for pair in pairs for urn in pair if urn not in set(urns)}, ""


def graph_entities_for(caller: Caller, urn: str) -> list[Entity]:
    """Return up to 20 graph entities that represent a catalog entity, from graphs that the caller may read."""
    rows = Entity.objects.filter(graph__in=Graph.objects.visible_to(caller), urn=urn, deleted_at=None)
    return list(rows.select_related("graph").defer("folded", "grams")[:20])

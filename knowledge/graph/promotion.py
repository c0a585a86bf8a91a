"""An observation of the graph becomes an insight for the catalog."""

from __future__ import annotations

from knowledge.graph import graphs
from knowledge.graph.models import Observation
from knowledge.insights.lifecycle import Origin
from memories.contract.errors import NotFound
from memories.identity.caller import Caller


def origin(caller: Caller, number: int) -> Origin:
    """What the observation says, of its entity. Raises NotFound."""
    graph = graphs.graph_of(caller)
    rows = Observation.objects.filter(graph=graph, number=number, ended_at=None).select_related("entity")
    observation = rows.first() if graph else None
    if observation is None:
        raise NotFound("no such observation of your graph", field="observation_id")
    entity = observation.entity
    return Origin(
        f"{entity.name}: {observation.text}",
        [entity.urn] if entity.urn else [],
        {"observation_id": number, "graph_entity": entity.name},
    )

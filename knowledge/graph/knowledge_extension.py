"""Hooks of the knowledge graph into the knowledge app: insights can be captured from observations."""

from __future__ import annotations

from foundation.people.caller import Caller
from knowledge.extensions import KnowledgeExtension, Origin
from knowledge.graph import graphs
from knowledge.graph.entities import OBSERVATIONS
from knowledge.graph.models import Observation


class GraphKnowledgeExtension(KnowledgeExtension):
    def observation(self, caller: Caller, number: int) -> Origin | None:
        graph = graphs.graph_of(caller)
        rows = Observation.objects.filter(graph=graph, number=number, ended_at=None).select_related("entity")
        observation = rows.first() if graph else None
        if observation is None:
            return None
        entity = observation.entity
        return Origin(
            f"{entity.name}: {observation.text}",
            [entity.urn] if entity.urn else [],
            {"observation_id": number, "graph_entity": entity.name},
            OBSERVATIONS,
            observation.pk,
        )

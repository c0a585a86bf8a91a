"""Hooks of the knowledge graph into the memories app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import QuerySet

from foundation.people.caller import Caller
from knowledge.graph import catalog_links
from knowledge.graph.entities import OBSERVATIONS
from knowledge.graph.models import Graph, Observation, Reflection
from knowledge.graph.portable_kinds import KINDS
from knowledge.graph.search.rebuild import rebuild
from memories.extensions import MemoryExtension, TextPlace
from memories.portability import ExportKind


class GraphMemoryExtension(MemoryExtension):
    def text_places(self) -> Sequence[TextPlace]:
        def observations(caller: Caller) -> QuerySet[Observation]:
            return Observation.objects.filter(graph__in=Graph.objects.visible_to(caller))

        def reflections(caller: Caller) -> QuerySet[Reflection]:
            return Reflection.objects.filter(graph__in=Graph.objects.visible_to(caller))

        return [
            TextPlace(OBSERVATIONS, Observation, ("text",), observations, "graph__created_by"),
            TextPlace("reflections", Reflection, ("content",), reflections, "created_by"),
        ]

    def portable_kinds(self) -> Sequence[ExportKind]:
        return KINDS

    def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[Mapping[str, int], str]:
        return catalog_links.neighbors(caller, urns)

    def rebuild_search(self) -> str:
        return rebuild()

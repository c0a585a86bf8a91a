from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.tools import TOOLS, Tool

if TYPE_CHECKING:
    from memories.extensions import PersonalDataColumn


class GraphConfig(AppConfig):
    name = "knowledge.graph"
    label = "graph"
    verbose_name = "Knowledge graph"

    def ready(self) -> None:
        from knowledge.graph import catalog_links, promotion  # noqa: PLC0415 - the same
        from knowledge.graph.maintenance import proposals  # noqa: PLC0415 - the same
        from knowledge.graph.search import rebuild, reflections, vectors  # noqa: PLC0415 - the same
        from knowledge.insights.lifecycle import ORIGINS  # noqa: PLC0415 - models first
        from memories import extensions  # noqa: PLC0415 - the same
        from memories.retrieval import indexing, recall  # noqa: PLC0415 - the same
        from memories.writing import bulk_actions  # noqa: PLC0415 - the same

        TOOLS.register("graph", tools)
        ORIGINS.register("graph", promotion.origin)
        recall.NEIGHBOURS.register("graph", catalog_links.neighbours)
        indexing.SOURCES.register(vectors.KIND, vectors.SOURCE)
        indexing.SOURCES.register(reflections.KIND, reflections.SOURCE)
        extensions.TRACES.register("graph", traces)
        extensions.REBUILDS.register("graph", rebuild.rebuild)
        for name, act in proposals.PROPOSAL_ACTIONS.items():
            bulk_actions.BULK_ACTIONS.register(name, act)


def traces() -> list[PersonalDataColumn]:
    from knowledge.graph.models import Graph, UpkeepProposal  # noqa: PLC0415 - models first
    from memories.extensions import PersonalDataColumn  # noqa: PLC0415 - the same

    return [PersonalDataColumn(Graph, "created_by"), PersonalDataColumn(UpkeepProposal, "decided_by", stays=True)]


def tools() -> Sequence[Tool]:
    from knowledge.graph.mcp_tools import TOOLS as graph_tools  # noqa: PLC0415 - servers alone need it

    return graph_tools

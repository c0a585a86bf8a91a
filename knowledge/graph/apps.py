from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.toolset import TOOLS, Tool

if TYPE_CHECKING:
    from memories.plugs import Trace


class GraphConfig(AppConfig):
    name = "knowledge.graph"
    label = "graph"
    verbose_name = "Knowledge graph"

    def ready(self) -> None:
        from knowledge.graph import neighbours, promoting  # noqa: PLC0415 - the same
        from knowledge.graph.finding import rebuilding, reflections, vectors  # noqa: PLC0415 - the same
        from knowledge.graph.upkeep import proposals  # noqa: PLC0415 - the same
        from knowledge.insights import ORIGINS  # noqa: PLC0415 - models first
        from memories import plugs  # noqa: PLC0415 - the same
        from memories.retrieval import indexing, search  # noqa: PLC0415 - the same
        from memories.writing import batches  # noqa: PLC0415 - the same

        TOOLS.register("graph", tools)
        ORIGINS.register("graph", promoting.origin)
        search.NEIGHBOURS.register("graph", neighbours.neighbours)
        indexing.SOURCES.register(vectors.KIND, vectors.SOURCE)
        indexing.SOURCES.register(reflections.KIND, reflections.SOURCE)
        plugs.TRACES.register("graph", traces)
        plugs.REBUILDS.register("graph", rebuilding.rebuild)
        for name, act in proposals.ACTS.items():
            batches.ACTS.register(name, act)


def traces() -> list[Trace]:
    from knowledge.graph.models import Graph, UpkeepProposal  # noqa: PLC0415 - models first
    from memories.plugs import Trace  # noqa: PLC0415 - the same

    return [Trace(Graph, "created_by"), Trace(UpkeepProposal, "decided_by", stays=True)]


def tools() -> Sequence[Tool]:
    from knowledge.graph.mcp_tools import TOOLS as graph_tools  # noqa: PLC0415 - servers alone need it

    return graph_tools

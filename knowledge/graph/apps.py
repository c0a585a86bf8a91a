from __future__ import annotations

from collections.abc import Sequence

from django.apps import AppConfig

from memories.contract.toolset import TOOLS, Tool


class GraphConfig(AppConfig):
    name = "knowledge.graph"
    label = "graph"
    verbose_name = "Knowledge graph"

    def ready(self) -> None:
        from knowledge import insights  # noqa: PLC0415 - models first
        from knowledge.graph import neighbours, promoting  # noqa: PLC0415 - the same
        from knowledge.graph.finding import reflections, vectors  # noqa: PLC0415 - the same
        from knowledge.graph.models import Graph  # noqa: PLC0415 - the same
        from memories import plugs  # noqa: PLC0415 - the same
        from memories.retrieval import indexing, search  # noqa: PLC0415 - the same

        TOOLS.register("graph", tools)
        insights.ORIGINS.register("graph", promoting.origin)
        search.NEIGHBOURS.register("graph", neighbours.neighbours)
        indexing.SOURCES.register(vectors.KIND, vectors.SOURCE)
        indexing.SOURCES.register(reflections.KIND, reflections.SOURCE)
        plugs.TRACES.register("graph", lambda: [plugs.Trace(Graph, "created_by")])


def tools() -> Sequence[Tool]:
    from knowledge.graph.mcp_tools import TOOLS as graph_tools  # noqa: PLC0415 - servers alone need it

    return graph_tools

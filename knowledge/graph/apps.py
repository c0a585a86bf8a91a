from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class GraphConfig(AppConfig):
    name = "knowledge.graph"
    label = "graph"
    verbose_name = gettext_lazy("Knowledge graph")
    toolsets = {"graph": "knowledge.graph.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from foundation import registry  # noqa: PLC0415 - needs loaded models
        from foundation.cases.kinds import CASE_KINDS  # noqa: PLC0415 - needs loaded models
        from knowledge import extensions as knowledge_extensions  # noqa: PLC0415 - needs loaded models
        from memories import extensions as memory_extensions  # noqa: PLC0415 - needs loaded models

        memory_extensions.EXTENSIONS.register("knowledge.graph.memory_extension.GraphMemoryExtension")
        knowledge_extensions.EXTENSIONS.register("knowledge.graph.knowledge_extension.GraphKnowledgeExtension")
        CASE_KINDS.register("upkeep", "knowledge.graph.maintenance.cases.UpkeepCases")
        registry.defer(contribute)


def contribute() -> None:
    from knowledge.graph.maintenance.proposals import PROPOSAL_ACTIONS  # noqa: PLC0415 - deferred
    from knowledge.graph.search import reflections, vectors  # noqa: PLC0415 - deferred
    from memories.retrieval import indexing  # noqa: PLC0415 - deferred
    from memories.writing.bulk_actions import BULK_ACTIONS  # noqa: PLC0415 - deferred

    indexing.SOURCES.register(vectors.KIND, vectors.SOURCE)
    indexing.SOURCES.register(reflections.KIND, reflections.SOURCE)
    BULK_ACTIONS.update(PROPOSAL_ACTIONS)

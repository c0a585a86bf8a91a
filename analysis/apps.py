from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class AnalysisConfig(AppConfig):
    name = "analysis"
    verbose_name = gettext_lazy("Analysis")
    toolsets = {
        "analysis": "analysis.mcp_tools.TOOLS",
        "query": "analysis.mcp_tools.QUERY_TOOLS",
        "storage": "analysis.storage.mcp_tools.TOOLS",
    }

    def ready(self) -> None:
        from foundation import registry  # noqa: PLC0415 - needs loaded models
        from foundation.work import jobs  # noqa: PLC0415 - needs loaded models
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("analysis.memory_extension.AnalysisMemoryExtension")
        jobs.register("analysis.actions.ActionJobs")
        registry.defer(contribute)


def contribute() -> None:
    from analysis import findings  # noqa: PLC0415 - deferred
    from memories.retrieval import indexing  # noqa: PLC0415 - deferred

    indexing.SOURCES.register("finding", findings.SOURCE)

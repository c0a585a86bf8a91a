from __future__ import annotations

from django.apps import AppConfig

from memories.contract.toolset import TOOLS, Tool


class AnalysisConfig(AppConfig):
    name = "analysis"
    verbose_name = "Analysis"

    def ready(self) -> None:
        from analysis import copies, findings, sources  # noqa: PLC0415 - models first
        from memories import plugs  # noqa: PLC0415 - the same
        from memories.retrieval.indexing import SOURCES  # noqa: PLC0415 - the same

        SOURCES.register("finding", findings.SOURCE)
        plugs.COPIES.register("analyses", copies.AnalysisCopies())
        for kind, opens in sources.BUILT_IN.items():
            sources.KINDS.register(kind, opens)
        TOOLS.register("analysis", tools)


def tools() -> list[Tool]:
    from analysis.mcp_tools import TOOLS as analysis_tools  # noqa: PLC0415 - models first; servers alone need it

    return analysis_tools

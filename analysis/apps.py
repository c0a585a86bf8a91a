from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.tools import TOOLS, Tool

if TYPE_CHECKING:
    from memories.extensions import PersonalDataColumn


class AnalysisConfig(AppConfig):
    name = "analysis"
    verbose_name = "Analysis"

    def ready(self) -> None:
        from analysis import copies, findings, sources  # noqa: PLC0415 - models first
        from memories import extensions  # noqa: PLC0415 - the same
        from memories.retrieval.indexing import SOURCES  # noqa: PLC0415 - the same

        SOURCES.register("finding", findings.SOURCE)
        extensions.COPIES.register("analyses", copies.AnalysisCopies())
        extensions.TRACES.register("analysis", traces)
        for kind, opens in sources.BUILT_IN.items():
            sources.KINDS.register(kind, opens)
        TOOLS.register("analysis", tools)
        TOOLS.register("query", query_tools)


def traces() -> list[PersonalDataColumn]:
    from analysis.models import Action, Session  # noqa: PLC0415 - models first
    from memories.extensions import PersonalDataColumn  # noqa: PLC0415 - the same

    return [
        PersonalDataColumn(Session, "owner"),
        PersonalDataColumn(Action, "owner", stays=True),
        PersonalDataColumn(Action, "on_behalf_of", stays=True),
    ]


def tools() -> list[Tool]:
    from analysis.mcp_tools import TOOLS as analysis_tools  # noqa: PLC0415 - models first; servers alone need it

    return analysis_tools


def query_tools() -> list[Tool]:
    from analysis.mcp_tools import query_sql  # noqa: PLC0415 - as above

    return [query_sql]

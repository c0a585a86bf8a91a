from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy

from foundation import registry


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = gettext_lazy("Memories")
    toolsets = {
        "memory": "memories.mcp_tools.TOOLS",
        "reports": "memories.mcp_tools.REPORTS",
        "notes": "memories.mcp_tools.NOTES",
    }

    def ready(self) -> None:
        from foundation.cases.kinds import CASE_KINDS  # noqa: PLC0415 - needs settings
        from foundation.database import restore_marker  # noqa: F401, PLC0415 - receives connection_created
        from foundation.work import jobs  # noqa: PLC0415 - needs the models

        CASE_KINDS.register("same_words", "memories.writing.same_words_cases.SameWordsCases")
        jobs.register("memories.writing.bulk_actions.BulkActionJobs")
        registry.defer(contribute)


def contribute() -> None:
    from memories.retrieval import indexing  # noqa: PLC0415 - deferred
    from memories.writing.bulk_actions import BULK_ACTIONS  # noqa: PLC0415 - deferred
    from memories.writing.memory_actions import MEMORY_ACTIONS  # noqa: PLC0415 - deferred

    indexing.SOURCES.register("memory", indexing.MEMORIES)
    BULK_ACTIONS.update(MEMORY_ACTIONS)

from __future__ import annotations

from django.apps import AppConfig

from memories.contract.toolset import TOOLS, Tool


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = "Memories"

    def ready(self) -> None:
        from memories.retrieval import indexing  # noqa: PLC0415 - models first
        from memories.writing import batches  # noqa: PLC0415 - the same

        TOOLS.register("memories", tools)
        indexing.SOURCES.register("memory", indexing.MEMORIES)
        for name, act in batches.MEMORY_ACTS.items():
            batches.ACTS.register(name, act)


def tools() -> list[Tool]:
    from memories.mcp_tools import TOOLS as memory_tools  # noqa: PLC0415 - models first; servers alone need it

    return memory_tools

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.tools import TOOLS, Tool

if TYPE_CHECKING:
    from memories.extensions import PersonalDataColumn


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = "Memories"

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - the same
        from memories.retrieval import indexing  # noqa: PLC0415 - models first
        from memories.writing import bulk_actions  # noqa: PLC0415 - the same

        TOOLS.register("memory", tools)
        indexing.SOURCES.register("memory", indexing.MEMORIES)
        extensions.TRACES.register("memories", traces)
        for name, act in bulk_actions.MEMORY_ACTIONS.items():
            bulk_actions.BULK_ACTIONS.register(name, act)


def traces() -> list[PersonalDataColumn]:
    from memories.extensions import PersonalDataColumn  # noqa: PLC0415 - the same
    from memories.models import Batch, Feedback, Impression, MemoryRevision, Tombstone  # noqa: PLC0415 - models first

    return [
        PersonalDataColumn(Batch, "created_by"),
        PersonalDataColumn(Feedback, "by"),
        PersonalDataColumn(Impression, "to"),
        PersonalDataColumn(MemoryRevision, "changed_by", stays=True),
        PersonalDataColumn(Tombstone, "created_by", stays=True),
        PersonalDataColumn(Tombstone, "erased_by", stays=True),
    ]


def tools() -> list[Tool]:
    from memories.mcp_tools import TOOLS as memory_tools  # noqa: PLC0415 - models first; servers alone need it

    return memory_tools

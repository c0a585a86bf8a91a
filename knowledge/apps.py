from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.tools import COMPANIONS, FAILURES, TOOLS, Tool

if TYPE_CHECKING:
    from memories.extensions import PersonalDataColumn


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        """Plugs into memories. Imported here, since models come first."""
        from knowledge.catalog import document_index  # noqa: PLC0415
        from knowledge.catalog.lineage import neighbours  # noqa: PLC0415
        from knowledge.changesets.change_request import CHANGE_TYPES  # noqa: PLC0415
        from knowledge.changesets.change_types import BUILT_IN  # noqa: PLC0415
        from knowledge.context import memory_context  # noqa: PLC0415
        from knowledge.freshness.comparison import hints  # noqa: PLC0415
        from knowledge.insights import entity_linking, sql_corrections  # noqa: PLC0415
        from knowledge.review import hooks  # noqa: PLC0415
        from memories import extensions  # noqa: PLC0415
        from memories.retrieval import indexing, recall  # noqa: PLC0415
        from memories.writing import bulk_actions  # noqa: PLC0415

        TOOLS.register("knowledge", tools)
        COMPANIONS.register("memory context", memory_context.attach_memories)
        COMPANIONS.register("repairs", sql_corrections.propose_correction)
        FAILURES.register("repairs", sql_corrections.on_call_failed)
        extensions.REVIEWS.register("insights", hooks.InsightReview())
        extensions.GROUNDS.register("baselines", hooks.ground)
        extensions.SUBJECTS.register("catalog", entity_linking.entities_of_text)
        extensions.TRACES.register("knowledge", traces)
        extensions.COPIES.register("changesets", hooks.InsightCopies())
        recall.NEIGHBOURS.register("lineage", neighbours)
        indexing.SOURCES.register(document_index.KIND, document_index.SOURCE)
        recall.HINTS.register("staleness", hints)
        for entry in BUILT_IN:
            CHANGE_TYPES.register(entry.name, entry)
        for name, act in hooks.INSIGHT_ACTIONS.items():
            bulk_actions.BULK_ACTIONS.register(name, act)


def traces() -> list[PersonalDataColumn]:
    """Others rely on what was decided: it stays, under a pseudonym."""
    from knowledge.models import Changeset, Decision, Insight  # noqa: PLC0415 - models first
    from memories.extensions import PersonalDataColumn  # noqa: PLC0415 - the same

    columns = [
        (Insight, "reviewed_by"), (Insight, "edit_by"), (Insight, "applied_by"), (Decision, "by"),
        (Changeset, "applied_by"), (Changeset, "rolled_back_by"),
    ]  # fmt: skip
    return [PersonalDataColumn(model, column, stays=True) for model, column in columns]


def tools() -> list[Tool]:
    from knowledge.mcp_tools import TOOLS  # noqa: PLC0415 - models first; servers alone need it

    return TOOLS

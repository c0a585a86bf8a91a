from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import AppConfig

from memories.contract.toolset import COMPANIONS, FAILURES, TOOLS, Tool

if TYPE_CHECKING:
    from memories.plugs import Trace


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        """Plugs into memories. Imported here, since models come first."""
        from knowledge import companions, repairs, reviewing, subjects  # noqa: PLC0415
        from knowledge.catalog import texts  # noqa: PLC0415
        from knowledge.catalog.lineage import neighbours  # noqa: PLC0415
        from knowledge.catalog.staleness import hints  # noqa: PLC0415
        from knowledge.changes.change_request import CHANGE_TYPES  # noqa: PLC0415
        from knowledge.changes.change_types import BUILT_IN  # noqa: PLC0415
        from memories import plugs  # noqa: PLC0415
        from memories.retrieval import indexing, search  # noqa: PLC0415
        from memories.writing import batches  # noqa: PLC0415

        TOOLS.register("knowledge", tools)
        COMPANIONS.register("memory context", companions.accompany)
        COMPANIONS.register("repairs", repairs.put_right)
        FAILURES.register("repairs", repairs.hear_failure)
        plugs.REVIEWS.register("insights", reviewing.InsightReview())
        plugs.GROUNDS.register("baselines", reviewing.ground)
        plugs.SUBJECTS.register("catalog", subjects.entities_of_text)
        plugs.TRACES.register("knowledge", traces)
        plugs.COPIES.register("changesets", reviewing.InsightCopies())
        search.NEIGHBOURS.register("lineage", neighbours)
        indexing.SOURCES.register(texts.KIND, texts.SOURCE)
        search.HINTS.register("staleness", hints)
        for entry in BUILT_IN:
            CHANGE_TYPES.register(entry.name, entry)
        for name, act in reviewing.ACTS.items():
            batches.ACTS.register(name, act)


def traces() -> list[Trace]:
    """Others rely on what was decided: it stays, under a pseudonym."""
    from knowledge.models import Changeset, Decision, Insight  # noqa: PLC0415 - models first
    from memories.plugs import Trace  # noqa: PLC0415 - the same

    columns = [
        (Insight, "reviewed_by"), (Insight, "edit_by"), (Insight, "applied_by"), (Decision, "by"),
        (Changeset, "applied_by"), (Changeset, "rolled_back_by"),
    ]  # fmt: skip
    return [Trace(model, column, stays=True) for model, column in columns]


def tools() -> list[Tool]:
    from knowledge.mcp_tools import TOOLS  # noqa: PLC0415 - models first; servers alone need it

    return TOOLS

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy

CASES = {
    "suggestion": "knowledge.suggestions.cases.SuggestionCases",
    "question": "knowledge.debt.cases.QuestionCases",
    "contradiction": "knowledge.contradictions.cases.ContradictionCases",
    "stale": "knowledge.freshness.cases.StaleCases",
    "verification": "knowledge.freshness.cases.VerificationCases",
}


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = gettext_lazy("Knowledge")
    toolsets = {"knowledge": "knowledge.mcp_tools.TOOLS"}

    def ready(self) -> None:
        from foundation import registry  # noqa: PLC0415 - needs loaded models
        from foundation.cases.kinds import CASE_KINDS  # noqa: PLC0415 - needs loaded models
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("knowledge.memory_extension.KnowledgeMemoryExtension")
        for name, path in CASES.items():
            CASE_KINDS.register(name, path)
        registry.defer(contribute)


def contribute() -> None:
    from foundation.operations.fields import ENTITY_NAMES  # noqa: PLC0415 - deferred
    from knowledge.catalog import document_index, name_resolution  # noqa: PLC0415 - deferred
    from knowledge.changesets.change_request import CHANGE_TYPES  # noqa: PLC0415 - deferred
    from knowledge.changesets.change_types import BUILT_IN  # noqa: PLC0415 - deferred
    from knowledge.review.bulk_actions import INSIGHT_ACTIONS  # noqa: PLC0415 - deferred
    from memories.retrieval import indexing  # noqa: PLC0415 - deferred
    from memories.writing.bulk_actions import BULK_ACTIONS  # noqa: PLC0415 - deferred

    ENTITY_NAMES.register("catalog", name_resolution.urn_of)
    indexing.SOURCES.register(document_index.KIND, document_index.SOURCE)
    BULK_ACTIONS.update(INSIGHT_ACTIONS)
    for change_type in BUILT_IN:
        CHANGE_TYPES.register(change_type.name, change_type)

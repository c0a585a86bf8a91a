from __future__ import annotations

from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        from knowledge import receivers  # noqa: F401, PLC0415 - they register themselves, models first
        from knowledge.catalog.lineage import neighbours  # noqa: PLC0415 - the same
        from knowledge.catalog.staleness import hints  # noqa: PLC0415 - the same
        from knowledge.decisions import HeldEdits  # noqa: PLC0415 - the same
        from memories.events import register_review  # noqa: PLC0415 - the same
        from memories.retrieval.search import register_hints, register_neighbours  # noqa: PLC0415 - the same

        register_neighbours(neighbours)
        register_hints(hints)
        register_review(HeldEdits())
        self.register_acts()

    def register_acts(self) -> None:
        """What curators may do to many insights at once."""
        from knowledge import decisions  # noqa: PLC0415 - models first
        from memories.writing.batches import Act, register  # noqa: PLC0415 - the same

        acts = {
            "approve": Act(
                "Approved",
                lambda c, pk, note: decisions.approve(caller=c, insight_id=pk, notes=note),
                inverse="undo_review",
                kind="insight",
            ),
            "reject": Act(
                "Rejected",
                lambda c, pk, note: decisions.reject(caller=c, insight_id=pk, notes=note),
                inverse="undo_review",
                kind="insight",
            ),
            "undo_review": Act(
                "Back to waiting",
                lambda c, pk, note: decisions.undo_review(caller=c, insight_id=pk),
                kind="insight",
            ),
        }
        for name, act in acts.items():
            register(name, act)

from __future__ import annotations

from django.apps import AppConfig


class KnowledgeConfig(AppConfig):
    name = "knowledge"
    verbose_name = "Knowledge"

    def ready(self) -> None:
        from knowledge import receivers  # noqa: F401, PLC0415 - they register themselves, models first
        from knowledge.catalog.lineage import neighbours  # noqa: PLC0415 - the same
        from memories.search import register_neighbours  # noqa: PLC0415 - the same

        register_neighbours(neighbours)
        self.register_acts()

    def register_acts(self) -> None:
        """What curators may do to many insights at once."""
        from knowledge import insights  # noqa: PLC0415 - models first
        from memories.batches import Act, register  # noqa: PLC0415 - the same

        acts = {
            "approve": Act(
                "Approved",
                lambda c, pk, note: insights.approve(caller=c, insight_id=pk, notes=note),
                inverse="undo_review",
                kind="insight",
            ),
            "reject": Act(
                "Rejected",
                lambda c, pk, note: insights.reject(caller=c, insight_id=pk, notes=note),
                inverse="undo_review",
                kind="insight",
            ),
            "undo_review": Act(
                "Back to waiting",
                lambda c, pk, note: insights.undo_review(caller=c, insight_id=pk),
                kind="insight",
            ),
        }
        for name, act in acts.items():
            register(name, act)

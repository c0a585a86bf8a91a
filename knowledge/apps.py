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

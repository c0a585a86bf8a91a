from __future__ import annotations

from django.apps import AppConfig


class AnalysisConfig(AppConfig):
    name = "analysis"
    verbose_name = "Analysis"

    def ready(self) -> None:
        from analysis import receivers  # noqa: F401, PLC0415 - they register themselves, models first
        from analysis.models import Finding  # noqa: PLC0415 - the same
        from memories.retrieval.indexing import VectorSource, register  # noqa: PLC0415 - the same

        register(VectorSource("finding", Finding.objects.all, "finding"))

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class ImportsConfig(AppConfig):
    name = "memory_project.exchange.imports"
    label = "imports"
    verbose_name = gettext_lazy("Imports")

    def ready(self) -> None:
        from foundation.work import jobs  # noqa: PLC0415 - needs loaded models
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("memory_project.exchange.imports.memory_extension.ImportsMemoryExtension")
        jobs.register("memory_project.exchange.imports.jobs.ImportJobs")

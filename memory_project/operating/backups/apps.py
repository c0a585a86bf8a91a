from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class BackupsConfig(AppConfig):
    name = "memory_project.operating.backups"
    label = "backups"
    verbose_name = gettext_lazy("Backups")

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("memory_project.operating.backups.memory_extension.BackupsMemoryExtension")

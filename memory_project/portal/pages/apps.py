from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class PagesConfig(AppConfig):
    name = "memory_project.portal.pages"
    label = "pages"
    verbose_name = gettext_lazy("Pages")

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.register("memory_project.portal.pages.memory_extension.PagesMemoryExtension")

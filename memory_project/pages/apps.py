from __future__ import annotations

from django.apps import AppConfig


class PagesConfig(AppConfig):
    name = "memory_project.pages"
    label = "pages"
    verbose_name = "Pages"

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.register("memory_project.pages.memory_extension.PagesMemoryExtension")

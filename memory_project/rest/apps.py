from __future__ import annotations

from django.apps import AppConfig


class RestConfig(AppConfig):
    """The REST API. No other app imports it."""

    name = "memory_project.rest"
    label = "rest"
    verbose_name = "REST API"

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.EXTENSIONS.register("memory_project.rest.memory_extension.RestMemoryExtension")

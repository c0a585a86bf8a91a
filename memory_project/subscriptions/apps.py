from __future__ import annotations

from django.apps import AppConfig


class SubscriptionsConfig(AppConfig):
    name = "memory_project.subscriptions"
    label = "subscriptions"
    verbose_name = "Subscriptions to sources"

    def ready(self) -> None:
        from memories import extensions  # noqa: PLC0415 - needs loaded models

        extensions.register("memory_project.subscriptions.memory_extension.SubscriptionsMemoryExtension")

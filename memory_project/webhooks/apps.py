from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class WebhooksConfig(AppConfig):
    name = "memory_project.webhooks"
    label = "webhooks"
    verbose_name = gettext_lazy("Webhooks")

    def ready(self) -> None:
        from knowledge import extensions as knowledge_extensions  # noqa: PLC0415 - needs loaded models
        from memories import extensions as memory_extensions  # noqa: PLC0415 - needs loaded models

        memory_extensions.register("memory_project.webhooks.memory_extension.WebhooksMemoryExtension")
        knowledge_extensions.register("memory_project.webhooks.knowledge_extension.WebhooksKnowledgeExtension")

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy

from foundation import registry


class WebhooksConfig(AppConfig):
    name = "memory_project.notifications.webhooks"
    label = "webhooks"
    verbose_name = gettext_lazy("Webhooks")

    def ready(self) -> None:
        from knowledge import extensions as knowledge_extensions  # noqa: PLC0415 - needs loaded models
        from memories import extensions as memory_extensions  # noqa: PLC0415 - needs loaded models

        memory_extensions.EXTENSIONS.register(
            "memory_project.notifications.webhooks.memory_extension.WebhooksMemoryExtension"
        )
        knowledge_extensions.EXTENSIONS.register(
            "memory_project.notifications.webhooks.knowledge_extension.WebhooksKnowledgeExtension"
        )
        if apps.is_installed("django.contrib.admin"):  # not in a server over stdio
            registry.defer(contribute)


def contribute() -> None:
    from memory_project.notifications.kinds import TEXTS  # noqa: PLC0415 - deferred
    from memory_project.notifications.webhooks.endpoints import pause_texts  # noqa: PLC0415 - deferred

    TEXTS.register("webhook_paused", pause_texts)

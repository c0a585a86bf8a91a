from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class SubscriptionsConfig(AppConfig):
    name = "memory_project.exchange.subscriptions"
    label = "subscriptions"
    verbose_name = gettext_lazy("Subscriptions to sources")

    def ready(self) -> None:
        from foundation.work import jobs  # noqa: PLC0415 - needs loaded models

        jobs.register("memory_project.exchange.subscriptions.services.SubscriptionJobs")

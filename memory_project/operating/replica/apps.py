from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings
from django.utils.translation import gettext_lazy


class ReplicaConfig(AppConfig):
    name = "memory_project.operating.replica"
    label = "replica"
    verbose_name = gettext_lazy("Read replica")

    def ready(self) -> None:
        if not settings.DATABASE_REPLICA_URL:
            return
        from foundation.database import replica  # noqa: PLC0415 - needs loaded settings
        from memory_project.operating.replica import routing  # noqa: PLC0415 - needs loaded settings

        replica.decide = routing.decide
        replica.on_lost = routing.watch.lost

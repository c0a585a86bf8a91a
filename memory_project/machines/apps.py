from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class MachinesConfig(AppConfig):
    name = "memory_project.machines"
    label = "machines"
    verbose_name = gettext_lazy("Machines")

    def ready(self) -> None:
        from memory_project.machines import checks, receivers  # noqa: F401, PLC0415 - register themselves

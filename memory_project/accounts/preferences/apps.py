from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class PreferencesConfig(AppConfig):
    name = "memory_project.accounts.preferences"
    label = "preferences"
    verbose_name = gettext_lazy("Preferences")

    def ready(self) -> None:
        from memories import page_settings  # noqa: PLC0415 - needs loaded models
        from memory_project.accounts.preferences import services  # noqa: PLC0415 - needs loaded models

        page_settings.use_store(services)

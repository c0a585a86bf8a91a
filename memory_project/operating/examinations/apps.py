from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class ExaminationsConfig(AppConfig):
    name = "memory_project.operating.examinations"
    label = "examinations"
    verbose_name = gettext_lazy("Checks of the installation")

from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class PagesConfig(AppConfig):
    name = "memory_project.portal.pages"
    label = "pages"
    verbose_name = gettext_lazy("Pages")

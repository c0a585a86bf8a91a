from __future__ import annotations

from django.apps import AppConfig


class PortalConfig(AppConfig):
    """The pages. An app at the top, so that a page may show anything."""

    name = "memory_project.portal"
    label = "portal"

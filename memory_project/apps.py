from __future__ import annotations

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig


class MemoryProjectConfig(AppConfig):
    name = "memory_project"
    verbose_name = "Access and audit"

    def ready(self) -> None:
        from memory_project import checks, receivers  # noqa: F401, PLC0415 - they register themselves, models first


class AdminConfig(DjangoAdminConfig):
    default_site = "memory_project.admin_site.CommonplaceAdminSite"

"""Django's admin as an app. A server over stdio leaves it out (stdio_settings.py)."""

from __future__ import annotations

import django_stubs_ext
from django.contrib.admin.apps import AdminConfig as DjangoAdminConfig


class AdminConfig(DjangoAdminConfig):
    default_site = "memory_project.admin.site.CommonplaceAdminSite"

    def import_models(self) -> None:
        django_stubs_ext.monkeypatch()  # makes generic classes of the admin and of forms subscriptable
        super().import_models()

    def ready(self) -> None:
        super().ready()
        from memory_project.admin import model_admins  # noqa: F401, PLC0415 - registers itself, and needs the models

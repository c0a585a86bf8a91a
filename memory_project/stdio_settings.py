"""Settings of the MCP server over stdio, without the apps that only browsers and programs use.

Each client starts a process of its own, and a third of the modules that it would import belong to these apps.

The tables of these apps stay as they are. Nothing that a tool does deletes accounts, on which their rows depend.
"""

from __future__ import annotations

from memory_project.settings import *  # noqa: F403
from memory_project.settings import INSTALLED_APPS as ALL_APPS

LEFT_OUT = (
    "memory_project.admin.apps.AdminConfig",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "axes",
    "oauth2_provider",
    "allauth",
)
INSTALLED_APPS = [name for name in ALL_APPS if not name.startswith(LEFT_OUT)]
AUTHENTICATION_BACKENDS = []
MIDDLEWARE = []

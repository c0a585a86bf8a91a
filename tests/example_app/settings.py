"""The project's settings with the example app installed."""

from __future__ import annotations

from memory_project.settings import *  # noqa: F403

INSTALLED_APPS += ["tests.example_app"]  # noqa: F405

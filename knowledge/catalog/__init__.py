from __future__ import annotations

from django.conf import settings


def identity() -> str:
    """Return which catalog is configured. Baselines taken from one say nothing about another."""
    return f"datahub {settings.DATAHUB_GMS_URL}"[:200] if settings.DATAHUB_GMS_URL else "local"

from __future__ import annotations

from django.conf import settings


def identity() -> str:
    """Return the identity of the configured catalog.

    It is stored with each baseline, because a baseline is only valid for the catalog that it was taken from.
    """
    return f"datahub {settings.DATAHUB_GMS_URL}"[:200] if settings.DATAHUB_GMS_URL else "local"

"""What background workers do for graphs. Thin, idempotent, and safe to be killed at any line."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from knowledge.graph import purging
from knowledge.graph.finding import uses


def count_uses(entity_ids: list[str]) -> None:
    uses.count([UUID(pk) for pk in entity_ids])


def purge() -> int:
    """What was deleted long enough ago goes for good."""
    return purging.purge(timezone.now() - timedelta(days=settings.SOFT_DELETE_PURGE_DAYS))

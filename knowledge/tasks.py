"""What background workers do for knowledge. Thin, idempotent, safe to be killed at any line."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings

from knowledge.freshness import baselines, comparison


def take_baselines(record_id: str) -> int:
    return baselines.take_baselines([UUID(record_id)])


def check_freshness() -> str:
    """Compares memories with the catalog; what it could not do is in the result, for the operator."""
    swept = comparison.check_all_entities(settings.STALENESS_BATCH)
    comparison.report(swept.note)
    summary = f"{swept.checked} checked, {swept.stale} stale, {swept.to_verify} to verify"
    return f"{summary}; degraded: {swept.note}" if swept.note else summary

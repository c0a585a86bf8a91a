from __future__ import annotations

from uuid import UUID

from django.conf import settings

from knowledge.freshness import comparison


def take_baselines(record_id: str) -> int:
    return comparison.catch_up([UUID(record_id)]).baselines_taken


def check_freshness() -> str:
    """Compare memories with the catalog, and return a summary for the operator.

    If the comparison was incomplete or used a copy of the catalog, the summary says why.
    """
    report = comparison.check_all_entities(settings.STALENESS_BATCH)
    comparison.report(report.note)
    summary = f"{report.checked} checked, {report.stale} stale, {report.to_verify} to verify"
    return f"{summary}; degraded: {report.note}" if report.note else summary

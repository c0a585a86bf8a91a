"""Statistics of the audit log: numbers of calls and failures, and durations."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Aggregate, Count, FloatField, Q, QuerySet
from django.db.models.functions import TruncDay, TruncHour
from django.utils import timezone

from memory_project.audit.filters import SPANS, CallFilter
from memory_project.models import AuditEvent

FAILED = ~Q(outcome=AuditEvent.Outcome.OK)


class Percentile(Aggregate):
    """PostgreSQL's percentile_cont: the interpolated value below which the given fraction of the rows lies."""

    template = "percentile_cont(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


def by_tool(rows: QuerySet[AuditEvent]) -> list[dict[str, Any]]:
    """Return statistics of the 50 tools that are called most.

    Each row has the numbers of calls and failures, the share of failures, and the median and 95th percentile of the
    duration in milliseconds.
    """
    counted = rows.order_by().values("tool").annotate(calls=Count("pk"), failed=Count("pk", filter=FAILED), **times())
    return [{**row, "share": row["failed"] / row["calls"]} for row in counted.order_by("-calls", "tool")[:50]]


def overall(rows: QuerySet[AuditEvent]) -> dict[str, Any]:
    row = rows.order_by().aggregate(calls=Count("pk"), failed=Count("pk", filter=FAILED), **times())
    return {**row, "share": row["failed"] / row["calls"] if row["calls"] else 0.0}


def times() -> dict[str, Percentile]:
    return {"p50": Percentile("duration_ms", fraction=0.5), "p95": Percentile("duration_ms", fraction=0.95)}


def timeline(call_filter: CallFilter) -> list[tuple[datetime, int, int]]:
    """Return (start, calls, failures) of each hour, or of each day if the span is longer than a day, oldest first.

    Hours and days without calls are included.
    """
    hourly = SPANS[call_filter.span] <= timedelta(days=1)
    step = timedelta(hours=1) if hourly else timedelta(days=1)
    trunc = TruncHour if hourly else TruncDay
    counted = call_filter.rows().order_by().annotate(slot=trunc("at")).values("slot")
    counts = {
        row["slot"]: (row["calls"], row["failed"])
        for row in counted.annotate(calls=Count("pk"), failed=Count("pk", filter=FAILED))
    }
    start = timezone.localtime(call_filter.since).replace(minute=0, second=0, microsecond=0)
    start = start if hourly else start.replace(hour=0)
    slots = []
    while start <= timezone.now():
        slots.append((start, *counts.get(start, (0, 0))))
        start += step
    return slots

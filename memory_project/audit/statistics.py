"""What the audit tells of calls: how many, how they went, how long they took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Aggregate, Count, FloatField, Q, QuerySet
from django.db.models.functions import TruncDay, TruncHour
from django.utils import timezone

from memories.contract.fields import UNSTORABLE
from memory_project.models import AuditEvent

SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
FAILED = ~Q(outcome=AuditEvent.Outcome.OK)


class Percentile(Aggregate):
    """PostgreSQL's percentile_cont: the value below which that share of the rows lies, interpolated."""

    template = "percentile_cont(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


@dataclass(frozen=True)
class CallFilter:
    """Which events a page is about."""

    person: str = ""
    tool: str = ""
    channel: str = ""
    outcome: str = ""
    span: str = "week"

    @classmethod
    def of(cls, params: Mapping[str, str], **fixed: str) -> CallFilter:
        def read(name: str) -> str:
            return UNSTORABLE.sub("", params.get(name, "")).strip()[:254]

        span = read("span")
        outcome = read("outcome")
        return cls(
            person=fixed.get("person", read("person")),
            tool=read("tool"),
            channel=read("channel"),
            outcome=outcome if outcome in AuditEvent.Outcome.values else "",
            span=span if span in SPANS else "week",
        )

    @property
    def since(self) -> datetime:
        return timezone.now() - SPANS[self.span]

    def rows(self) -> QuerySet[AuditEvent]:
        rows = AuditEvent.objects.filter(at__gte=self.since)
        exact = {"email": self.person, "tool": self.tool, "channel": self.channel, "outcome": self.outcome}
        return rows.filter(**{name: value for name, value in exact.items() if value})

    def params(self) -> dict[str, str]:
        values = {name: str(getattr(self, name)) for name in ("person", "tool", "channel", "outcome", "span")}
        return {name: value for name, value in values.items() if value}


def by_tool(rows: QuerySet[AuditEvent]) -> list[dict[str, Any]]:
    """Per tool: calls, failed ones and their share, median and 95th percentile of the time in ms."""
    counted = rows.order_by().values("tool").annotate(calls=Count("pk"), failed=Count("pk", filter=FAILED), **times())
    return [{**row, "share": row["failed"] / row["calls"]} for row in counted.order_by("-calls", "tool")[:50]]


def overall(rows: QuerySet[AuditEvent]) -> dict[str, Any]:
    row = rows.order_by().aggregate(calls=Count("pk"), failed=Count("pk", filter=FAILED), **times())
    return {**row, "share": row["failed"] / row["calls"] if row["calls"] else 0.0}


def times() -> dict[str, Percentile]:
    return {"p50": Percentile("duration_ms", fraction=0.5), "p95": Percentile("duration_ms", fraction=0.95)}


def timeline(call_filter: CallFilter) -> list[tuple[datetime, int, int]]:
    """Calls and failed ones per hour or day of the span, without gaps, oldest first."""
    hourly = SPANS[call_filter.span] <= timedelta(days=1)
    step = timedelta(hours=1) if hourly else timedelta(days=1)
    trunc = TruncHour if hourly else TruncDay
    counted = call_filter.rows().order_by().annotate(slot=trunc("at")).values("slot")
    counts = {
        row["slot"]: (row["n"], row["bad"]) for row in counted.annotate(n=Count("pk"), bad=Count("pk", filter=FAILED))
    }
    start = timezone.localtime(call_filter.since).replace(minute=0, second=0, microsecond=0)
    start = start if hourly else start.replace(hour=0)
    slots = []
    while start <= timezone.now():
        slots.append((start, *counts.get(start, (0, 0))))
        start += step
    return slots

"""Figures and trends on the first page of the admin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from django.db.models import Count, Q, QuerySet, Value
from django.db.models.functions import TruncDate
from django.http import HttpRequest
from django.utils import timezone

from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.insights import queries as curation
from knowledge.models import Insight
from knowledge.news import curation as review
from knowledge.news.period import Week
from memories.models import Impression, MemoryRecord
from memories.retrieval import index_status
from memories.use import attachment_use
from memory_project.audit import statistics
from memory_project.audit.filters import CallFilter
from memory_project.models import AuditEvent
from memory_project.portal import review_charts
from memory_project.portal.templatetags.charts import ChartPoint
from memory_project.web import locale

DAYS = 30


def context(request: HttpRequest) -> dict[str, Any]:
    caller = caller_from_request(request, channel="admin")
    trends = _trends(caller)
    week = [point.value for point in trends["applied"][-7:]]
    figures: dict[str, Any] = {
        "trends": trends,
        "applied_this_week": int(sum(week)),
        "index": whole_index(index_status.coverage(index_status.model(), kept_s=60)),
    }
    if curation.may_curate(caller):
        ages = review.ages(caller)
        figures |= {
            "oldest": ages.oldest,
            "ages": review_charts.age_points(ages),
            "review": review_charts.trend_points(review.trend(caller, Week.current())),
        }
    if caller.is_admin:
        attached, unused = (sum(getattr(point, name) for point in trends["attached"]) for name in ("value", "bad"))
        figures["precision"] = 1 - unused / attached if attached else None
        figures["quiet"] = attachment_use.quiet(MemoryRecord.objects.visible_to(caller)).count()
        figures["calls"] = statistics.overall(CallFilter(span="day").rows())
    return figures


def whole_index(coverage: Sequence[index_status.Coverage]) -> dict[str, Any]:
    """Return the share of all rows that have a vector. The page Indexing has it for each kind of row."""
    expected = sum(one.expected for one in coverage)
    return {
        "share": sum(one.good for one in coverage) / expected if expected else 1.0,
        "is_degraded": any(one.verdict == "degraded" for one in coverage),
    }


def _trends(caller: Caller) -> dict[str, list[ChartPoint]]:
    """Return daily counts of the last 30 days: memories, applied insights and, for admins, calls and attached memories.

    `bad` counts failed calls, and attached memories that showed no use.

    A single UNION query counts all of them.
    """
    since = timezone.now() - timedelta(days=DAYS - 1)
    memories = MemoryRecord.objects.visible_to(caller).facts().filter(created_at__gte=since)
    applied = Insight.objects.visible_to(caller).filter(applied_at__gte=since)
    parts = [_daily("memories", memories, "created_at"), _daily("applied", applied, "applied_at")]
    if caller.is_admin:
        events = AuditEvent.objects.filter(at__gte=since)
        parts.append(_daily("calls", events, "at", statistics.FAILED))
        attached = Impression.objects.filter(terms__isnull=False, at__gte=since)
        parts.append(_daily("attached", attached, "at", Q(used_at__isnull=True)))
    counts: dict[str, dict[date, tuple[int, int]]] = defaultdict(dict)
    for row in parts[0].union(*parts[1:], all=True):
        counts[row["kind"]][row["day"]] = (row["total"], row["bad"])
    today = timezone.localdate()
    days = [today - timedelta(days=age) for age in reversed(range(DAYS))]
    names = ["memories", "applied", "calls", "attached"][: len(parts)]
    return {name: [ChartPoint(locale.short_day(day), *counts[name].get(day, (0, 0))) for day in days] for name in names}


def _daily(kind: str, rows: QuerySet[Any], column: str, bad: Q | None = None) -> Any:
    slots = rows.order_by().annotate(kind=Value(kind), day=TruncDate(column)).values("kind", "day")
    failed = Count("pk", filter=bad) if bad else Value(0)
    return slots.annotate(total=Count("pk"), bad=failed)

"""Filters of the pages Activity and Audit, read from the query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.utils import timezone

from foundation.operations.fields import UNSTORABLE
from memory_project.models import AuditEvent

SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}


@dataclass(frozen=True)
class CallFilter:
    person: str = ""
    tool: str = ""
    channel: str = ""
    outcome: str = ""
    span: str = "week"
    trace_id: str = ""

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
            trace_id=read("trace_id"),
        )

    @property
    def since(self) -> datetime:
        return timezone.now() - SPANS[self.span]

    def rows(self) -> QuerySet[AuditEvent]:
        rows = AuditEvent.objects.filter(at__gte=self.since)
        exact = {"email": self.person, "tool": self.tool, "channel": self.channel, "outcome": self.outcome}
        exact["trace_id"] = self.trace_id
        return rows.filter(**{name: value for name, value in exact.items() if value})

    def params(self) -> dict[str, str]:
        values = {
            name: str(getattr(self, name)) for name in ("person", "tool", "channel", "outcome", "span", "trace_id")
        }
        return {name: value for name, value in values.items() if value}

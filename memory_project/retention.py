"""Deletion of expired rows: audit events, rate-limit counters, notifications, impressions, reports, failed calls,
stored answers of the REST API, sent forms, imports, suggestions, deliveries of webhooks, barriers of the replica, and
what OAuth clients no longer use.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Model, Q
from django.utils import timezone

from knowledge.insights.sql_corrections import WITHIN
from knowledge.models import FailedCall, Suggestion
from memories.models import DOUBTS, Impression, Report, ReportVerdict
from memories.retrieval.impressions import KEPT_DAYS as IMPRESSION_DAYS
from memory_project.accounts import connected_apps
from memory_project.imports.models import KEPT_DAYS as IMPORT_DAYS
from memory_project.imports.models import Import
from memory_project.models import AuditEvent, CallWindow, Notification
from memory_project.notifications.inbox import KEPT_DAYS as NOTIFICATION_DAYS
from memory_project.pages.models import KEPT as SUBMISSION_AGE
from memory_project.pages.models import Submission
from memory_project.replica.models import KEPT as BARRIER_AGE
from memory_project.replica.models import Barrier
from memory_project.rest.models import KEPT, IdempotentAnswer
from memory_project.webhooks.models import KEPT_DAYS as DELIVERY_DAYS
from memory_project.webhooks.models import Delivery

DOUBT_KEPT_DAYS = 365  # days until a report of a memory as wrong or outdated is deleted
BATCH_SIZE = 5_000  # maximum number of rows deleted by one statement; small, so that no lock is held for long


@dataclass(frozen=True)
class Retention:
    """A table whose rows are deleted once the time in `column` is older than `age`. An age of 0 keeps them forever."""

    model: type[Model]
    column: str
    age: timedelta
    only: Q | None = None  # condition for the rows that are deleted, if not all are


def retentions() -> list[Retention]:
    return [
        Retention(AuditEvent, "at", timedelta(days=settings.AUDIT_RETENTION_DAYS)),
        Retention(CallWindow, "starts_at", timedelta(days=2)),  # the longest window is a day
        Retention(Notification, "at", timedelta(days=NOTIFICATION_DAYS)),
        Retention(Impression, "at", timedelta(days=IMPRESSION_DAYS)),
        Retention(Report, "at", timedelta(days=IMPRESSION_DAYS), Q(verdict=ReportVerdict.USED)),
        Retention(Report, "at", timedelta(days=DOUBT_KEPT_DAYS), Q(verdict__in=DOUBTS)),
        Retention(FailedCall, "at", WITHIN),
        Retention(IdempotentAnswer, "started_at", KEPT),
        Retention(Submission, "started_at", SUBMISSION_AGE),
        Retention(Import, "worked_at", timedelta(days=IMPORT_DAYS)),
        Retention(Suggestion, "expires_at", timedelta(seconds=1)),  # the column has the time when it expires
        Retention(Delivery, "created_at", timedelta(days=DELIVERY_DAYS)),
        Retention(Barrier, "at", BARRIER_AGE),
    ]


def delete_expired_rows() -> dict[str, int]:
    """Delete expired rows. Returns the number of deleted rows by table, without tables that had none."""
    counts: dict[str, int] = Counter()
    for retention in retentions():
        counts[retention.model._meta.db_table] += _delete_expired(retention)
    counts |= connected_apps.delete_unused()
    return {table: count for table, count in counts.items() if count}


def _delete_expired(retention: Retention) -> int:
    if not retention.age:
        return 0
    rows = retention.model._default_manager.filter(
        retention.only or Q(), **{f"{retention.column}__lt": timezone.now() - retention.age}
    )
    count = 0
    while pks := list(rows.order_by(retention.column).values_list("pk", flat=True)[:BATCH_SIZE]):
        count += retention.model._default_manager.filter(pk__in=pks).delete()[0]
    return count

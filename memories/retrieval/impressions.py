"""What came along with answers: once an hour on a connection, and how often in all, told to its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count
from django.utils import timezone

from memories.database.connections import async_commit
from memories.identity.caller import Caller
from memories.models import Feedback, Impression, MemoryRecord, Verdict

KEPT_DAYS = 30
MAX_CONNECTION = 500  # entries of one connection that are looked at


@dataclass(frozen=True)
class Usage:
    """How a memory served in the last thirty days."""

    impressions: int
    people: int
    useful: int


def since(connection: str, moment: datetime) -> dict[UUID, str]:
    """The memories that came along on this connection since then, with the version that was shown last."""
    rows = Impression.objects.filter(connection=connection, at__gt=moment).order_by("-at", "-pk")
    versions: dict[UUID, str] = {}
    for pk, version in rows.values_list("record_id", "version")[:MAX_CONNECTION]:
        versions.setdefault(pk, version)
    return versions


def record_impressions(caller: Caller, tool: str, versions: Mapping[UUID, str]) -> None:
    """Keeps that these came along."""
    with async_commit():
        Impression.objects.bulk_create(
            Impression(record_id=pk, connection=caller.connection, to=caller.email, tool=tool, version=version)
            for pk, version in versions.items()
        )


def usage_of(record: MemoryRecord) -> Usage:
    rows = Impression.objects.filter(record=record, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    useful = Feedback.objects.filter(record=record, verdict=Verdict.USEFUL).count()
    return Usage(rows.count(), rows.values("to").distinct().count(), useful)


def counts(record_ids: Sequence[UUID]) -> dict[UUID, int]:
    """How often each of these came along in the last thirty days."""
    rows = Impression.objects.filter(record__in=record_ids, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    return dict(rows.order_by().values_list("record_id").annotate(n=Count("pk")))

"""Impressions: which memories were attached to the tool responses of a connection.

An unchanged memory is attached at most once an hour per connection. Pages show how often a memory was attached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Q
from django.utils import timezone

from memories.database.connections import async_commit
from memories.identity.caller import Caller
from memories.models import Impression, MemoryRecord

AGAIN_AFTER = timedelta(hours=1)  # time until an unchanged memory may be attached again on the same connection
KEPT_DAYS = 30  # days until an impression is deleted
LATEST = 5  # number of the caller's own impressions that a memory's page lists
MAX_IMPRESSIONS = 500  # maximum number of impressions read for one connection, the newest


@dataclass(frozen=True)
class Usage:
    """How often a memory was attached in the last KEPT_DAYS days. Who the other people were is not part of it."""

    own: int  # impressions of the caller's tool calls
    others: int  # impressions of other people's tool calls
    other_people: int  # number of these people
    latest: list[Impression] = field(default_factory=list)  # the caller's newest impressions


def recent_versions(caller: Caller) -> dict[UUID, str]:
    """Return the memories attached on the caller's connection within AGAIN_AFTER: record id → version attached last."""
    if not caller.connection:
        return {}
    rows = Impression.objects.filter(connection=caller.connection, at__gt=timezone.now() - AGAIN_AFTER).order_by(
        "-at", "-pk"
    )
    versions: dict[UUID, str] = {}
    for pk, version in rows.values_list("record_id", "version")[:MAX_IMPRESSIONS]:
        versions.setdefault(pk, version)
    return versions


def record_impressions(caller: Caller, tool: str, versions: Mapping[UUID, str]) -> None:
    with async_commit():
        Impression.objects.bulk_create(
            Impression(record_id=pk, connection=caller.connection, to=caller.email, tool=tool, version=version)
            for pk, version in versions.items()
        )


def usage_of(caller: Caller, record: MemoryRecord) -> Usage:
    """Count the impressions of a memory that the caller may read.

    Other people's impressions are counted for the memory's owner and admins only, and are neither named nor dated:
    they would tell what a colleague works on.
    """
    rows = Impression.objects.filter(record=record, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    own, others = Q(to=caller.email), ~Q(to=caller.email)
    counts = rows.aggregate(
        own=Count("pk", filter=own),
        others=Count("pk", filter=others),
        other_people=Count("to", filter=others, distinct=True),
    )
    if not caller.can_edit_for(record.created_by):
        counts |= {"others": 0, "other_people": 0}
    latest = list(rows.filter(own).order_by("-at")[:LATEST]) if counts["own"] else []
    return Usage(**counts, latest=latest)


def impression_counts(record_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return how often each memory was attached in the last KEPT_DAYS days. Memories never attached are missing."""
    rows = Impression.objects.filter(record__in=record_ids, at__gt=timezone.now() - timedelta(days=KEPT_DAYS))
    return dict(rows.order_by().values_list("record_id").annotate(n=Count("pk")))

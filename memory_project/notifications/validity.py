"""Notifications about memories whose validity ends: a week before, and when it has ended.

The owner is notified, and if the memory stands in the catalog, the curators of its persona as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from foundation.database import identity
from foundation.people.caller import system_caller
from knowledge.insights.reviewers import has_right
from knowledge.models import Insight, InsightState
from memories.models import IN_USE, MemoryRecord
from memories.models.validity import EXPIRED, VALIDITY_COLUMNS
from memory_project.models import Notification
from memory_project.notifications.inbox import notify

AHEAD = timedelta(days=7)  # time before the end at which people are notified
LOOK_BACK = timedelta(days=3)  # ends that are older are not reported, if the task did not run for so long


@identity.service("notices")
def notify_ends() -> str:
    """Notify people of memories that end within AHEAD, and of those that have ended. Return a summary.

    Each end is notified once. The end of a condition is notified when it ends (see `note_validity`).
    """
    now = timezone.now()
    living = MemoryRecord.objects.filter(status__in=IN_USE, condition_ended_at=None)
    soon = living.filter(valid_until__gt=now, valid_until__lte=now + AHEAD)
    ended = living.filter(valid_until__gt=now - LOOK_BACK, valid_until__lte=now)
    counts = [_notify_all("ends_soon", soon, AHEAD), _notify_all("ended", ended, timedelta())]
    return f"{counts[0]} memories end soon, {counts[1]} have ended"


def _notify_all(kind: str, rows: QuerySet[MemoryRecord], ahead: timedelta) -> int:
    # A notification since the earliest time at which this end could be notified is about this end.
    notified = Notification.objects.filter(record_id=OuterRef("pk"), kind=kind, at__gte=OuterRef("valid_until") - ahead)
    records = list(rows.filter(~Exists(notified)).defer("search").order_by("valid_until", "pk"))
    for record in records:
        notify(kind, [record.created_by, *_curators_concerned(record)], record_id=record.pk, by=system_caller().email)
    return len(records)


def _curators_concerned(record: MemoryRecord) -> list[str]:
    """Return the curators of the memory's persona if it stands in the catalog. Admins get no such notifications."""
    if not Insight.objects.filter(pk=record.pk, state=InsightState.APPLIED).exists():
        return []
    holds_persona = Q(is_superuser=False, personas__name=record.persona)
    people = get_user_model().objects.filter(has_right(), holds_persona)
    return list(people.order_by("email").values_list("email", flat=True).distinct())


def note_validity(record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
    """Follow a change of a memory: delete what is no longer true, and notify of a condition that has ended."""
    if all(before[name] == getattr(record, name) for name in VALIDITY_COLUMNS):
        return
    _delete_unread(record.pk, is_over=record.validity == EXPIRED)
    if change == "condition_ended" and record.status in IN_USE:
        _notify_ended(record)


@identity.service("notices")
def _notify_ended(record: MemoryRecord) -> None:
    people = [record.created_by, *_curators_concerned(record)]
    notify("ended", people, record_id=record.pk, by=system_caller().email)


@identity.service("notices")
def _delete_unread(record_id: UUID, *, is_over: bool) -> None:
    kinds = {"ends_soon"} if is_over else {"ends_soon", "ended"}
    Notification.objects.filter(record_id=record_id, kind__in=kinds, read_at=None).delete()

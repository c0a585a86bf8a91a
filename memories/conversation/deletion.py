"""Deletion of conversation memories.

A deleted memory is archived at once and can be restored. It is purged after SOFT_DELETE_PURGE_DAYS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller, system_caller
from memories.conversation.acting_user import acting_as
from memories.conversation.operations import TIERS, DeleteMemories
from memories.models import IndexJob, MemoryRecord, Status
from memories.retrieval import term_changes
from memories.writing.erasure import purge_copies
from memories.writing.revision import revised

REASON = "deleted by delete_memory"
BATCH = 500  # maximum number of rows per query or transaction


@dataclass(frozen=True)
class ConversationDeletion:
    count: int
    copies: int  # long-term memories of deleted turns, and turns of deleted long-term memories: they are deleted too
    dry_run: bool


def delete_memories(caller: Caller, operation: DeleteMemories) -> ConversationDeletion:
    """Delete the user's own conversation memories by id, tags or time, together with their copies.

    With `dry_run`, they are only counted. Raises Invalid if there is no condition, if the conditions can't be combined,
    or if memories would be deleted by tags or time without `confirm`. Raises NotFound if the id is not that of a
    conversation memory of the user, or if the memory is already archived.
    """
    user = acting_as(caller, operation.user_id)
    rows = _selection(user, operation)
    if operation.dry_run:
        count = rows.count()
        return ConversationDeletion(count, _copies(user, rows).count(), dry_run=True)
    if not operation.memory_id and not operation.confirm:
        raise Invalid(
            gettext("is not set, so nothing was deleted: count with dry_run, and show the person the number"),
            field="confirm",
        )
    with transaction.atomic():
        pks, copies = _ids(user, rows)
        _archive(user, sorted(pks | copies))
    return ConversationDeletion(len(pks), len(copies), dry_run=False)


def selected_ids(caller: Caller, operation: DeleteMemories) -> tuple[set[UUID], set[UUID]]:
    """Return the ids of the memories that would be deleted, and of their copies. Raises like `delete_memories`."""
    user = acting_as(caller, operation.user_id)
    return _ids(user, _selection(user, operation))


def _ids(user: Caller, rows: QuerySet[MemoryRecord]) -> tuple[set[UUID], set[UUID]]:
    return set(rows.values_list("pk", flat=True)), set(_copies(user, rows).values_list("pk", flat=True))


def _selection(user: Caller, operation: DeleteMemories) -> QuerySet[MemoryRecord]:
    rows = MemoryRecord.objects.visible_to(user).filter(created_by=user.email, tier__in=TIERS)
    rows = rows.exclude(status=Status.ARCHIVED)
    if operation.memory_id:
        if operation.tags or operation.time_range:
            raise Invalid(
                gettext("can't be combined with tags or time_range"),
                field="memory_id",
                allowed=gettext("either memory_id alone, or tags and time_range"),
            )
        if not rows.filter(pk=operation.memory_id).exists():
            raise NotFound(gettext("no such conversation memory of this user"), field="memory_id")
        return rows.filter(pk=operation.memory_id)
    if not operation.tags and not operation.time_range:
        raise Invalid(gettext("is missing"), field="memory_id", allowed=gettext("an id, or tags, or time_range"))
    if operation.tags:
        rows = rows.filter(tags__contains=operation.tags)
    if operation.time_range:
        rows = rows.filter(_within(operation.time_range.get("start"), operation.time_range.get("end")))
    return rows


def _within(start: datetime | None, end: datetime | None) -> Q:
    if start is None and end is None:
        raise Invalid(gettext("is empty"), field="time_range", allowed=gettext("start, or end, or both"))
    if start and end and start > end:
        raise Invalid(gettext("starts after its end"), field="time_range", allowed=gettext("start before end"))
    return (Q(created_at__gte=start) if start else Q()) & (Q(created_at__lte=end) if end else Q())


def _copies(user: Caller, rows: QuerySet[MemoryRecord]) -> QuerySet[MemoryRecord]:
    """Return the long-term memories derived from these rows, and the turns from which these rows were derived.

    Archived memories and the rows themselves are left out.
    """
    ids = rows.values("pk")
    turns = rows.filter(derived_from__isnull=False).values("derived_from")
    candidates = MemoryRecord.objects.filter(created_by=user.email, tier__in=TIERS).exclude(status=Status.ARCHIVED)
    return candidates.filter(Q(derived_from__in=ids) | Q(pk__in=turns)).exclude(pk__in=ids)


def _archive(user: Caller, pks: Sequence[UUID]) -> None:
    purge_after = timezone.now() + timedelta(days=settings.SOFT_DELETE_PURGE_DAYS)
    for start in range(0, len(pks), BATCH):
        rows = MemoryRecord.objects.select_for_update().filter(pk__in=pks[start : start + BATCH]).order_by("pk")
        for record in rows:
            with revised(user, record, "forget", REASON):
                record.status = Status.ARCHIVED
                record.purge_after = purge_after


def delete_expired() -> tuple[int, int]:
    """Remove expired memories, and archived memories whose purge date has passed; return how many of each.

    A memory with a purge date is removed together with the copies that were made of it.
    """
    now = timezone.now()
    expired = MemoryRecord.objects.filter(expires_at__lte=now)
    return _remove(expired), _remove(MemoryRecord.objects.filter(purge_after__lte=now, status=Status.ARCHIVED))


def _remove(rows: QuerySet[MemoryRecord]) -> int:
    count = 0
    while True:
        with transaction.atomic():
            batch = list(rows.select_for_update(skip_locked=True).order_by("pk")[:BATCH])
            for record in batch:
                if record.purge_after:
                    purge_copies(system_caller(), record)
            pks = [record.pk for record in batch]
            IndexJob.objects.filter(source_id__in=pks).delete()
            MemoryRecord.objects.filter(pk__in=pks).delete()
            if pks:
                term_changes.count_all()
        count += len(batch)
        if len(batch) < BATCH:
            return count

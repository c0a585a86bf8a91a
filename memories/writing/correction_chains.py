"""Correction chains: who corrects whom, and how a chain is closed, opened and kept a line.

Rows of a chain are locked older first, everywhere, so that nobody waits in a circle.
"""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone

from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status
from memories.writing.revision import locked, revised


def locked_with_predecessor(caller: Caller, record_id: UUID | str) -> tuple[MemoryRecord, MemoryRecord | None]:
    """The record and what it corrects, both locked, older first as everywhere: so nobody waits in a circle."""
    pk = validate(Id, record_id, "id")
    before = MemoryRecord.objects.filter(successors=pk).values("pk")
    old = MemoryRecord.objects.select_for_update().filter(pk__in=before).first()
    return locked(caller, pk), old


def active_correction(record: MemoryRecord) -> MemoryRecord | None:
    """What corrects the record today: its successor, or that one's where it was forgotten."""
    links, visited_ids = [record.pk], {record.pk}
    while links:
        after = list(MemoryRecord.objects.filter(supersedes__in=links).defer("search"))
        for successor in after:
            if successor.status != Status.ARCHIVED:
                return successor
        links = [successor.pk for successor in after if successor.pk not in visited_ids]
        visited_ids.update(links)
    return None


def activate(record: MemoryRecord) -> None:
    record.status, record.stale_reason, record.stale_at = Status.ACTIVE, "", None
    record.superseded_by, record.superseded_at, record.purge_after = None, None, None


def mark_superseded(old: MemoryRecord, new: MemoryRecord) -> None:
    old.status, old.superseded_by, old.superseded_at = Status.SUPERSEDED, new.pk, new.created_at


def relink_neighbours(caller: Caller, record: MemoryRecord, old: MemoryRecord | None) -> None:
    """What was before and after a record that is about to be erased. What nothing corrects any more is archived
    and not believed again: it had been found wrong."""
    after = MemoryRecord.objects.select_for_update().filter(supersedes=record).exclude(status=Status.ARCHIVED).first()
    MemoryRecord.objects.filter(supersedes=record).update(supersedes=None)
    MemoryRecord.objects.filter(pk=record.pk).update(supersedes=None)
    if old is None or old.superseded_by != record.pk:
        return
    with revised(caller, old, "erase", "its correction was erased"):
        if after:  # nearer to the start of the chain than before, so no cycle can come of it
            MemoryRecord.objects.filter(pk=after.pk).update(supersedes=old)
            old.superseded_by = after.pk
        else:
            old.status, old.superseded_by, old.superseded_at = Status.ARCHIVED, None, None


def supersede_with(*, caller: Caller, record: MemoryRecord, predecessor_id: UUID) -> bool:
    """Makes the locked, active `record` the successor of a living memory; False if that one is gone or was
    corrected otherwise meanwhile. A chain can't become a circle: what has no successor is nobody's predecessor."""
    old = MemoryRecord.objects.select_for_update().filter(pk=predecessor_id).first()
    if old is None or old.status not in (Status.ACTIVE, Status.STALE) or record.supersedes_id:
        return False
    with revised(caller, record, "apply", ""):
        record.supersedes = old
    with revised(caller, old, "supersede", "by an applied insight"):
        old.status, old.superseded_by, old.superseded_at = Status.SUPERSEDED, record.pk, timezone.now()
    return True


def reactivate_predecessor(*, caller: Caller, record: MemoryRecord) -> None:
    """Undoes take_place: the predecessor of the locked record is active again."""
    old = record.supersedes_id and MemoryRecord.objects.select_for_update().filter(pk=record.supersedes_id).first()
    if not old or old.superseded_by != record.pk:
        return
    with revised(caller, old, "restore", "its correction was rolled back"):
        activate(old)
    with revised(caller, record, "roll_back", ""):
        record.supersedes = None

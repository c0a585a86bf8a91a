"""Correction chains: the links between a memory and its corrections.

A memory has at most one correction that is not archived, so a chain has no branches.
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
    """Lock a record and the memory that it corrects, if any, and return both.

    The older memory is locked first, which prevents deadlocks between concurrent calls.
    """
    pk = validate(Id, record_id, "id")
    predecessor_id = MemoryRecord.objects.filter(successors=pk).values("pk")
    predecessor = MemoryRecord.objects.select_for_update().filter(pk__in=predecessor_id).first()
    return locked(caller, pk), predecessor


def active_correction(record: MemoryRecord) -> MemoryRecord | None:
    """Return the nearest correction of a record that is not archived, or None.

    The corrections of an archived correction are searched as well.
    """
    ids, visited_ids = [record.pk], {record.pk}
    while ids:
        successors = list(MemoryRecord.objects.filter(supersedes__in=ids).defer("search"))
        for successor in successors:
            if successor.status != Status.ARCHIVED:
                return successor
        ids = [successor.pk for successor in successors if successor.pk not in visited_ids]
        visited_ids.update(ids)
    return None


def activate(record: MemoryRecord) -> None:
    record.status, record.stale_reason, record.stale_at = Status.ACTIVE, "", None
    record.superseded_by, record.superseded_at, record.purge_after = None, None, None


def mark_superseded(old: MemoryRecord, new: MemoryRecord) -> None:
    old.status, old.superseded_by, old.superseded_at = Status.SUPERSEDED, new.pk, new.created_at


def relink_neighbors(caller: Caller, record: MemoryRecord, old: MemoryRecord | None) -> None:
    """Before a record is erased, link its predecessor to its correction.

    If the record has no correction, the predecessor is archived. It is not reactivated, because it was found to be
    wrong.
    """
    successor = (
        MemoryRecord.objects.select_for_update().filter(supersedes=record).exclude(status=Status.ARCHIVED).first()
    )
    MemoryRecord.objects.filter(supersedes=record).update(supersedes=None)
    MemoryRecord.objects.filter(pk=record.pk).update(supersedes=None)
    if old is None or old.superseded_by != record.pk:
        return
    with revised(caller, old, "erase", "its correction was erased"):
        if successor:  # no cycle can result, because the successor moves toward the start of the chain
            MemoryRecord.objects.filter(pk=successor.pk).update(supersedes=old)
            old.superseded_by = successor.pk
        else:
            old.status, old.superseded_by, old.superseded_at = Status.ARCHIVED, None, None


def supersede_with(*, caller: Caller, record: MemoryRecord, predecessor_id: UUID) -> bool:
    """Make the locked `record` the correction of another memory.

    Return False if the other memory is gone or is neither active nor stale, or if `record` already corrects a memory.
    """
    # An active or stale memory has no correction in force, so the chain gets no branch.
    old = MemoryRecord.objects.select_for_update().filter(pk=predecessor_id).first()
    if old is None or old.status not in (Status.ACTIVE, Status.STALE) or record.supersedes_id:
        return False
    with revised(caller, record, "apply", ""):
        record.supersedes = old
    with revised(caller, old, "supersede", "by an applied insight"):
        old.status, old.superseded_by, old.superseded_at = Status.SUPERSEDED, record.pk, timezone.now()
    return True


def reactivate_predecessor(*, caller: Caller, record: MemoryRecord) -> None:
    """Undo `supersede_with`: activate the predecessor of the locked record and remove the link between the two."""
    old = record.supersedes_id and MemoryRecord.objects.select_for_update().filter(pk=record.supersedes_id).first()
    if not old or old.superseded_by != record.pk:
        return
    with revised(caller, old, "restore", "its correction was rolled back"):
        activate(old)
    with revised(caller, record, "roll_back", ""):
        record.supersedes = None

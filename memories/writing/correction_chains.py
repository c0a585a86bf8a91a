"""Correction chains: the links between a memory and its corrections.

A memory has at most one correction that is not archived, so a chain has no branches.
"""

from __future__ import annotations

from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.models import IN_USE, MemoryRecord, Status
from memories.writing.exact_duplicates import plain_twin
from memories.writing.revision import locked, revised


def locked_with_predecessor(caller: Caller, record_id: UUID | str) -> tuple[MemoryRecord, MemoryRecord | None]:
    """Lock a record and the memory that it corrects, if any, and return both.

    The older memory is locked first, which prevents deadlocks between concurrent calls.
    """
    pk = validate(Id, record_id, "id")
    predecessor = lock_predecessor(pk)
    return locked(caller, pk), predecessor


@identity.service("correction_chains")
def lock_predecessor(record_id: UUID) -> MemoryRecord | None:
    predecessor_id = MemoryRecord.objects.filter(successors=record_id).values("pk")
    return MemoryRecord.objects.select_for_update().filter(pk__in=predecessor_id).first()


@identity.service("correction_chains")
def active_correction(record: MemoryRecord) -> MemoryRecord | None:
    """Return the nearest correction of a record that is not archived, or None.

    The corrections of an archived correction are searched as well.
    """
    ids = [record.pk]
    visited_ids = {record.pk}
    while ids:
        successors = list(MemoryRecord.objects.filter(supersedes__in=ids).defer("search"))
        for successor in successors:
            if successor.status != Status.ARCHIVED:
                return successor
        ids = [successor.pk for successor in successors if successor.pk not in visited_ids]
        visited_ids.update(ids)
    return None


def reference(caller: Caller, record: MemoryRecord) -> str:
    """Return the id of a memory for a message, or words in its place if the caller may not read the memory."""
    return record.pk.hex if _is_readable(caller, record) else "a memory that you may not read"


def _is_readable(caller: Caller, record: MemoryRecord) -> bool:
    return MemoryRecord.objects.visible_to(caller).filter(pk=record.pk).exists()


def require_in_use(caller: Caller, record: MemoryRecord) -> None:
    """Raise Conflict if a memory is archived or superseded. It names the step that loses no knowledge."""
    if record.status in IN_USE:
        return
    if successor := active_correction(record):
        raise superseded_by(caller, successor)
    if record.status == Status.SUPERSEDED:
        raise Conflict(_without_correction(caller, record), field="id")
    if caller.can_edit_for(record.created_by):
        extensions.check_restore(record)  # it names the way back of a memory that can't be restored
        raise Conflict(gettext("is archived: restore it first, if it still holds"), field="id")
    raise Conflict(gettext("is archived: its owner can restore it, if it still holds"), field="id")


def _without_correction(caller: Caller, record: MemoryRecord) -> str:
    """Return why a superseded memory without a correction in force can't be changed."""
    readable = MemoryRecord.objects.visible_to(caller)
    archived = readable.filter(supersedes=record).order_by("-created_at").first()
    if archived is None:
        return gettext("was superseded by a correction that is gone: restore it first, if it still holds")
    problem = gettext("was superseded by %(memory)s, which is archived: restore that one if it still holds")
    return problem % {"memory": archived.pk.hex}


def superseded_by(caller: Caller, successor: MemoryRecord) -> Conflict:
    """Return the refusal to change a memory that has a correction. It names the correction in force."""
    successor = _end_of_chain(caller, successor)
    if _is_readable(caller, successor):
        problem = gettext("was superseded by %(memory)s: change that one instead") % {"memory": successor.pk.hex}
    else:
        problem = gettext("was superseded by a memory that you may not read: an admin can tell you whose it is")
    return Conflict(problem, field="id")


def _end_of_chain(caller: Caller, record: MemoryRecord) -> MemoryRecord:
    """Return the end of the chain from a record on, as far as the caller may read it."""
    visited = {record.pk}
    while (following := active_correction(record)) and following.pk not in visited and _is_readable(caller, following):
        visited.add(following.pk)
        record = following
    return record


def activate(record: MemoryRecord) -> None:
    """Make a record active, and not stale, whatever its state was."""
    record.status = Status.ACTIVE
    record.stale_reason = ""
    record.stale_at = None
    record.superseded_by = None
    record.superseded_at = None
    record.purge_after = None


def reactivate(record: MemoryRecord) -> None:
    """Give an archived or superseded record back the state that it had before: stale, with its reason, or active."""
    reason = record.stale_reason
    since = record.stale_at
    activate(record)
    if since:
        record.status = Status.STALE
        record.stale_reason = reason
        record.stale_at = since


def mark_superseded(old: MemoryRecord, new: MemoryRecord) -> None:
    old.status = Status.SUPERSEDED
    old.superseded_by = new.pk
    old.superseded_at = new.created_at


@identity.service("correction_chains")
def take_out(caller: Caller, record: MemoryRecord, old: MemoryRecord | None, reason: str) -> bool:
    """Take a locked record out of its chain. `old` is its locked predecessor.

    If a correction of the record is in force, the predecessor is linked to it and stays superseded, and True is
    returned. Otherwise the predecessor is left as it is. A superseded record gets its earlier state back.
    """
    corrected = active_correction(record) is not None
    successors = list(MemoryRecord.objects.select_for_update().filter(supersedes=record)) if corrected else []
    with revised(caller, record, "relink", reason):
        record.supersedes = None
        if record.status == Status.SUPERSEDED:
            reactivate(record)
    for successor in successors:  # at most one of them is not archived
        with revised(caller, successor, "relink", reason):
            successor.supersedes = old
    if corrected and old is not None and old.superseded_by == record.pk:
        nearest = next((row for row in successors if row.status != Status.ARCHIVED), successors[0])
        with revised(caller, old, "relink", reason):
            old.superseded_by = nearest.pk
    return corrected


@identity.service("correction_chains")
def supersede_with(caller: Caller, *, record: MemoryRecord, old: MemoryRecord) -> str:
    """Make the locked `record` the correction of the locked memory `old`, and return "".

    If `old` is archived, it stays so, and becomes superseded if it is restored. If the chain would get a branch,
    nothing is changed, and the reason is returned.
    """
    if record.supersedes_id and record.supersedes_id != old.pk:
        return f"{record.pk.hex} already corrects {record.supersedes_id.hex}"
    other = active_correction(old)
    if other is not None and other.pk != record.pk:
        return f"{old.pk.hex} was already replaced, by {reference(caller, other)}"
    with revised(caller, record, "apply", ""):
        record.supersedes = old
    if old.status in IN_USE:
        with revised(caller, old, "supersede", "by an applied insight"):
            old.status = Status.SUPERSEDED
            old.superseded_by = record.pk
            old.superseded_at = timezone.now()
    return ""


@identity.service("correction_chains")
def undo_supersede(caller: Caller, *, record: MemoryRecord, old: MemoryRecord | None) -> None:
    """Undo `supersede_with`. Unless another correction is in force, the predecessor gets its earlier state back.

    It is archived if its text was remembered again meanwhile.
    """
    if take_out(caller, record, old, "its correction was rolled back") or old is None:
        return
    if old.status == Status.SUPERSEDED and old.superseded_by == record.pk:
        is_repeated = plain_twin(old) is not None
        reason = "the same text was remembered again" if is_repeated else "its correction was rolled back"
        with revised(caller, old, "forget" if is_repeated else "restore", reason):
            reactivate(old)
            if is_repeated:
                old.status = Status.ARCHIVED

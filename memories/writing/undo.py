"""Undo of the last change of a memory. The revision contains the values to restore."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memories import extensions
from memories.contract.errors import Conflict, Forbidden, NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models import MemoryRecord, MemoryRevision, Status
from memories.models.revision import value_of
from memories.writing.revision import revised

UNDOABLE = ("forget", "restore", "verify", "share", "reassign")
RESTORED_FIELDS = (
    "stale_reason", "stale_at", "last_verified_at", "superseded_by", "superseded_at", "purge_after",
)  # fmt: skip


def undo(*, caller: Caller, record_id: UUID | str, change: str) -> MemoryRecord:
    """Undo the last change of a memory, if it was `change`.

    Raises Conflict if the last change is another one or not in UNDOABLE, or if another memory has taken the place of
    this one. Raises Forbidden if another user made the change and the caller is not an admin.
    """
    pk = validate(Id, record_id, "id")
    with transaction.atomic():
        record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
        if record is None:
            raise NotFound("no such memory", field="id")
        last = MemoryRevision.objects.filter(record=record).order_by("-valid_to", "-id").first()
        if last is None or last.change != change or change not in UNDOABLE:
            raise Conflict("was changed since then and can no longer be undone", field="id")
        if last.changed_by != caller.email and not caller.is_admin:
            raise Forbidden(f"was changed by {last.changed_by}: only they or an admin can undo it", field="id")
        if change in ("forget", "reassign"):
            _check_no_replacement(record, last)
        if change in ("share", "reassign") and not caller.is_admin:
            for extension in extensions.registered():
                extension.check_share(record)
        _restore_state(caller, record, last)
        _restore_predecessor(caller, record, last)
    return record


def _restore_state(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    with revised(caller, record, "undo", ""):
        record.status = last.status
        if last.change == "share":
            record.visibility = last.visibility
        if last.change == "reassign":
            record.persona = last.details["persona"]
        for name in RESTORED_FIELDS:
            if name in last.details:
                setattr(record, name, value_of(name, last.details[name]))
        if record.status == Status.STALE and record.stale_at is None:
            record.stale_at = timezone.now()
        if record.status == Status.STALE and not record.stale_reason:
            record.stale_reason = "stale before"


def _restore_predecessor(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    # Of the UNDOABLE changes, only `restore` also changes the predecessor, which a restored correction supersedes
    # again.
    if last.change != "restore" or not record.supersedes_id:
        return
    old = MemoryRecord.objects.select_for_update().filter(pk=record.supersedes_id).first()
    revision = MemoryRevision.objects.filter(record_id=record.supersedes_id).order_by("-valid_to", "-id").first()
    is_same_restore = revision is not None and revision.change == "supersede" and revision.valid_to >= last.valid_to
    if old and revision and is_same_restore and old.superseded_by == record.pk:
        _restore_state(caller, old, revision)
        if old.status != Status.SUPERSEDED:
            with revised(caller, old, "undo", ""):
                old.superseded_by = old.superseded_at = None


def _check_no_replacement(record: MemoryRecord, last: MemoryRevision) -> None:
    """Raise Conflict if another memory has the same text now, or if the predecessor has another correction."""
    if last.status not in (Status.ACTIVE, Status.STALE):
        return
    other_records = MemoryRecord.objects.exclude(pk=record.pk)
    duplicates = other_records.facts().filter(
        created_by=record.created_by,
        persona=last.details.get("persona", record.persona),
        content_key=record.content_key,
    )
    if duplicate := duplicates.filter(status__in=[Status.ACTIVE, Status.STALE]).first():
        raise Conflict(f"the same text is already remembered, as {duplicate.pk.hex}", field="id")
    corrections = other_records.filter(supersedes=record.supersedes_id).exclude(status=Status.ARCHIVED)
    if record.supersedes_id and (other_correction := corrections.first()):
        raise Conflict(f"the original memory already has a newer correction, {other_correction.pk.hex}", field="id")

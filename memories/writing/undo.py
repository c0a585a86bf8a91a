"""The last change of a memory, taken back by who made it: not its opposite, but the state before."""

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
STATE = (
    "stale_reason", "stale_at", "last_verified_at", "superseded_by", "superseded_at", "purge_after",
)  # fmt: skip


def undo(*, caller: Caller, record_id: UUID | str, change: str) -> MemoryRecord:
    """Takes back the caller's own last change of this kind. Raises Conflict if something else happened since."""
    pk = validate(Id, record_id, "id")
    with transaction.atomic():
        record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
        if record is None:
            raise NotFound("no such memory", field="id")
        last = MemoryRevision.objects.filter(record=record).order_by("-valid_to", "-id").first()
        if last is None or last.change != change or change not in UNDOABLE:
            raise Conflict("was changed since then and can no longer be undone", field="id")
        if last.changed_by != caller.email and not caller.is_admin:
            raise Forbidden(f"was done by {last.changed_by}", field="id")
        if change in ("forget", "reassign"):
            _require_room(record, last)
        if change in ("share", "reassign") and not caller.is_admin:
            for extension in extensions.registered():
                extension.check_share(record)
        _put_back(caller, record, last)
        _put_back_predecessor(caller, record, last)
    return record


def _put_back(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    with revised(caller, record, "undo", ""):
        record.status = last.status
        if last.change == "share":
            record.visibility = last.visibility
        if last.change == "reassign":
            record.persona = last.details["persona"]
        for name in STATE:
            if name in last.details:
                setattr(record, name, value_of(name, last.details[name]))
        if record.status == Status.STALE and record.stale_at is None:
            record.stale_at = timezone.now()
        if record.status == Status.STALE and not record.stale_reason:
            record.stale_reason = "stale before"


def _put_back_predecessor(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    """Restoring a correction had superseded what it corrects: that goes back too."""
    if last.change != "restore" or not record.supersedes_id:
        return
    old = MemoryRecord.objects.select_for_update().filter(pk=record.supersedes_id).first()
    before = MemoryRevision.objects.filter(record_id=record.supersedes_id).order_by("-valid_to", "-id").first()
    is_same_act = before is not None and before.change == "supersede" and before.valid_to >= last.valid_to
    if old and before and is_same_act and old.superseded_by == record.pk:
        _put_back(caller, old, before)
        if old.status != Status.SUPERSEDED:
            with revised(caller, old, "undo", ""):
                old.superseded_by = old.superseded_at = None


def _require_room(record: MemoryRecord, last: MemoryRevision) -> None:
    """Forgetting made room: for the same text said anew, or for another correction."""
    if last.status not in (Status.ACTIVE, Status.STALE):
        return
    other_records = MemoryRecord.objects.exclude(pk=record.pk)
    twins = other_records.facts().filter(
        created_by=record.created_by,
        persona=last.details.get("persona", record.persona),
        content_key=record.content_key,
    )
    if twin := twins.filter(status__in=[Status.ACTIVE, Status.STALE]).first():
        raise Conflict(f"the same text is already remembered, as {twin.pk.hex}", field="id")
    rivals = other_records.filter(supersedes=record.supersedes_id).exclude(status=Status.ARCHIVED)
    if record.supersedes_id and (rival := rivals.first()):
        raise Conflict(f"what it corrected is corrected by {rival.pk.hex} now", field="id")

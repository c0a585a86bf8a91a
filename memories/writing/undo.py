"""Undo of the last change of a memory. The revision contains the values to restore."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.models import IN_USE, MemoryRecord, MemoryRevision, Status
from memories.models.revision import value_of
from memories.models.validity import VALIDITY_COLUMNS
from memories.validity.rules import check_restored
from memories.writing.correction_chains import active_correction, lock_predecessor, mark_superseded, reference
from memories.writing.exact_duplicates import find_duplicate
from memories.writing.feedback import drop_withdrawn_reason
from memories.writing.revision import last_revision, revised
from memories.writing.staleness import with_current_status
from memories.writing.verification import remove_verification

UNDOABLE = (
    "forget",
    "restore",
    "verify",
    "share",
    "reassign",
    "retag",
    "extend",
    "rescope",
    "settle",
    "choose_attachment",
    "supersede",
)
SETTLED_FIELDS = ("entity_urns", "related_columns", "unsettled")
RESTORED_FIELDS = (
    "stale_reason", "stale_at", "last_verified_at", "superseded_by", "superseded_at", "purge_after", "attachment",
    *VALIDITY_COLUMNS,
    "quiet_at",
)  # fmt: skip


def undo(
    caller: Caller,
    *,
    record_id: UUID | str,
    change: str,
    revision: int | None = None,
    until: datetime | None = None,
) -> MemoryRecord:
    """Undo the last change of a memory, if it was `change`.

    With `revision`, it must be the one that made this revision, and with `until`, it must not be later than that.
    Undoing `supersede` archives the correction. Raises Conflict if the last change is another one or not in UNDOABLE,
    if another memory has taken the place of this one, or if the correction has changed since. Raises Forbidden if
    another user made the change and the caller is not an admin.
    """
    pk = validate(Id, record_id, "id")
    with transaction.atomic():
        old = lock_predecessor(pk)
        record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
        if record is None:
            raise NotFound(gettext("no such memory"), field="id")
        last = last_revision(record.pk)
        if last is None or not _is_meant(last, change, revision, until):
            raise Conflict(
                gettext("was changed since then and can no longer be undone; its history has the earlier text"),
                field="id",
            )
        if last.changed_by != caller.email and not caller.is_admin:
            raise Forbidden(
                gettext("was changed by %(changed_by)s: only they or an admin can undo it")
                % {"changed_by": last.changed_by},
                field="id",
            )
        if change == "supersede":
            _archive_correction(caller, record)
            if last.status in IN_USE:
                extensions.correction_undone(record)  # first, because a proposal is compared with proposals alone
        if change in ("forget", "reassign", "supersede"):
            _check_no_replacement(caller, record, last)
        if change in ("share", "reassign") and not caller.is_admin:
            extensions.check_share(record)
        if change == "settle":
            _check_no_review(caller, record, last)
        if change == "verify":
            remove_verification(record, by=last.changed_by, at=record.last_verified_at)
        _restore_state(caller, record, last)
        if change == "forget":
            _relink(caller, record, old)
        else:
            _restore_predecessor(caller, record, old, last)
    return with_current_status(record)


def _is_meant(last: MemoryRevision, change: str, revision: int | None, until: datetime | None) -> bool:
    """Return whether the last change of a memory is the one that the caller of `undo` means."""
    if last.change != change or change not in UNDOABLE:
        return False
    if revision is not None and last.pk != revision:
        return False
    return until is None or last.valid_to <= until


@identity.service("correction_chains")
def _archive_correction(caller: Caller, old: MemoryRecord) -> None:
    """Archive the correction of the locked memory `old`. Raise Conflict if it is not as it was first stored.

    The caller, who has made the correction, may be a curator who may not read it.
    """
    active = MemoryRecord.objects.select_for_update().filter(status=Status.ACTIVE)
    correction = active.filter(pk=old.superseded_by).first() if old.superseded_by else None
    if correction is None or last_revision(correction.pk) is not None:
        raise Conflict(gettext("was changed since then and can no longer be undone"), field="id")
    with revised(caller, correction, "forget", "the correction was undone"):
        correction.status = Status.ARCHIVED


def _check_no_review(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    """Raise Conflict if a curator has approved what the memory is about since it was settled."""
    values = {name: last.details[name] for name in SETTLED_FIELDS if name in last.details and name != "unsettled"}
    if extensions.defer_edit(caller, record, values):
        # the transaction is rolled back, and with it the proposed edit
        raise Conflict(gettext("was approved by a curator: edit it on its page, and a curator decides"), field="id")


def restore_status(record: MemoryRecord, change: str) -> None:
    """Give an active record the stale status back that it had before its last `change`."""
    last = last_revision(record.pk, change=change)
    if last and last.status == Status.STALE and record.status == Status.ACTIVE and last.details.get("stale_reason"):
        record.status = Status.STALE
        record.stale_reason = last.details["stale_reason"]
        record.stale_at = value_of("stale_at", last.details["stale_at"])


def _restore_state(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    with revised(caller, record, "undo", ""):
        record.status = last.status
        if last.change == "share":
            record.visibility = last.visibility
        if last.change == "reassign":
            record.persona = last.details["persona"]
        if last.change == "retag":
            record.tags = last.details["tags"]
        if last.change == "rescope":
            record.scope = last.details["scope"]
        if last.change == "settle":
            for name in SETTLED_FIELDS:
                setattr(record, name, last.details.get(name, getattr(record, name)))
        for name in RESTORED_FIELDS:
            if name in last.details:
                setattr(record, name, value_of(name, last.details[name]))
        check_restored(record, last.details)
        if last.change == "verify":
            drop_withdrawn_reason(record)
        was_out_of_use = last.change in ("forget", "supersede")
        if was_out_of_use and record.status == Status.STALE and record.stale_at is None:
            record.status = Status.ACTIVE  # the mark that made it stale was withdrawn meanwhile
        if record.status == Status.STALE and record.stale_at is None:
            record.stale_at = timezone.now()
        if record.status == Status.STALE and not record.stale_reason:
            record.stale_reason = "stale before"


def _restore_predecessor(caller: Caller, record: MemoryRecord, old: MemoryRecord | None, last: MemoryRevision) -> None:
    # Of the UNDOABLE changes, only `restore` also changes the predecessor, which a restored correction supersedes
    # again.
    if last.change != "restore" or old is None:
        return
    revision = last_revision(old.pk)
    is_same_restore = revision is not None and revision.change == "supersede" and revision.valid_to >= last.valid_to
    if revision and is_same_restore and old.superseded_by == record.pk:
        _restore_state(caller, old, revision)
        if old.status != Status.SUPERSEDED:
            with revised(caller, old, "undo", ""):
                old.superseded_by = old.superseded_at = None


def _check_no_replacement(caller: Caller, record: MemoryRecord, last: MemoryRevision) -> None:
    """Raise Conflict if another memory has the same text now, or if the predecessor has another correction."""
    if last.status not in IN_USE:
        return
    if duplicate := find_duplicate(record, last.details.get("persona", "")):
        raise Conflict(
            gettext("the same text is already remembered, as %(memory)s: use that memory")
            % {"memory": reference(caller, duplicate)},
            field="id",
        )
    corrections = MemoryRecord.objects.exclude(pk=record.pk).filter(supersedes=record.supersedes_id)
    if record.supersedes_id and (other_correction := corrections.exclude(status=Status.ARCHIVED).first()):
        newer = reference(caller, other_correction)
        raise Conflict(
            gettext("the original memory already has a newer correction, %(newer)s") % {"newer": newer}, field="id"
        )


def _relink(caller: Caller, record: MemoryRecord, old: MemoryRecord | None) -> None:
    """Adapt the chain of a memory that is no longer archived, so that only one of its members is in force."""
    if record.status not in IN_USE:
        return
    if successor := active_correction(record):
        with revised(caller, record, "supersede", "it has a correction"):
            mark_superseded(record, successor)
    if old and old.status in IN_USE:
        with revised(caller, old, "supersede", "its correction was restored"):
            mark_superseded(old, record)

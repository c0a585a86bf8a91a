"""Changes of status of stale memories, for comparisons with the catalog and for checks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord, Status
from memories.writing.correction_chains import activate
from memories.writing.revision import last_revision, locked, revised


def was_marked_stale_by(record: MemoryRecord, email: str) -> bool:
    """Return whether the last mark that made this memory stale is one of this service, and no person's."""
    last = last_revision(record.pk, change__in=["mark_stale", "mark_wrong"])
    return last is not None and last.change == "mark_stale" and last.changed_by == email


def replace_stale_reason(
    caller: Caller, *, record_id: UUID | str, reason: str, unchanged_since: datetime | None = None
) -> MemoryRecord:
    """Replace the reason of a stale memory after its causes have changed."""
    with transaction.atomic():
        record = locked(caller, record_id)
        require_unchanged(record, unchanged_since)
        if record.status != Status.STALE:
            raise Conflict(
                gettext("is %(status)s: only a stale memory has a reason") % {"status": record.status}, field="id"
            )
        with revised(caller, record, "mark_stale", reason):
            record.stale_reason = reason
    return record


def mark_fresh(
    caller: Caller,
    *,
    record_id: UUID | str,
    reason: str,
    unchanged_since: datetime | None = None,
    change: str = "mark_fresh",
) -> MemoryRecord:
    """Reactivate a stale memory because what made it stale has gone, such as a catalog change that was reverted.

    If an extension knows another cause, the memory stays stale, and the cause replaces the reason. The time of the last
    verification is unchanged, because no person has checked the memory.
    """
    with transaction.atomic():
        record = locked(caller, record_id)
        require_unchanged(record, unchanged_since)
        if record.status != Status.STALE:
            raise Conflict(
                gettext("is %(status)s: only a stale memory becomes fresh again") % {"status": record.status},
                field="id",
            )
        if cause := extensions.stale_cause(record):
            with revised(replace(caller, email=cause.by), record, "mark_stale", cause.reason):
                record.stale_reason = cause.reason
        else:
            with revised(caller, record, change, reason):
                activate(record)
    return record


def require_unchanged(record: MemoryRecord, since: datetime | None) -> None:
    if since is not None and record.updated_at != since:
        raise Conflict(gettext("was changed in the meantime"), field="id")


def with_current_status(record: MemoryRecord) -> MemoryRecord:
    """Return the record with the status that extensions have given it after the transaction."""
    record.refresh_from_db(fields=["status", "stale_reason", "stale_at"])
    return record

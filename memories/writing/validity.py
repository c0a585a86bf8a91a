"""Extension of memories, and conditions that end.

When a condition ends, `end_condition` sets `condition_ended_at` of the memories that depend on it.
"""

from __future__ import annotations

import calendar
from datetime import datetime, time
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord, Visibility
from memories.operations import Extend
from memories.validity.rules import validity_columns
from memories.writing.correction_chains import require_in_use
from memories.writing.revision import revised

MONTHS = {"month": 1, "quarter": 3}
NO_END = "no_end"


def extend(caller: Caller, operation: Extend) -> MemoryRecord:
    """Move the end of a memory by a month or a quarter, counted from now if it has ended, or remove the end.

    A condition that has ended is dropped. The owner and admins may extend a memory, and curators of its persona if it
    is shared. If the owner extends what a curator has approved, this may need approval, as an edit does. Raises
    Conflict if the memory has no end, or is archived or superseded.
    """
    with transaction.atomic():
        record = _locked_for_extension(caller, operation.record_id)
        require_in_use(caller, record)
        if not (record.valid_until or record.condition_ended_at):
            raise Conflict(gettext("has no end that could be moved"), field="id")
        changes: dict[str, Any] = {"valid_until": _later(record, operation.by)}
        if record.condition_ended_at:
            changes["valid_while"] = ""
        may_review = caller.email != record.created_by and caller.can_review_for(record.persona)
        pending = None if may_review else extensions.defer_edit(caller, record, changes)
        if pending:
            record.pending_message = pending
            return record
        with revised(caller, record, "extend", operation.reason):
            for name, value in validity_columns(changes, record).items():
                setattr(record, name, value)
    return record


def may_extend(caller: Caller, record: MemoryRecord) -> bool:
    is_shared = record.visibility != Visibility.PRIVATE
    return caller.can_edit_for(record.created_by) or (is_shared and caller.can_review_for(record.persona))


def _locked_for_extension(caller: Caller, record_id: Any) -> MemoryRecord:
    rows = MemoryRecord.objects.visible_to(caller).select_for_update()
    record = rows.filter(pk=validate(Id, record_id, "id")).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="id")
    if not may_extend(caller, record):
        raise Forbidden(gettext("belongs to another user: only its owner or an admin can change it"), field="id")
    return record


def _later(record: MemoryRecord, by: str) -> datetime | None:
    if by == NO_END:
        return None
    now = timezone.localtime(timezone.now(), timezone.get_default_timezone())
    if record.valid_until and record.valid_until > now and not record.condition_ended_at:
        return _add_months(record.valid_until.astimezone(now.tzinfo), MONTHS[by])
    return datetime.combine(_add_months(now, MONTHS[by]).date(), time.max, tzinfo=now.tzinfo)


def _add_months(moment: datetime, months: int) -> datetime:
    """Return the same day of a later month, or the last one of a month that is shorter."""
    year, month = divmod(moment.month - 1 + months, 12)
    year = moment.year + year
    month = month + 1
    return moment.replace(year=year, month=month, day=min(moment.day, calendar.monthrange(year, month)[1]))


# -- conditions that end --------------------------------------------------------------------------------------


def end_condition(caller: Caller, *, condition: str, reason: str) -> int:
    """End the validity of all memories that depend on a condition. Return their number.

    The caller must see the memories of all people, as an admin or a service does. Archived memories are included, so
    that restoring one does not bring it back to life.
    """
    return _set_ended(caller, condition, "condition_ended", reason, ended=True)


def renew_condition(caller: Caller, *, condition: str, reason: str) -> int:
    """Undo `end_condition`, because the condition holds again. Return the number of memories."""
    return _set_ended(caller, condition, "condition_renewed", reason, ended=False)


def _set_ended(caller: Caller, condition: str, change: str, reason: str, *, ended: bool) -> int:
    with transaction.atomic():
        rows = MemoryRecord.objects.select_for_update().defer("search").order_by("pk")
        rows = rows.filter(valid_while=condition, condition_ended_at__isnull=ended)
        now = timezone.now()
        for record in rows:
            with revised(caller, record, change, reason, now):
                record.condition_ended_at = now if ended else None
        return len(rows)

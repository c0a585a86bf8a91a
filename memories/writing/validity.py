"""Validity of memories: checks of what people state, conditions that end, and extensions.

A memory is true from `valid_from` to before `valid_until`, and while its condition `valid_while` holds. Outside of that
time it is left out like a stale memory. A condition is `<kind>:<of>`, and apps declare the kinds (MemoryExtension.
condition_kinds). When a condition ends, `end_condition` sets `condition_ended_at` of the memories that depend on it.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord, Period, Visibility
from memories.models.validity import EXPIRED, VALIDITY_COLUMNS, VALIDITY_FIELDS
from memories.operations import Extend
from memories.writing.correction_chains import require_in_use
from memories.writing.revision import revised

MAX_YEARS = 50  # a bound that is farther away is most likely a slip of the pen
MONTHS = {"month": 1, "quarter": 3}
NO_END = "no_end"
UNSTATED: Mapping[str, Any] = {"valid_from": None, "valid_until": None, "valid_while": ""}


@dataclass(frozen=True)
class ConditionState:
    """What a condition names, in the form that is stored, and whether the condition has ended."""

    of: str
    has_ended: bool


ConditionKind = Callable[[str], ConditionState]  # raises Invalid with field valid_while if there is no such thing


# -- what people state ----------------------------------------------------------------------------------------


def settled(changes: Mapping[str, Any], before: MemoryRecord | None = None, *, is_new: bool = False) -> dict[str, Any]:
    """Return the columns to store if a person states `changes`, empty if these do not concern the validity.

    `before` is the memory that is edited, or what a new memory takes over. A new memory can't have ended already. If
    an edit moves the end of a memory whose condition has ended, the condition is dropped. Raises Invalid.
    """
    given = {name: changes[name] for name in VALIDITY_FIELDS if name in changes}
    stated = {name: getattr(before, name) if before else UNSTATED[name] for name in VALIDITY_FIELDS}
    changed = {name for name, value in given.items() if value != stated[name]}
    if not changed:
        return {}
    values = stated | given
    ended_at = before.condition_ended_at if before else None
    if "valid_while" in changed:
        values["valid_while"], ended_at = checked_condition(values["valid_while"]), None
    elif ended_at and "valid_until" in changed:
        values["valid_while"], ended_at = "", None
    _check_bounds(values, changed, is_new=is_new or before is None)
    return {**values, "condition_ended_at": ended_at}


def inherited(old: MemoryRecord, explicit: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the columns of a correction of `old`, and a note if the correction does not take over an end.

    What has ended is not inherited: a correction says what is true now.
    """
    kept, note = {name: getattr(old, name) for name in VALIDITY_COLUMNS}, ""
    if old.validity == EXPIRED:
        kept |= {"valid_until": None, "valid_while": "", "condition_ended_at": None}
        if not {"valid_until", "valid_while"} & set(explicit):
            note = "the corrected memory was no longer valid; the correction has no end"
    return kept | settled(explicit, MemoryRecord(**kept), is_new=True), note


def outside_note(record: MemoryRecord) -> str:
    """Return what to tell somebody who states the text of a memory again that is outside its validity, or ""."""
    if record.validity == EXPIRED:
        return "it is no longer valid, so it is not recalled: update it with a later valid_until"
    return "it is not valid yet, so it is not recalled: update its valid_from" if record.validity else ""


def require_not_ended(record: MemoryRecord, field: str = "id") -> None:
    """Raise Conflict if a memory is no longer valid: neither a curator nor a reader can confirm what has ended."""
    if record.validity == EXPIRED:
        raise Conflict(
            gettext("%(memory)s is no longer valid: its owner can give it a later valid_until, if it is still true")
            % {"memory": record.pk.hex},
            field=field,
        )


def require_valid_now(record: MemoryRecord, field: str) -> None:
    """Raise Conflict if a memory is no longer valid or not yet: the catalog states what is true now."""
    require_not_ended(record, field)
    if record.validity:
        raise Conflict(
            gettext("%(memory)s is not valid yet: apply it when it is") % {"memory": record.pk.hex},
            field=field,
        )


def checked_condition(text: str) -> str:
    """Return a condition in the form that is stored. Raises Invalid if it is malformed, unknown or has ended."""
    if not text:
        return ""
    kinds = condition_kinds()
    kind, _, of = text.partition(":")
    if kind not in kinds or not of.strip():
        allowed = ", ".join(f"{name}:…" for name in kinds)
        raise Invalid(gettext("%(text)r is unknown") % {"text": text[:80]}, field="valid_while", allowed=allowed)
    state = kinds[kind](of.strip())
    if state.has_ended:
        raise Invalid(
            gettext("%(text)r has ended already") % {"text": f"{kind}:{state.of}"[:120]},
            field="valid_while",
            allowed=gettext("a condition that holds now"),
        )
    return f"{kind}:{state.of}"


def condition_kinds() -> dict[str, ConditionKind]:
    kinds: dict[str, ConditionKind] = {}
    for extension in extensions.registered():
        kinds |= extension.condition_kinds()
    return kinds | {"period": _period}


def _period(name: str) -> ConditionState:
    row = Period.objects.filter(name=name).first()
    if row is None:
        names = Period.objects.filter(ended_at=None).values_list("name", flat=True)[:20]
        allowed = gettext("a period that an admin has opened: %(names)s") % {"names": ", ".join(names) or "none"}
        raise Invalid(gettext("%(name)r is unknown") % {"name": name[:80]}, field="valid_while", allowed=allowed)
    return ConditionState(row.name, row.ended_at is not None)


def _check_bounds(values: Mapping[str, Any], changed: set[str], *, is_new: bool) -> None:
    now = timezone.now()
    for name in ("valid_from", "valid_until"):
        if name in changed and values[name] and abs(values[name] - now) > timedelta(days=365.25 * MAX_YEARS):
            raise Invalid(
                gettext("is more than %(years)s years away") % {"years": MAX_YEARS},
                field=name,
                allowed=gettext("a time within %(years)s years") % {"years": MAX_YEARS},
            )
    start, end = values["valid_from"], values["valid_until"]
    if start and end and end <= start:
        raise Invalid(
            gettext("is not after valid_from"),
            field="valid_until",
            allowed=gettext("a time after %(start)s") % {"start": start.isoformat()},
        )
    if is_new and "valid_until" in changed and end and end <= now:
        raise Invalid(gettext("is in the past"), field="valid_until", allowed=gettext("a time to come, or none"))


def check_imported(values: dict[str, Any]) -> str:
    """Check the validity of a memory in a file, and return a remark if its condition can't end here.

    A condition keeps the state that it has in the file until it ends or is renewed here. Raises Invalid.
    """
    _check_bounds(values, {"valid_from", "valid_until"}, is_new=False)
    if not values["valid_while"]:
        values["condition_ended_at"] = None
        return ""
    kind, _, of = values["valid_while"].partition(":")
    is_known = Period.objects.filter(name=of).exists() if kind == "period" else kind in condition_kinds()
    return "" if is_known else f"It depends on {values['valid_while']!r}, which is unknown here and does not end."


# -- extending ------------------------------------------------------------------------------------------------


def extend(operation: Extend, *, caller: Caller) -> MemoryRecord:
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
        if caller.email == record.created_by or not caller.can_review_for(record.persona):
            deferrals = [extension.defer_edit(caller, record, changes) for extension in extensions.registered()]
            if pending := next(filter(None, deferrals), ""):
                record.pending_message = pending
                return record
        with revised(caller, record, "extend", operation.reason):
            for name, value in settled(changes, record).items():
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
    year, month = moment.year + year, month + 1
    return moment.replace(year=year, month=month, day=min(moment.day, calendar.monthrange(year, month)[1]))


# -- conditions that end --------------------------------------------------------------------------------------


def end_condition(*, caller: Caller, condition: str, reason: str) -> int:
    """End the validity of all memories that depend on a condition. Return their number.

    The caller must see the memories of all people, as an admin or a service does. Archived memories are included, so
    that restoring one does not bring it back to life.
    """
    return _set_ended(caller, condition, "condition_ended", reason, ended=True)


def renew_condition(*, caller: Caller, condition: str, reason: str) -> int:
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


def check_restored(record: MemoryRecord, restored: Container[str]) -> None:
    """Settle the validity of a memory that got the columns `restored` from an earlier time, before it is saved.

    Its condition may have ended since then. Raises Conflict if its end and its start no longer fit together.
    """
    if record.valid_from and record.valid_until and record.valid_until <= record.valid_from:
        raise Conflict(gettext("is not after valid_from"), field="valid_until")
    if "valid_while" not in restored:
        return
    kind, _, of = record.valid_while.partition(":")
    try:
        state = condition_kinds()[kind](of) if record.valid_while else None
    except (DomainError, KeyError):  # the state that was last known counts
        return
    has_ended = state is not None and state.has_ended
    record.condition_ended_at = (record.condition_ended_at or timezone.now()) if has_ended else None

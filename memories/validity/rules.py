"""Rules of validity: what people may state, what a correction inherits, and what has ended.

A memory is true from `valid_from` to before `valid_until`, and while its condition `valid_while` holds. Outside of that
time it is left out like a stale memory. A condition is `<kind>:<of>`, and apps declare the kinds (MemoryExtension.
condition_kinds).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, DomainError, Invalid
from memories import extensions
from memories.models import MemoryRecord, Period
from memories.models.validity import EXPIRED, VALIDITY_COLUMNS, VALIDITY_FIELDS

MAX_YEARS = 50  # a bound that is farther away is most likely a slip of the pen
UNSTATED: Mapping[str, Any] = {"valid_from": None, "valid_until": None, "valid_while": ""}


@dataclass(frozen=True)
class ConditionState:
    """Subject of a condition, in the form that is stored, and whether the condition has ended."""

    of: str
    has_ended: bool


ConditionKind = Callable[[str], ConditionState]  # raises Invalid with field valid_while if there is no such thing


def validity_columns(
    changes: Mapping[str, Any], before: MemoryRecord | None = None, *, is_new: bool = False
) -> dict[str, Any]:
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
        values["valid_while"] = checked_condition(values["valid_while"])
        ended_at = None
    elif ended_at and "valid_until" in changed:
        values["valid_while"] = ""
        ended_at = None
    _check_bounds(values, changed, is_new=is_new or before is None)
    return {**values, "condition_ended_at": ended_at}


def inherited_validity(old: MemoryRecord, explicit: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the columns of a correction of `old`, and a note if the correction does not take over an end.

    What has ended is not inherited: a correction says what is true now.
    """
    kept = {name: getattr(old, name) for name in VALIDITY_COLUMNS}
    note = ""
    if old.validity == EXPIRED:
        kept |= {"valid_until": None, "valid_while": "", "condition_ended_at": None}
        if not {"valid_until", "valid_while"} & set(explicit):
            note = "the corrected memory was no longer valid; the correction has no end"
    return kept | validity_columns(explicit, MemoryRecord(**kept), is_new=True), note


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
    return extensions.condition_kinds() | {"period": _period}


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
    start = values["valid_from"]
    end = values["valid_until"]
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


def check_restored(record: MemoryRecord, restored: Container[str]) -> None:
    """Check the validity of a memory that got the columns `restored` from an earlier time, before it is saved.

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

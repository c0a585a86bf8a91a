"""Ends of memories: "past" or "later", or "" for none. An edit states an end, and an extension removes it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from foundation.people.caller import Caller
from memories.operations import Extend
from memories.writing import validity
from tests.model import memories
from tests.model.expected import FORBIDDEN, NOT_FOUND, Expected, Memory, Person
from tests.model.memories import Refusals, conflict_if

DAYS = {"past": -1, "later": 30}


def valid_until(end: str) -> Any:
    """Return an end as the product takes it."""
    return timezone.now() + timedelta(days=DAYS[end]) if end else ""


def end_of(row: dict[str, Any]) -> str:
    """Return the end that a row of the product has."""
    end = row["valid_until"]
    return "" if end is None else "past" if end <= timezone.now() else "later"


def perform(caller: Caller, record_id: Any) -> None:
    validity.extend(caller, Extend.read({"record_id": record_id, "by": "no_end"}))


def may_extend(e: Expected, person: Person, m: Memory) -> Refusals:
    if not e.sees(person, m):
        return {NOT_FOUND}
    if not (e.owns(person, m) or (m.visibility != "private" and person.curates(m.persona))):
        return {FORBIDDEN}
    is_being_applied = m.insight is not None and m.insight.state == "approved" and bool(m.insight.changeset)
    is_edited = memories.has_edit_of_other(person, m)
    return conflict_if(not m.is_living, not m.ends, (is_being_applied or is_edited) and _has_to_ask(person, m))


def extend(e: Expected, person: Person, m: Memory) -> None:
    """The owner of what a curator has approved asks for it."""
    if m.is_in_force and m.insight and _has_to_ask(person, m):
        memories.let_wait(m.insight, person, {"ends": ""})
        return
    m.changed("extend", person.name, ends=m.ends)
    m.ends = ""


def _has_to_ask(person: Person, m: Memory) -> bool:
    return person.name == m.owner or not person.curates(m.persona)

"""What checks do to memories: queries that prove them, run with the rights of people who may read everything."""

from __future__ import annotations

from tests.model.expected import FORBIDDEN, NOT_FOUND, Check, Expected, Memory, Person
from tests.model.memories import Refusals, conflict_if


def may_change_check(e: Expected, person: Person, m: Memory) -> Refusals:
    """The owner and admins may. The checks of an approved insight are changed by other curators of its persona."""
    if not e.sees(person, m):
        return {NOT_FOUND}
    is_other_curator = person.curates(m.persona) and (person.is_admin or person.name != m.owner)
    is_allowed = is_other_curator if m.is_in_force else e.owns(person, m)
    return conflict_if(not m.is_living) | (set() if is_allowed else {FORBIDDEN})


def add_check(e: Expected, person: Person, m: Memory) -> None:
    m.check = Check()


def remove_check(e: Expected, person: Person, m: Memory) -> None:
    """A memory that the check has made stale stays so until somebody verifies it."""
    m.check = None


def run(e: Expected) -> None:
    """Every check of a living memory runs, long after its last run."""
    for m in e.memories.values():
        if m.check and m.is_living:
            _run(e, m, m.check)


def _run(e: Expected, m: Memory, check: Check) -> None:
    before, was_refuted = m.status, m.is_refuted
    check.failures = 0 if check.holds else min(check.failures + 1, 2)
    if was_refuted and not m.is_refuted:
        if e.available and not m.seen:
            e.compare(m)  # as every memory that becomes active again
        else:
            m.unsettled = True
    if m.status != before or m.unsettled:
        m.changed()

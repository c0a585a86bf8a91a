"""What is expected of changesets that need a second approval."""

from __future__ import annotations

from typing import Any

from tests.model.entities import Entity
from tests.model.expected import FORBIDDEN, NOT_FOUND, UNAVAILABLE, Change, Changeset, Expected, Memory, Person
from tests.model.memories import Refusals, conflict_if
from tests.model.reviews import (
    insight_of,
    insights_of,
    may_put_in_force,
    sees_changeset,
    write_open,
)


def propose(e: Expected, person: Person, m: Memory, entity: Entity, wanted: list[tuple[str, Any]]) -> Changeset:
    """Plan the values of a risky changeset. Nothing is written."""
    replaced = e.memories.get(insight_of(m).replaces)
    personas = {m.persona, *([replaced.persona] if replaced else [])}
    changes = [Change(place, value, entity.value(place), "planned") for place, value in wanted]
    e.applied += 1
    changeset = Changeset(f"c{e.applied}", entity.name, personas, changes, "waiting", person.name)
    e.changesets[changeset.name] = changeset
    insight_of(m).changeset = changeset.name
    return changeset


def _may_decide(person: Person, changeset: Changeset) -> Refusals:
    if not person.is_curator:
        return {FORBIDDEN}
    if not sees_changeset(person, changeset):
        return {NOT_FOUND}
    return conflict_if(changeset.state != "waiting")


def may_approve(e: Expected, person: Person, changeset: Changeset) -> Refusals:
    refusals = _may_decide(person, changeset)
    if refusals & {FORBIDDEN, NOT_FOUND}:
        return refusals
    if person.name == changeset.proposed_by:
        refusals |= {FORBIDDEN}
    for m in insights_of(e, changeset):
        refusals |= may_put_in_force(e, person, m)
        is_own = m.owner == person.name and not person.is_admin
        refusals |= set() if person.curates(m.persona) and not is_own else {FORBIDDEN}
    entity = e.entities[changeset.entity]
    first = {change.place: change for change in reversed(changeset.changes)}
    changed = any(entity.value(place) not in (change.before, change.value) for place, change in first.items())
    if not e.available:
        return refusals | {UNAVAILABLE}
    return refusals | conflict_if(changed or not entity.exists)


def approve(e: Expected, person: Person, changeset: Changeset) -> None:
    write_open(e, person, changeset)


def may_decline(person: Person, changeset: Changeset) -> Refusals:
    refusals = _may_decide(person, changeset)
    is_able = person.name == changeset.proposed_by or all(map(person.curates, changeset.personas))
    return refusals if is_able or refusals else {FORBIDDEN}


def decline(e: Expected, changeset: Changeset) -> None:
    for m in insights_of(e, changeset):
        insight_of(m).changeset = ""
    changeset.state = "declined"

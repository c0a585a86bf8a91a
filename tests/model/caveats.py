"""Caveats that are waived for `anchor`, which is derived from orders.amount, and the choice of what is attached."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.model.expected import ALLOWED, CONFLICT, FORBIDDEN, NOT_FOUND, Expected, Memory, Person

if TYPE_CHECKING:
    from tests.model.world import World

INVALID = "invalid"
SOURCE, COLUMN, DERIVED = "orders", "amount", "anchor"
ATTACHMENTS = ("automatic", "always", "never")


def choose_attachment(m: Memory, person: Person, attachment: str) -> None:
    if m.attachment != attachment:
        m.changed("choose_attachment", person.name, attachment=m.attachment)
        m.attachment = attachment


def may_waive(e: Expected, person: Person, m: Memory) -> set[str]:
    """The owner, admins and those who hold the persona may, of a caveat about the source."""
    if not e.sees(person, m):
        return {NOT_FOUND}
    if not e.owns(person, m) and (m.visibility == "private" or m.persona not in person.personas):
        return {FORBIDDEN}
    if not m.is_caveat:
        return {INVALID}
    if COLUMN not in m.columns.get(SOURCE, {COLUMN}):
        return {INVALID}
    if SOURCE not in m.entities:
        # It may have been detected in the text.
        return {INVALID, *([ALLOWED, CONFLICT] if m.text.entity == SOURCE else [])}
    names_other = m.text.entity == SOURCE and m.text.column != COLUMN and SOURCE not in m.columns
    # A column that the text names unmistakably is what the caveat is about.
    unsure = {INVALID, ALLOWED} if names_other else set()
    return ({CONFLICT} if m.is_waived else set()) | unsure


def may_reinstate(e: Expected, person: Person, m: Memory) -> set[str]:
    if not e.sees(person, m) or not m.is_waived:
        return {NOT_FOUND}
    decides = e.owns(person, m) or (m.visibility != "private" and person.curates(m.persona))
    return set() if decides or m.waived_by == person.name else {FORBIDDEN}


def waive(m: Memory, person: Person) -> None:
    m.waived_by, m.waived_text = person.name, m.text


def reinstate(m: Memory) -> None:
    m.waived_by, m.waived_text = "", None


def differences(e: Expected, world: World) -> list[str]:
    waived, chosen = world.waived(), world.attachments()
    found = [
        f"{m.name} is {'not ' if m.is_waived else ''}waived"
        for m in e.memories.values()
        if (world.ids[m.name] in waived) != m.is_waived
    ]
    return found + [
        f"{m.name} is attached {chosen[world.ids[m.name]]}, not {m.attachment}"
        for m in e.memories.values()
        if chosen.get(world.ids[m.name], m.attachment) != m.attachment
    ]


def attachable(e: Expected, person: Person) -> set[str]:
    """Return the memories that may be attached to calls of a person: their own, their persona's, confirmed ones."""
    return {m.name for m in e.recalled(person) if m.attachment != "never" and _is_confirmed(m, person)}


def _is_confirmed(m: Memory, person: Person) -> bool:
    if m.insight and m.insight.state in ("pending", "rejected"):
        return False
    if m.owner == person.name or (m.visibility == "persona" and m.persona == person.personas[0]):
        return True
    is_applied = m.insight is not None and m.insight.state == "applied"
    return m.visibility == "everyone" and (is_applied or m.is_verified)

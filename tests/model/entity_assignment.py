"""Assignment of entities to a memory without any: who may, and what that changes."""

from __future__ import annotations

from tests.model.expected import Expected, Memory, Person
from tests.model.memories import Refusals, conflict_if, edit, may_change


def may_assign(e: Expected, person: Person, m: Memory) -> Refusals:
    return may_change(e, person, m) | conflict_if(not m.is_living, not m.asked)


def assign(e: Expected, person: Person, m: Memory, entities: list[str]) -> None:
    """State the entities, or that there are none. It is not asked again, unless this is undone."""
    before = list(m.entities)
    edit(e, m, {"entities": entities}, person.name)
    m.asked = False
    m.changed("settle", person.name, entities=before)

"""What authors and curators may do with insights and changesets, and what that changes in the catalog.

See memories.py for the meaning of `may_x` and `x`.
"""

from __future__ import annotations

from typing import Any

from tests.model import memories
from tests.model.entities import Entity
from tests.model.expected import (
    ALLOWED,
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    UNAVAILABLE,
    Change,
    Changeset,
    Expected,
    Insight,
    Memory,
    Person,
    Text,
)
from tests.model.memories import Refusals, conflict_if

DONE = ("landed", "noop")
TO_UNDO = ("landed", "sending", "reverting")  # outcomes of changes that a rollback undoes


# -- proposing and deciding -------------------------------------------------------------------------------------


def may_capture(e: Expected, person: Person, replaces: Memory | None) -> Refusals:
    if replaces is None:
        return set()
    return conflict_if(bool(replaces.superseded_by)) if e.sees(person, replaces) else {NOT_FOUND}


def capture(
    e: Expected, person: Person, text: Text, wanted: str, entities: list[str], replaces: Memory | None
) -> Memory:
    """Propose an insight, with a private record of its own, even beside a plain memory with the same text."""
    same = memories.existing(e, person, text)
    replaced = replaces.name if replaces else ""
    insight = Insight("pending", wanted, replaced, beside=same.name if same else "")
    columns: dict[str, set[str]] = {}
    return e.add(Memory("", person.name, person.personas[0], "private", text, entities, columns, insight=insight))


def insight_of(m: Memory) -> Insight:
    assert m.insight is not None
    return m.insight


def may_review(e: Expected, person: Person, m: Memory) -> Refusals:
    """Curators of the persona decide, except on their own texts."""
    if not person.is_curator:
        return {FORBIDDEN}
    if not e.sees_insight(person, m):
        return {NOT_FOUND}
    if not person.curates(m.persona):
        return {FORBIDDEN}
    insight = insight_of(m)
    authors = {m.owner, insight.edit_by} if insight.pending_edit else {m.owner}
    refusals = {FORBIDDEN} if person.name in authors and not person.is_admin else set()
    return refusals | conflict_if(not m.is_living and insight.state != "rejected")


def may_approve(e: Expected, person: Person, m: Memory) -> Refusals:
    insight = insight_of(m)
    is_open = insight.pending_edit or (insight.state == "pending" and not insight.changeset)
    has_ended = (insight.pending_edit or {}).get("ends", m.ends) == "past"
    return may_review(e, person, m) | conflict_if(not is_open, has_ended)


def approve(e: Expected, person: Person, m: Memory) -> None:
    insight = insight_of(m)
    if insight.pending_edit:
        memories.edit(e, m, insight.pending_edit, insight.edit_by)
        insight.pending_edit, insight.edit_by = {}, ""
        insight.edit_decided = True
        return
    insight.state, insight.reviewed_by, insight.edit_decided = "approved", person.name, False
    set_visibility(m, insight.wanted)


def may_approve_as_seen(e: Expected, person: Person, m: Memory) -> Refusals:
    """Who has seen that an insight was rejected may approve it."""
    insight = insight_of(m)
    if insight.state != "rejected" or insight.pending_edit:
        return may_approve(e, person, m)
    refusals = {ALLOWED, CONFLICT} if e.has_rival(m) else set()
    return refusals | may_review(e, person, m) | conflict_if(bool(insight.changeset), m.ends == "past")


def approve_as_seen(e: Expected, person: Person, m: Memory) -> None:
    if insight_of(m).state == "rejected":
        back_to_pending(e, m)
    approve(e, person, m)


def set_visibility(m: Memory, visibility: str) -> None:
    if m.visibility != visibility:
        m.visibility = visibility
        m.changed()


def may_reject(e: Expected, person: Person, m: Memory) -> Refusals:
    insight = insight_of(m)
    is_open = insight.pending_edit or (insight.state in ("pending", "approved") and not insight.changeset)
    return may_review(e, person, m) | conflict_if(not is_open)


def reject(e: Expected, person: Person, m: Memory) -> None:
    insight = insight_of(m)
    insight.edit_decided = bool(insight.pending_edit)
    if insight.pending_edit:
        insight.pending_edit, insight.edit_by = {}, ""
        return
    insight.state, insight.reviewed_by = "rejected", person.name
    m.state, m.visibility = "archived", "private"
    m.changed()


def may_undo_review(e: Expected, person: Person, m: Memory) -> Refusals:
    if not person.is_curator:
        return {FORBIDDEN}
    if not e.sees_insight(person, m):
        return {NOT_FOUND}
    insight = insight_of(m)
    is_other = insight.reviewed_by != person.name and not person.is_admin
    refusals = {FORBIDDEN} if not person.curates(m.persona) or is_other else set()
    refusals |= {ALLOWED, CONFLICT} if insight.state == "rejected" and e.has_rival(m) else set()
    is_withdrawn = insight.state == "approved" and m.state == "archived"
    return refusals | conflict_if(
        insight.state not in ("approved", "rejected"),
        bool(insight.changeset),
        is_withdrawn,
        bool(insight.pending_edit),
    )


def may_appeal(e: Expected, person: Person, m: Memory) -> Refusals:
    if not e.sees_insight(person, m):
        return {NOT_FOUND}
    refusals = set() if e.owns(person, m) else {FORBIDDEN}
    refusals |= {ALLOWED, CONFLICT} if e.has_rival(m) else set()
    return refusals | conflict_if(insight_of(m).state != "rejected")


def back_to_pending(e: Expected, m: Memory) -> None:
    insight = insight_of(m)
    was_rejected = insight.state == "rejected"
    insight.state, insight.changeset, insight.reviewed_by = "pending", "", ""
    insight.pending_edit, insight.edit_by = {}, ""
    insight.edit_decided = False
    set_visibility(m, "private")
    if was_rejected and m.state == "archived":
        e.come_back(m)
        m.changed()


def may_edit_insight(e: Expected, person: Person, m: Memory) -> Refusals:
    if not e.sees_insight(person, m):
        return {NOT_FOUND}
    allowed = e.owns(person, m) or person.curates(m.persona)
    return (set() if allowed else {FORBIDDEN}) | conflict_if(insight_of(m).state != "pending")


# -- applying ---------------------------------------------------------------------------------------------------


def may_apply(e: Expected, person: Person, m: Memory, entity: Entity) -> Refusals:
    if not person.is_curator:
        return {FORBIDDEN}
    if not e.sees_insight(person, m):
        return {NOT_FOUND}
    insight = insight_of(m)
    refusals = conflict_if(insight.state != "approved", bool(insight.changeset))
    refusals |= set() if person.curates(m.persona) else {FORBIDDEN}
    refusals |= may_put_in_force(e, person, m)
    refusals |= set() if e.available else {UNAVAILABLE}
    return refusals | (set() if entity.exists else {NOT_FOUND})


def may_put_in_force(e: Expected, person: Person, m: Memory) -> Refusals:
    """Check the memory, and the one that it replaces. What one insight has replaced, no other one replaces."""
    insight = insight_of(m)
    refusals = conflict_if(not m.is_living, bool(insight.pending_edit), m.ends == "past")
    replaced = e.memories.get(insight.replaces)
    if replaced is None:
        return refusals
    if not e.sees(person, replaced) or not person.curates(replaced.persona):
        refusals |= {FORBIDDEN}
    if replaced.state == "superseded":
        successor = e.memories.get(replaced.superseded_by)
        by_insight = successor is not None and successor.insight is not None and successor.is_living
        refusals |= {CONFLICT} if by_insight else {CONFLICT, ALLOWED}
    return refusals | ({CONFLICT, ALLOWED} if replaced.state == "archived" else set())


def apply(
    e: Expected, person: Person, m: Memory, entity: Entity, wanted: list[tuple[str, Any]], writes_left: int | None
) -> Changeset:
    """Write the values. The catalog becomes unavailable at the write after `writes_left` ones."""
    replaced = e.memories.get(insight_of(m).replaces)
    personas = {m.persona, *([replaced.persona] if replaced else [])}
    changes = [Change(place, value, entity.value(place), "planned") for place, value in wanted]
    e.applied += 1
    changeset = Changeset(f"c{e.applied}", entity.name, personas, changes)
    e.changesets[changeset.name] = changeset
    insight_of(m).changeset = changeset.name
    write_open(e, person, changeset, writes_left)
    return changeset


def insights_of(e: Expected, changeset: Changeset) -> list[Memory]:
    return [m for m in e.memories.values() if m.insight and m.insight.changeset == changeset.name]


def write_open(e: Expected, person: Person, changeset: Changeset, writes_left: int | None = None) -> None:
    entity, bound = e.entities[changeset.entity], insights_of(e, changeset)
    for change in [change for change in changeset.changes if change.outcome in ("planned", "sending")]:
        before = entity.snapshot()
        current = entity.value(change.place)
        if current == change.value:
            change.outcome = "landed" if change.outcome == "sending" else "noop"
        elif current != change.before:
            change.outcome = "conflict"
            break
        elif writes_left == 0:
            change.outcome, e.available = "sending", False
            break
        else:
            change.outcome, writes_left = "landed", writes_left - 1 if writes_left else writes_left
        entity.set_by(changeset.name, change.place, change.value)
        for m in bound:
            e.our_own(m, entity.name, before, entity.snapshot())
    _finish(e, person, changeset, bound)
    e.compare_after_write({entity.name})


def _finish(e: Expected, person: Person, changeset: Changeset, bound: list[Memory]) -> None:
    outcomes = {change.outcome for change in changeset.changes}
    if outcomes <= set(DONE):
        changeset.state = "applied"
        for m in bound:
            _put_in_force(e, person, m)
    elif outcomes & {"landed", "sending"}:
        changeset.state = "partial"
    else:
        changeset.state = "failed"
        for m in bound:
            insight_of(m).changeset = ""


def _put_in_force(e: Expected, person: Person, m: Memory) -> None:
    insight = insight_of(m)
    insight.state = "applied"
    set_visibility(m, "everyone")
    replaced = e.memories.get(insight.replaces) or _with_same_text(e, m)
    if replaced and replaced.is_living:
        m.supersedes = replaced.name
        memories.supersede(replaced, m, person)
        m.changed()
    elif replaced:
        m.link_unsure = True


def _with_same_text(e: Expected, m: Memory) -> Memory | None:
    """Return the owner's living memory that has the text now, or had it when the insight was captured."""
    captured_beside = e.memories.get(insight_of(m).beside)
    if captured_beside and not captured_beside.is_living:
        captured_beside = None
    return e.plain_memory(m.text, m.owner, m.persona) or captured_beside


def sees_changeset(person: Person, changeset: Changeset) -> bool:
    return person.is_admin or bool(changeset.personas & set(person.personas))


def may_resume(e: Expected, person: Person, changeset: Changeset) -> Refusals:
    if not person.is_curator:
        return {FORBIDDEN}
    if not sees_changeset(person, changeset):
        return {NOT_FOUND}
    refusals = conflict_if(changeset.state != "partial")
    for m in insights_of(e, changeset):
        refusals |= may_put_in_force(e, person, m)
        refusals |= set() if person.curates(m.persona) else {FORBIDDEN, ALLOWED}
    return refusals if e.available else refusals | {UNAVAILABLE, ALLOWED}


def resume(e: Expected, person: Person, changeset: Changeset) -> None:
    if e.available:
        write_open(e, person, changeset)


# -- rolling back -----------------------------------------------------------------------------------------------


def may_roll_back(e: Expected, person: Person, changeset: Changeset, skip_conflicts: bool) -> Refusals:
    if not person.is_curator:
        return {FORBIDDEN}
    if not sees_changeset(person, changeset):
        return {NOT_FOUND}
    refusals = conflict_if(changeset.state not in ("applied", "partial"))
    if not e.available:
        to_undo = [change for change in changeset.changes if change.outcome in TO_UNDO]
        refusals |= {UNAVAILABLE} if to_undo else {UNAVAILABLE, ALLOWED}
    if not skip_conflicts:
        for change in changeset.changes:
            refusals |= _if_changed_since(e.entities[changeset.entity], changeset, change)
    return refusals


def _if_changed_since(entity: Entity, changeset: Changeset, change: Change) -> Refusals:
    """A value that others have changed is never overwritten."""
    current = entity.value(change.place)
    if change.outcome in ("planned", "conflict", "reverted") or current == change.value:
        return set()
    if change.outcome in ("sending", "reverting") and current == change.before:
        return set()
    top = entity.layers[change.place][-1] if change.place in entity.layers else None
    is_ours = top is not None and bool(top.changeset)
    return {CONFLICT} if change.outcome == "landed" and not is_ours else {CONFLICT, ALLOWED}


def breaks_off(e: Expected, changeset: Changeset, writes_left: int | None) -> bool:
    """Return whether a rollback needs more writes than the catalog takes before it becomes unavailable."""
    entity = e.entities[changeset.entity]
    needed = sum(_needs_write(entity, changeset, change) for change in changeset.changes)
    return writes_left is not None and writes_left < needed


def _needs_write(entity: Entity, changeset: Changeset, change: Change) -> bool:
    layers = entity.layers.get(change.place, [])
    is_on_top = bool(layers) and layers[-1].changeset == changeset.name
    if change.outcome not in TO_UNDO or not is_on_top:
        return False
    below = layers[-2].value if len(layers) > 1 else None
    return bool(below != layers[-1].value)


def roll_back_partly(e: Expected, changeset: Changeset, writes_left: int) -> None:
    """The values from the last one on are as before, until the catalog becomes unavailable. No insight is returned."""
    entity = e.entities[changeset.entity]
    for change in reversed(changeset.changes):
        if not _needs_write(entity, changeset, change):
            continue
        if writes_left == 0:
            change.outcome, e.available = "reverting", False
            return
        writes_left -= 1
        entity.layers[change.place].pop()
        change.outcome = "reverted"


def roll_back(e: Expected, person: Person, changeset: Changeset) -> None:
    """Take back the values on which no other changeset relies, and return the insights to review."""
    entity, bound = e.entities[changeset.entity], insights_of(e, changeset)
    before = entity.snapshot()
    for layers in entity.layers.values():
        layers[:] = [layer for layer in layers if layer.changeset != changeset.name]
    changeset.state = "rolled_back"
    for m in bound:
        if e.available:
            e.our_own(m, entity.name, before, entity.snapshot())
    for m in bound:
        _leave_chain(e, person, m)
        if insight_of(m).pending_edit:  # it becomes part of the proposal
            memories.edit(e, m, insight_of(m).pending_edit, insight_of(m).edit_by)
        back_to_pending(e, m)
        m.insight.rollbacks += 1  # type: ignore[union-attr]  # bound memories are insights
    e.compare_after_write({entity.name})


def _leave_chain(e: Expected, person: Person, m: Memory) -> None:
    """What the insight had superseded is current again, unless a later correction stands: then that replaces it."""
    replaced = e.memories.get(m.supersedes)
    later = next((other for other in e.corrections(m) if other.state != "archived"), None)
    for other in e.corrections(m):
        other.link_unsure = other is not later
    if later:
        later.supersedes = replaced.name if replaced else ""
    if replaced and replaced.superseded_by == m.name:
        replaced.changed()
        if later:
            replaced.superseded_by = later.name
        elif replaced.state == "superseded":
            if e.duplicate(replaced):  # its text was remembered again
                replaced.state, replaced.superseded_by = "archived", ""
            else:
                e.come_back(replaced)
    m.link_unsure = m.link_unsure or (m.state == "archived" and bool(m.supersedes))
    m.supersedes = ""
    if m.state == "superseded":
        e.come_back(m)
    m.changed()

"""What people may do to memories, and what that changes.

`may_x` returns the kinds of refusals that are right now, an empty set if `x` must be allowed. If ALLOWED is among them,
the rules leave it open. The function `x` changes what is expected. It is called if the product has done `x`.
"""

from __future__ import annotations

from typing import Any

from tests.model.expected import (
    ALLOWED,
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    Expected,
    Insight,
    Last,
    Mark,
    Memory,
    Person,
    Text,
    Verified,
    copied,
)

Refusals = set[str]
UNDOABLE = (
    "forget", "restore", "verify", "share", "reassign", "extend", "rescope", "settle", "choose_attachment", "supersede",
)  # fmt: skip


def may_change(e: Expected, person: Person, m: Memory, *, deciding: bool = False) -> Refusals:
    if not e.sees(person, m):
        return {NOT_FOUND}
    return set() if (e.decides(person, m) if deciding else e.owns(person, m)) else {FORBIDDEN}


def conflict_if(*conditions: bool) -> Refusals:
    return {CONFLICT} if any(conditions) else set()


def is_pending(m: Memory) -> bool:
    return m.insight is not None and m.insight.state == "pending"


# -- writing and editing ----------------------------------------------------------------------------------------


def existing(e: Expected, person: Person, text: Text) -> Memory | None:
    """Return the person's plain memory that has the text already."""
    return e.plain_memory(text, person.name, person.personas[0])


def remember(
    e: Expected, person: Person, text: Text, visibility: str, entities: list[str], columns: dict[str, set[str]]
) -> Memory:
    new = Memory("", person.name, person.personas[0], visibility, text, list(entities), dict(columns))
    new.asked = not entities and not e.is_told(text)
    return existing(e, person, text) or e.add(new)


def may_revise(e: Expected, person: Person, m: Memory, changes: dict[str, Any]) -> Refusals:
    is_being_applied = m.is_in_force and m.insight is not None and m.insight.state == "approved" and m.insight.changeset
    is_duplicate = "text" in changes and m.insight is None and e.is_remembered(person, m, changes["text"])
    if waits_already(m, changes):
        return may_change(e, person, m) | conflict_if(not m.is_living)
    return may_change(e, person, m) | conflict_if(
        not m.is_living, bool(is_being_applied), is_duplicate, has_edit_of_other(person, m)
    )


def waits_already(m: Memory, changes: dict[str, Any]) -> bool:
    """Return whether somebody has asked for these values of an approved memory, so that nothing more is needed."""
    waiting = m.insight.pending_edit if m.is_in_force and m.insight else {}
    if not waiting or "ends" in changes:  # two ends in the past are two moments
        return False
    return all(name in waiting and waiting[name] == value for name, value in changes.items())


def has_edit_of_other(person: Person, m: Memory) -> bool:
    """Return whether another person's edit of an approved memory waits for a curator, who decides on it first."""
    insight = m.insight
    return m.is_in_force and insight is not None and bool(insight.pending_edit) and insight.edit_by != person.name


def let_wait(insight: Insight, person: Person, changes: dict[str, Any]) -> None:
    """Add changes to the person's edit that waits for a curator."""
    insight.pending_edit = {**insight.pending_edit, **changes}
    insight.edit_by = person.name


def revise(e: Expected, person: Person, m: Memory, changes: dict[str, Any]) -> None:
    if waits_already(m, changes):
        return
    if m.is_in_force and m.insight:
        let_wait(m.insight, person, changes)
        return
    edit(e, m, changes, person.name)


def edit(e: Expected, m: Memory, changes: dict[str, Any], by: str) -> None:
    """Edit a living memory. An edited text settles all doubts. Another edit leaves the status to the comparison."""
    if changes == {"ends": m.ends}:  # somebody has done the same meanwhile
        if m.last:
            m.last.sure = False
        return
    m.ends = changes.get("ends", m.ends)
    status, before = m.status, m.subjects
    listed = {name: set(columns) for name, columns in m.columns.items()}
    m.text = changes.get("text", m.text)
    m.scope = changes.get("scope", m.scope)
    if "text" in changes:
        m.edited_by = "" if by == m.owner else by
    m.entities = changes.get("entities", m.entities)
    m.asked = m.asked and not m.entities and not ({"text", "entities"} & changes.keys() and e.is_told(m.text))
    m.columns = changes.get("columns", m.columns)
    for name in set(before) - set(m.subjects):
        m.baselines.pop(name, None)
        m.seen.discard(name)
    if "text" in changes:
        e.freshly_stated(m)
    else:
        relisted = {name for name in m.subjects if listed.get(name, set()) != m.columns.get(name, set())}
        e.take_baselines(m, [name for name in m.subjects if name not in before or name in relisted])
        m.unsettled = m.unsettled or m.status != status or e.is_due(m) != (status == "stale")
    m.changed()


def may_correct(e: Expected, person: Person, m: Memory, text: Text) -> Refusals:
    is_proposal = m.is_in_force and m.insight is not None
    is_duplicate = not is_proposal and e.is_remembered(person, m, text)
    return may_change(e, person, m, deciding=True) | conflict_if(
        e.nearest_correction(m) is not None, m.state == "archived", is_duplicate
    )


def correct(e: Expected, person: Person, m: Memory, text: Text) -> Memory:
    """Store a correction. The correction of an approved insight is a proposal, and the insight stays in force."""
    columns = {name: set(listed) for name, listed in m.columns.items()}
    new = Memory("", m.owner, m.persona, m.visibility, text, list(m.entities), columns)
    new.scope, new.is_caveat = m.scope, m.is_caveat
    new.edited_by = "" if person.name == m.owner else person.name
    new.asked = m.asked and not e.is_told(text)
    new.ends = "" if m.ends == "past" else m.ends
    if m.is_in_force and m.insight:
        new.visibility, new.insight = "private", Insight("pending", m.insight.wanted, replaces=m.name)
        return e.add(new)
    e.add(new)
    if is_pending(m) and m.insight:
        m.insight.state = "superseded"
    new.supersedes = m.name
    supersede(m, new, person)
    return new


def supersede(old: Memory, new: Memory, person: Person) -> None:
    before = {"state": old.state, "superseded_by": old.superseded_by}
    old.state, old.superseded_by = "superseded", new.name
    old.changed("supersede", person.name, **before)


# -- forgetting and restoring -----------------------------------------------------------------------------------


def may_forget(e: Expected, person: Person, m: Memory) -> Refusals:
    return may_change(e, person, m, deciding=True)


def forget(e: Expected, person: Person, m: Memory) -> None:
    if m.state == "archived":
        return
    before = m.state
    m.state = "archived"
    m.changed("forget", person.name, state=before)


def may_restore(e: Expected, person: Person, m: Memory) -> Refusals:
    refusals = may_change(e, person, m) | conflict_if(m.insight is not None and m.insight.state == "rejected")
    correction = e.nearest_correction(m)
    if correction:
        return refusals | conflict_if(m.state == "superseded")
    predecessor = e.memories.get(m.supersedes)
    other = e.nearest_correction(predecessor) if predecessor else None
    refusals |= conflict_if(e.duplicate(m) is not None, m.state == "archived" and other not in (None, m))
    return refusals | _if_a_relative_lives(e, m)


def _if_a_relative_lives(e: Expected, m: Memory) -> Refusals:
    """A chain never has two current ends. Either the memory does not return, or it takes the other one's place."""
    relatives = [other for other in e.chain(m) if other.is_living and other.name != m.supersedes]
    return {ALLOWED, CONFLICT} if relatives or e.has_rival(m) else set()


def restore(e: Expected, person: Person, m: Memory) -> None:
    predecessor = e.memories.get(m.supersedes)
    is_replacing = predecessor is not None and predecessor.is_living
    before: dict[str, Any] = {"state": m.state, "superseded_by": m.superseded_by, "replacing": is_replacing}
    correction = e.nearest_correction(m)
    if correction:
        m.state, m.superseded_by = "superseded", correction.name
        m.changed("restore", person.name, **before)
        return
    take_place(e, person, m)
    is_sure = e.come_back(m)
    m.last = Last("restore", person.name, before, is_sure)


def take_place(e: Expected, person: Person, m: Memory) -> None:
    """Supersede the other living members of the chain, and what the memory corrects."""
    for other in e.chain(m):
        if other.is_living:
            supersede(other, m, person)
    predecessor = e.memories.get(m.supersedes)
    if predecessor and predecessor.state == "superseded":
        predecessor.superseded_by = m.name


# -- undoing ----------------------------------------------------------------------------------------------------


def may_undo(e: Expected, person: Person, m: Memory, change: str) -> Refusals:
    if not e.sees(person, m):
        return {NOT_FOUND}
    if m.last is None or m.last.change != change or change not in UNDOABLE:
        return {CONFLICT}
    refusals = set() if person.is_admin or m.last.by == person.name else {FORBIDDEN}
    if change in ("share", "reassign") and not person.is_admin:
        refusals |= conflict_if(is_pending(m))
    if change == "reassign" and m.is_living:
        refusals |= conflict_if(e.duplicate(m, m.last.before["persona"]) is not None)
    if change == "forget" and m.last.before["state"] == "living":
        others = [other for other in e.memories.values() if other.supersedes == m.supersedes and other is not m]
        has_other = bool(m.supersedes) and any(other.state != "archived" for other in others)
        refusals |= conflict_if(e.duplicate(m) is not None, has_other)
        is_open = any(other.is_living for other in e.chain(m)) or e.has_rival(m)
        refusals |= {ALLOWED, CONFLICT} if is_open else set()
    if change == "supersede":
        refusals |= _may_undo_correction(e, m)
    return refusals if m.last.sure else refusals | {ALLOWED, CONFLICT}


def _may_undo_correction(e: Expected, m: Memory) -> Refusals:
    correction = e.memories.get(m.superseded_by)
    if correction is None or not correction.is_living:
        return {CONFLICT}
    refusals = conflict_if(e.duplicate(m) is not None)
    others = [other for other in e.chain(m) if other.is_living and other is not correction]
    is_as_stored = correction.last is None and correction.status == "active" and not correction.unsettled
    is_open = not is_as_stored or bool(others) or e.has_rival(m)
    return refusals | ({ALLOWED, CONFLICT} if is_open else set())


def undo(e: Expected, person: Person, m: Memory) -> None:
    last = m.last
    assert last is not None
    m.changed()
    if last.change == "forget":
        if last.before["state"] == "living":
            take_place(e, person, m)
            e.come_back(m)
        else:
            m.state = last.before["state"]
    elif last.change == "restore":
        m.state, m.superseded_by = last.before["state"], last.before["superseded_by"]
        predecessor = e.memories.get(m.supersedes)
        is_same = predecessor and predecessor.last and predecessor.last.change == "supersede"
        if predecessor and is_same and predecessor.superseded_by == m.name and last.before["replacing"]:
            e.come_back(predecessor)
            predecessor.changed()
    elif last.change == "supersede":
        forget(e, person, e.memories[m.superseded_by])
        if last.before["state"] == "living":
            e.come_back(m)
            if m.insight and m.insight.state == "superseded":
                m.insight.state = "pending"
        else:  # its correction before that one was archived
            m.state, m.superseded_by = last.before["state"], last.before["superseded_by"]
    elif last.change == "verify":
        m.verified.pop()
        _undo_verification(e, m, last)
    elif last.change == "settle":
        edit(e, m, last.before, person.name)
        m.asked = not e.is_told(m.text)
    else:
        m.visibility = last.before.get("visibility", m.visibility)
        m.persona = last.before.get("persona", m.persona)
        m.ends = last.before.get("ends", m.ends)
        m.scope = last.before.get("scope", m.scope)
        m.attachment = last.before.get("attachment", m.attachment)
    m.changed()


def _undo_verification(e: Expected, m: Memory, last: Last) -> None:
    """The earlier baselines and marks are in force again, the baselines at the latest from the next check on."""
    earlier: dict[str, Mark] = last.before["marks"]
    kept = {name: mark if mark.in_force else earlier.get(name, mark) for name, mark in m.marks.items()}
    check = last.before["check"]
    if check and m.check:  # one that was added or removed since stays so
        m.check.failures = check.failures
    for name, value in {**last.before, "marks": kept, "check": m.check}.items():
        setattr(m, name, value)
    if e.available:
        for baseline in m.baselines.values():
            if baseline.pending:  # it was to be taken before this moment
                baseline.pending, baseline.snapshot = False, None
        e.take_first_baselines(m, unsure=True)
    is_unknown = any(e.differs(m, name) is None for name in m.baselines)
    m.unsettled = m.unsettled or is_unknown or e.is_due(m) != (m.status == "stale")


# -- confirming, doubting, sharing, moving ----------------------------------------------------------------------


def may_verify(e: Expected, person: Person, m: Memory) -> Refusals:
    refusals = may_change(e, person, m, deciding=True)
    if refusals == {FORBIDDEN} and m.visibility != "private":
        is_doubted = any(mark.in_force and mark.counts for mark in m.marks.values())
        if person.curates(m.persona) or (m.status == "active" and not is_doubted):
            refusals = set()
    return refusals | conflict_if(not m.is_living, m.ends == "past")


def verify(e: Expected, person: Person, m: Memory) -> None:
    before = copied(m)
    e.freshly_stated(m)
    m.verified.append(Verified(person.name, m.version, person.name in (m.owner, m.edited_by)))
    m.changed("verify", person.name, **before)


def may_mark(e: Expected, person: Person, m: Memory) -> Refusals:
    return conflict_if(not m.is_living) if e.sees(person, m) else {NOT_FOUND}


def mark_wrong(e: Expected, person: Person, m: Memory) -> None:
    """A mark of the owner, a curator or an admin counts, and that of a second reader who holds the persona."""
    before = m.status
    m.marks.pop(person.name, None)
    counts = e.owns(person, m) or person.is_curator or m.persona in person.personas
    others = [other for other in m.marks.values() if other.counts] if counts else []
    mark = Mark(e.owns(person, m) or person.curates(m.persona), counts, was_second=bool(others))
    for other in others:
        other.was_second = True
    m.marks[person.name] = mark
    _after_mark(m, before)
    if mark.counts_alone or any(other.in_force for other in others):
        m.changed()  # also of a stale memory, whose reason this mark becomes


def withdraw(e: Expected, person: Person, m: Memory) -> None:
    before = m.status
    mark = m.marks.pop(person.name, None)
    m.unsettled = m.unsettled or bool(mark and mark.in_force and m.seen)
    _after_mark(m, before)
    if mark and mark.counts and m.last:
        m.last.sure = False  # it may have been the reason, which then changes
    if mark and before == "stale" and m.marked_wrong is False and e.available:
        e.compare(m)  # as every memory that becomes active again


def _after_mark(m: Memory, before: str) -> None:
    m.unsettled = m.unsettled or (m.marked_wrong is None and not m.seen)
    m.shown = "" if m.marked_wrong else m.shown
    if m.status != before:
        m.changed()
    elif m.unsettled and m.last:
        m.last.sure = False


def may_share(e: Expected, person: Person, m: Memory) -> Refusals:
    return may_change(e, person, m) | conflict_if(is_pending(m))


def share(e: Expected, person: Person, m: Memory, visibility: str) -> None:
    if m.visibility != visibility:
        m.changed("share", person.name, visibility=m.visibility)
        m.visibility = visibility


def may_move(e: Expected, person: Person, m: Memory, persona: str) -> Refusals:
    refusals = may_change(e, person, m)
    if not refusals and not person.is_admin and persona not in person.personas:
        return {NOT_FOUND}
    refusals |= conflict_if(is_pending(m) and not person.is_admin)
    return refusals | conflict_if(m.is_living and e.duplicate(m, persona) is not None)


def move(e: Expected, person: Person, m: Memory, persona: str) -> None:
    if m.persona != persona:
        m.changed("reassign", person.name, persona=m.persona)
        m.persona = persona


def may_hand_over(person: Person) -> Refusals:
    return set() if person.is_admin else {FORBIDDEN}


def hand_over(e: Expected, old: Person, new: Person) -> list[str]:
    """Everything moves. Return the names of the memories."""
    moved = [m for m in e.memories.values() if m.owner == old.name]
    _move_to(new, moved)
    return [m.name for m in moved]


def take_back(e: Expected, names: list[str], old: Person, new: Person) -> None:
    """What still belongs to the heir goes back. A text that its first owner has remembered again is archived."""
    moved = [m for name in names if (m := e.memories.get(name)) and m.owner == new.name]
    again = {(m.text, m.persona) for m in e.memories.values() if m.owner == old.name and m.is_living and not m.insight}
    _move_to(old, moved)
    for m in moved:
        if m.is_living and not m.insight and (m.text, m.persona) in again:
            m.state = "archived"
            m.changed()


def _move_to(person: Person, moved: list[Memory]) -> None:
    for m in moved:
        m.owner = person.name
        if m.last:
            m.last.sure = False


# -- erasing ----------------------------------------------------------------------------------------------------


def may_erase(e: Expected, person: Person, m: Memory) -> Refusals:
    in_catalog = [other for other in (m, *copies(e, m)) if other.insight and other.insight.changeset]
    return may_change(e, person, m) | conflict_if(bool(in_catalog))


def copies(e: Expected, m: Memory) -> list[Memory]:
    """Return the insights that were captured beside a memory. They are erased with it."""
    return [other for other in e.memories.values() if other.insight and other.insight.beside == m.name]


def erase(e: Expected, person: Person, m: Memory) -> None:
    erased = [m, *copies(e, m)]
    for each in erased:
        _erase_one(e, each)


def _erase_one(e: Expected, m: Memory) -> None:
    """The predecessor and the correction are linked. Without a correction, the predecessor is archived."""
    correction = next((other for other in e.corrections(m) if other.state != "archived"), None)
    for other in e.corrections(m):
        other.supersedes = ""
        other.changed()  # its history says that it no longer corrects anything
    for other in e.memories.values():
        if other.insight and other.insight.replaces == m.name:
            other.insight.replaces = ""
    predecessor = e.memories.get(m.supersedes)
    del e.memories[m.name]
    if predecessor and predecessor.superseded_by == m.name:
        if correction:
            correction.supersedes, predecessor.superseded_by = predecessor.name, correction.name
        else:
            predecessor.state, predecessor.superseded_by = "archived", ""
        predecessor.changed()


def may_withdraw(e: Expected, person: Person, m: Memory) -> Refusals:
    return set() if e.sees(person, m) else {NOT_FOUND}

"""What a memory was: states in force at a time, the list of changes, the correction chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from memories.access import Caller
from memories.models import MemoryRecord, MemoryRevision, Visibility

CHAIN_MAX = 100


@dataclass(frozen=True)
class State:
    """`details` are the other columns, as far as they were different then."""

    content: str
    status: str
    visibility: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """One entry of a memory's history, newest first: what ended the state before it."""

    at: datetime
    change: str
    by: str
    reason: str
    record_id: UUID
    before: State | None
    after: State


def states_at(caller: Caller, records: Sequence[MemoryRecord], moment: datetime) -> dict[UUID, State]:
    """The state of each record at that time; records that did not exist, or were private to another, are left out."""
    in_force: dict[UUID, MemoryRevision] = {}
    details: dict[UUID, dict[str, Any]] = {}
    ids = [record.pk for record in records]
    for revision in MemoryRevision.objects.filter(record_id__in=ids, valid_to__gt=moment).order_by("-valid_to", "-id"):
        in_force[revision.record_id] = revision  # the earliest of those that ended later
        details[revision.record_id] = details.get(revision.record_id, {}) | revision.details
    states = {}
    for record in records:
        if record.created_at > moment:
            continue
        then = in_force.get(record.pk)
        state = state_of(record)
        if then:
            state = State(then.content, then.status, then.visibility, details[record.pk])
        if could_read(caller, record, state.visibility):
            states[record.pk] = state
    return states


def could_read(caller: Caller, record: MemoryRecord, visibility: str) -> bool:
    """Whether a state of that visibility is the caller's to see: the rule of readable_by, for an earlier state."""
    if caller.acts_for(record.created_by) or visibility == Visibility.EVERYONE:
        return True
    return visibility == Visibility.PERSONA and record.persona in caller.personas


def state_of(record: MemoryRecord) -> State:
    return State(record.content, record.status, record.visibility)


def chain(caller: Caller, record: MemoryRecord) -> list[MemoryRecord]:
    """The correction chain that the record is part of, oldest first, as far as the caller may see it."""
    visible = MemoryRecord.objects.visible_to(caller).defer("embedding", "search")
    line = [record]
    while len(line) < CHAIN_MAX and line[0].supersedes_id:
        before = visible.filter(pk=line[0].supersedes_id).first()
        if before is None:
            break
        line.insert(0, before)
    while len(line) < CHAIN_MAX and line[-1].superseded_by:
        after = visible.filter(pk=line[-1].superseded_by).first()
        if after is None:
            break
        line.append(after)
    return line


def history(caller: Caller, record: MemoryRecord) -> list[Change]:
    """Revisions and corrections of the whole chain in one list, newest first."""
    changes: list[Change] = []
    line = chain(caller, record)
    shown = {link.pk for link in line}
    for link in line:
        revisions = list(MemoryRevision.objects.visible_to(caller).filter(record=link).order_by("-valid_to", "-id"))
        after = state_of(link)
        for revision in revisions:
            before = State(revision.content, revision.status, revision.visibility)
            # Why it was corrected belongs to the correction, and is hidden with it.
            is_hidden = revision.change == "supersede" and link.superseded_by not in shown
            is_hidden = is_hidden and not caller.acts_for(link.created_by)
            reason = "" if is_hidden else revision.reason
            changes.append(
                Change(
                    revision.valid_to,
                    revision.change,
                    revision.changed_by,
                    reason,
                    link.pk,
                    before,
                    after,
                )
            )
            after = before
        changes.append(Change(link.created_at, "remember", link.created_by, "", link.pk, None, after))
    return sorted(changes, key=lambda change: change.at, reverse=True)

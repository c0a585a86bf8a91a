"""The history of a memory: its state at a given time, its changes, and its correction chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.expressions import RawSQL

from foundation.database import identity
from foundation.people.caller import Caller
from memories.models import MemoryRecord, MemoryRevision, Visibility

MAX_CHAIN = 100


@dataclass(frozen=True)
class MemoryState:
    content: str
    status: str
    visibility: str
    details: dict[str, Any] = field(default_factory=dict)  # values of other columns that have changed since then


@dataclass(frozen=True)
class HistoryEntry:
    """A change of a memory, with the states before and after it."""

    at: datetime
    change: str
    by: str
    reason: str
    record_id: UUID
    before: MemoryState | None
    after: MemoryState
    revision: int = 0  # id of the revision that keeps the state before; 0 for the first state


@identity.service("history")
def states_at(caller: Caller, records: Sequence[MemoryRecord], moment: datetime) -> dict[UUID, MemoryState]:
    """Return each record's state at `moment`.

    Records that did not exist then, or that the caller could not read, are left out.
    """
    in_force: dict[UUID, MemoryRevision] = {}
    details: dict[UUID, dict[str, Any]] = {}
    ids = [record.pk for record in records]
    for revision in MemoryRevision.objects.filter(record_id__in=ids, valid_to__gt=moment).order_by("-valid_to", "-id"):
        in_force[revision.record_id] = revision  # the last one assigned is the first revision that ended after `moment`
        details[revision.record_id] = details.get(revision.record_id, {}) | revision.details
    states = {}
    for record in records:
        if record.created_at > moment:
            continue
        state = state_of(record)
        if earlier := in_force.get(record.pk):
            state = MemoryState(earlier.content, earlier.status, earlier.visibility, details[record.pk])
        if could_read(caller, record, state.visibility):
            states[record.pk] = state
    return states


def could_read(caller: Caller, record: MemoryRecord, visibility: str) -> bool:
    """Return whether the caller may read the record in a state with this visibility, by the rule of readable_by."""
    if caller.can_edit_for(record.created_by) or visibility == Visibility.EVERYONE:
        return True
    return visibility == Visibility.PERSONA and record.persona in caller.personas


def state_of(record: MemoryRecord) -> MemoryState:
    return MemoryState(record.content, record.status, record.visibility)


# Follows the chain in both directions. Rows that the caller may not see are filtered out afterwards.
CHAIN_SQL = """
    WITH RECURSIVE before(id, supersedes_id, steps) AS (
        SELECT id, supersedes_id, 0 FROM memory_records WHERE id = %s
        UNION ALL
        SELECT r.id, r.supersedes_id, b.steps + 1 FROM before b JOIN memory_records r ON r.id = b.supersedes_id
        WHERE b.steps < %s
    ), after(id, superseded_by, steps) AS (
        SELECT id, superseded_by, 0 FROM memory_records WHERE id = %s
        UNION ALL
        SELECT r.id, r.superseded_by, a.steps + 1 FROM after a JOIN memory_records r ON r.id = a.superseded_by
        WHERE a.steps < %s
    )
    SELECT id FROM before UNION SELECT id FROM after
"""


def chain(caller: Caller, record: MemoryRecord) -> list[MemoryRecord]:
    """Return the record's correction chain, oldest first.

    In each direction, the returned part ends before the first memory that the caller may not see.
    """
    if not record.supersedes_id and not record.superseded_by:
        return [record]
    ids = RawSQL(CHAIN_SQL, [record.pk, MAX_CHAIN, record.pk, MAX_CHAIN])
    visible = MemoryRecord.objects.visible_to(caller).filter(pk__in=ids).defer("search")
    by_id: dict[UUID | None, MemoryRecord] = {link.pk: link for link in visible}
    line = [record]
    while len(line) < MAX_CHAIN and (before := by_id.get(line[0].supersedes_id)):
        line.insert(0, before)
    while len(line) < MAX_CHAIN and (after := by_id.get(line[-1].superseded_by)):
        line.append(after)
    return line


def history(caller: Caller, record: MemoryRecord, line: Sequence[MemoryRecord] | None = None) -> list[HistoryEntry]:
    """Return the changes of all memories in a record's correction chain that the caller may see, newest first.

    `line` is the chain, if the caller of this function has already loaded it.
    """
    changes: list[HistoryEntry] = []
    line = chain(caller, record) if line is None else line
    visible_ids = {link.pk for link in line}
    rows = MemoryRevision.objects.visible_to(caller).filter(record__in=line).order_by("-valid_to", "-id")
    revisions: dict[UUID, list[MemoryRevision]] = {}
    for revision in rows:
        revisions.setdefault(revision.record_id, []).append(revision)
    for link in line:
        after = state_of(link)
        for revision in revisions.get(link.pk, []):
            before = MemoryState(revision.content, revision.status, revision.visibility)
            # The reason for a correction is hidden if the reader can't see the correction, unless the reader is an
            # admin or owns the corrected memory. The reason for any change is hidden if the reader could not read the
            # state after the change.
            is_hidden = revision.change == "supersede" and link.superseded_by not in visible_ids
            is_hidden = is_hidden and not caller.can_edit_for(link.created_by)
            is_hidden = is_hidden or not could_read(caller, link, after.visibility)
            reason = "" if is_hidden else revision.reason
            changes.append(
                HistoryEntry(
                    revision.valid_to,
                    revision.change,
                    revision.changed_by,
                    reason,
                    link.pk,
                    before,
                    after,
                    revision.pk,
                )
            )
            after = before
        changes.append(HistoryEntry(link.created_at, "remember", link.created_by, "", link.pk, None, after))
    return sorted(changes, key=lambda change: change.at, reverse=True)

"""The history that a memory's page shows: the changes of every version, with a correction as a single entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from memories.history import HistoryEntry, MemoryState
from memories.models import MemoryRecord


@dataclass(frozen=True)
class ShownChange:
    """A change, with the text and the readers before it. Both are empty if there is nothing to compare with."""

    at: datetime
    change: str
    by: str
    reason: str
    content: str
    content_before: str = ""
    readers: str = ""
    readers_before: str = ""
    version: MemoryRecord | None = None  # the version that the change began, if it began one

    @property
    def is_new_text(self) -> bool:
        return bool(self.content_before) and self.content_before != self.content


def shown_changes(changes: Sequence[HistoryEntry], versions: Sequence[MemoryRecord]) -> list[ShownChange]:
    """Return the changes of all versions, in the order given.

    A correction is stored twice, as the end of the earlier version and as the start of the later one, at the same
    moment. It is shown once, with both texts. An insight becomes a correction later, when it is applied: its start and
    the correction are two entries then.
    """
    earlier = dict(zip([version.pk for version in versions[1:]], versions, strict=False))
    later = dict(zip([version.pk for version in versions], versions[1:], strict=False))
    corrections = _corrections_in_force(changes)
    merged = {
        version.pk
        for version in versions
        if (before := earlier.get(version.pk))
        and (correction := corrections.get(before.pk))
        and correction.at == version.created_at
    }
    by_id = {version.pk: version for version in versions}
    shown = []
    for change in changes:
        version = by_id[change.record_id]
        successor = later.get(version.pk)
        if successor and change is corrections.get(version.pk):
            shown.append(_correction(change, successor, _text_at(change.at, successor, changes)))
        elif change.before:
            shown.append(_edit(change, change.before))
        elif version.pk not in merged:
            shown.append(
                ShownChange(change.at, change.change, change.by, change.reason, change.after.content, version=version)
            )
    return shown


def _corrections_in_force(changes: Sequence[HistoryEntry]) -> dict[UUID, HistoryEntry]:
    """Return the latest correction of each version. An earlier one was taken back by restoring the version."""
    oldest_first = [change for change in reversed(changes) if change.change == "supersede"]
    return {change.record_id: change for change in oldest_first}


def _text_at(moment: datetime, version: MemoryRecord, changes: Sequence[HistoryEntry]) -> str:
    """Return what a version said after its last change until then. `changes` are newest first."""
    until_then = (change for change in changes if change.record_id == version.pk and change.at <= moment)
    return next((change.after.content for change in until_then), version.content)


def _correction(change: HistoryEntry, successor: MemoryRecord, text: str) -> ShownChange:
    return ShownChange(
        change.at,
        change.change,
        change.by,
        change.reason,
        text,
        change.after.content,
        version=successor,
    )


def _edit(change: HistoryEntry, before: MemoryState) -> ShownChange:
    return ShownChange(
        change.at,
        change.change,
        change.by,
        change.reason,
        change.after.content,
        before.content,
        change.after.visibility,
        before.visibility,
    )

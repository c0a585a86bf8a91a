"""The history that a memory's page shows: the changes of every version, with a correction as a single entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from memories.history import HistoryEntry
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

    A correction is stored twice, as the end of the earlier version and as the start of the later one. It is shown once:
    at the start of the later version, by the person who corrected and with the reason given.
    """
    earlier = dict(zip([version.pk for version in versions[1:]], versions, strict=False))
    corrections = {
        change.record_id: change
        for change in reversed(changes)  # the newest one counts, if a memory was restored and corrected again
        if change.change == "supersede"
    }
    followed = {version.pk for version in earlier.values()}
    by_id = {version.pk: version for version in versions}
    shown = []
    for change in changes:
        if change.change == "supersede" and change is corrections[change.record_id] and change.record_id in followed:
            continue
        version = by_id[change.record_id]
        if change.before:
            shown.append(
                ShownChange(
                    change.at,
                    change.change,
                    change.by,
                    change.reason,
                    change.after.content,
                    change.before.content,
                    change.after.visibility,
                    change.before.visibility,
                )
            )
            continue
        corrected = earlier.get(version.pk)
        correction = corrections.get(corrected.pk) if corrected else None
        if corrected and correction:
            shown.append(
                ShownChange(
                    change.at,
                    "supersede",
                    correction.by,
                    correction.reason,
                    change.after.content,
                    corrected.content,
                    version=version,
                )
            )
        else:
            shown.append(
                ShownChange(change.at, change.change, change.by, change.reason, change.after.content, version=version)
            )
    return shown

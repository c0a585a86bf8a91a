"""History of a row: who changed what, when and why. Every app contributes the changes that it has stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model

from foundation.people.caller import Caller
from memories.history import HistoryEntry, history
from memories.models import MemoryRecord

MAX_LINES = 200
SAME_ACT = timedelta(seconds=2)


@dataclass(frozen=True)
class HistoryLine:
    at: datetime
    change: str  # a word of the templatetag `happened`, or a text
    by: str
    reason: str = ""
    before: str = ""  # the text before and after the change, if it has changed
    after: str = ""
    details: str = ""  # for example "active → archived"


# Returns the stored changes of the memory, and of its insight, that the caller may see.
Source = Callable[[Caller, MemoryRecord], Sequence[HistoryLine]]
_sources: list[Source] = []


def add_source(source: Source) -> None:
    if source not in _sources:
        _sources.append(source)


def lines_about(caller: Caller, record: MemoryRecord, line: Sequence[MemoryRecord]) -> list[HistoryLine]:
    """Return the history of a memory and its correction chain `line`, newest first."""
    corrections = {link.pk: correction.content for link, correction in pairwise(line)}
    lines = [_line_of(entry, corrections) for entry in history(caller, record, line)]
    others = [other for source in _sources for other in source(caller, record)]
    lines += [other for other in others if not any(_is_same(other, own) for own in lines)]
    return sorted(lines, key=lambda one: one.at, reverse=True)[:MAX_LINES]


def _is_same(other: HistoryLine, own: HistoryLine) -> bool:
    """Return whether both tell of one act, for example an approval, which also changes the memory."""
    is_near = abs(other.at - own.at) < SAME_ACT and other.by == own.by
    return is_near and other.change.lower().startswith(own.change)


def _line_of(entry: HistoryEntry, corrections: Mapping[UUID, str]) -> HistoryLine:
    before = entry.before
    after = entry.after
    if before is None:
        return HistoryLine(entry.at, entry.change, entry.by, entry.reason, after=after.content)
    changed = ((before.status, after.status), (before.visibility, after.visibility))
    details = ", ".join(f"{old} → {new}" for old, new in changed if old != new)
    new_text = corrections.get(entry.record_id, "") if entry.change == "supersede" else after.content
    texts = (before.content, new_text) if new_text and before.content != new_text else ("", "")
    return HistoryLine(entry.at, entry.change, entry.by, entry.reason, *texts, details=details)


def edits_of(row: Any) -> list[HistoryLine]:
    """Return the changes that were made in forms of the admin, newest first."""
    entries = LogEntry.objects.filter(content_type=get_content_type_for_model(row), object_id=str(row.pk))
    entries = entries.select_related("user").order_by("-action_time")[:MAX_LINES]
    return [
        HistoryLine(entry.action_time, entry.get_change_message() or str(entry), str(entry.user)) for entry in entries
    ]

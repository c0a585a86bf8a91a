"""History of a row: who changed what, when and why. Every app contributes the changes that it has stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import get_content_type_for_model

from memories.history import HistoryEntry, history
from memories.identity.caller import Caller
from memories.models import MemoryRecord

MAX_LINES = 200


@dataclass(frozen=True)
class HistoryLine:
    at: datetime
    change: str  # a word of the templatetag `happened`, or a text
    by: str
    reason: str = ""
    before: str = ""  # the text before and after the change, if it has changed
    after: str = ""
    details: str = ""  # for example "active → archived"


# Returns the stored changes of the memory or insight with this id that the caller may see.
Source = Callable[[Caller, UUID], Sequence[HistoryLine]]
_sources: list[Source] = []


def add_source(source: Source) -> None:
    if source not in _sources:
        _sources.append(source)


def lines_about(
    caller: Caller, record: MemoryRecord, changes: Sequence[HistoryEntry] | None = None
) -> list[HistoryLine]:
    """Return the history of a memory, newest first: its changes, and what other apps have stored about it."""
    changes = history(caller, record) if changes is None else changes
    lines = [line_of(entry) for entry in changes]
    for source in _sources:
        lines += source(caller, record.pk)
    return sorted(lines, key=lambda line: line.at, reverse=True)[:MAX_LINES]


def line_of(entry: HistoryEntry) -> HistoryLine:
    before, after = entry.before, entry.after
    details: list[str] = []
    if before is not None:
        pairs = ((before.status, after.status), (before.visibility, after.visibility))
        details = [f"{old} → {new}" for old, new in pairs if old != new]
    texts = ("", "") if before is None or before.content == after.content else (before.content, after.content)
    return HistoryLine(entry.at, entry.change, entry.by, entry.reason, *texts, details=", ".join(details))


def edits_of(row: Any) -> list[HistoryLine]:
    """Return the changes that were made in forms of the admin, newest first."""
    entries = LogEntry.objects.filter(content_type=get_content_type_for_model(row), object_id=str(row.pk))
    entries = entries.select_related("user").order_by("-action_time")[:MAX_LINES]
    return [
        HistoryLine(entry.action_time, entry.get_change_message() or str(entry), str(entry.user)) for entry in entries
    ]

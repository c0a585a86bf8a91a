"""Checks of memories as readers see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.translation import gettext

from analysis.checks import presence
from analysis.checks.expectations import TEXTS
from analysis.models import CheckState, MemoryCheck
from analysis.sql.execute import readable_sources
from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from memories.extensions import CheckSummary
from memories.models import MemoryRecord

# The worst state of several checks comes first.
SEVERITY = (CheckState.FAILED, CheckState.CANNOT_RUN, CheckState.NOT_RUN, CheckState.PASSED)
AGENT_TEXTS = {
    CheckState.FAILED: "failed {ago}",
    CheckState.CANNOT_RUN: "could not run {ago}",
    CheckState.NOT_RUN: "not run yet",
    CheckState.PASSED: "passed {ago}",
}


@dataclass(frozen=True)
class CheckView:
    """A check for one caller. `is_open` says whether they may read the source, and so the statement and values."""

    check: MemoryCheck
    is_open: bool

    @property
    def result(self) -> Any:
        code = self.check.last_run.get("code", "")
        return TEXTS.get(code, "")

    @property
    def detail(self) -> str:
        return str(self.check.last_run.get("detail", "")) if self.is_open else ""

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        """Return the last results, newest first. `detail` is empty unless the caller may read the source."""
        return [
            {
                "at": datetime.fromisoformat(run["at"]),
                "state": run["state"],
                "label": CheckState(run["state"]).label,
                "text": TEXTS.get(run["code"], ""),
                "detail": run["detail"] if self.is_open else "",
            }
            for run in self.check.runs
        ]


@dataclass(frozen=True)
class MemoryChecks:
    """The checks of a memory for one caller, and its worst state."""

    views: list[CheckView] = field(default_factory=list)

    @property
    def worst(self) -> CheckView | None:
        return min(self.views, key=lambda view: SEVERITY.index(CheckState(view.check.state)), default=None)


def checks_for(caller: Caller, record_ids: Sequence[UUID]) -> dict[UUID, MemoryChecks]:
    """Return the checks of memories that the caller may read, by memory. Memories without checks are left out."""
    if not record_ids or not presence.any_exist():
        return {}
    rows = list(MemoryCheck.objects.filter(record__in=record_ids))
    sources = readable_sources(caller) if rows else {}
    found: dict[UUID, MemoryChecks] = {}
    for row in rows:
        found.setdefault(row.record_id, MemoryChecks()).views.append(CheckView(row, row.source in sources))
    return found


def views_of(caller: Caller, record: MemoryRecord) -> list[CheckView]:
    """Return the checks of a memory that the caller may read, oldest first."""
    return checks_for(caller, [record.pk]).get(record.pk, MemoryChecks()).views


def view_of(caller: Caller, record: MemoryRecord, check_id: UUID) -> CheckView:
    check = MemoryCheck.objects.filter(record=record, pk=check_id).first()
    if check is None:
        raise NotFound(gettext("no such check"), field="check_id")
    return shown_to(caller, check)


def shown_to(caller: Caller, check: MemoryCheck) -> CheckView:
    return CheckView(check, check.source in readable_sources(caller))


def summaries(record_ids: Sequence[UUID]) -> dict[UUID, CheckSummary]:
    """Return the state of the checks of memories that the caller may read. Needs no query if there are no checks."""
    if not record_ids or not presence.any_exist():
        return {}
    now = timezone.now()
    rows = MemoryCheck.objects.filter(record__in=record_ids).values_list("record_id", "state", "checked_at")
    found: dict[UUID, CheckSummary] = {}
    for pk, state, at in sorted(rows, key=lambda row: SEVERITY.index(CheckState(row[1]))):
        text = AGENT_TEXTS[CheckState(state)].format(ago=_ago(now - at) if at else "")
        found.setdefault(pk, CheckSummary(state, at, text))
    return found


def _ago(age: timedelta) -> str:
    minutes = max(int(age.total_seconds() // 60), 0)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1_440} days ago"

"""The analysis app's hooks into memories: deletion of ingested copies, and columns with personal data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from analysis import findings, memory_copies, sources
from analysis.checks import after_changes, presence, queries, running
from analysis.checks import services as checks
from analysis.checks.responses import check_response
from analysis.models import Finding, MemoryCheck
from analysis.portable_kinds import KINDS
from foundation.people.caller import Caller
from memories.extensions import (
    CheckSummary,
    MemoryExtension,
    PreparedCheck,
    StaleCause,
    TextPlace,
)
from memories.models import MemoryRecord
from memories.portability import ExportKind


class AnalysisMemoryExtension(MemoryExtension):
    def record_changed(self, record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
        if presence.any_exist():
            after_changes.after_change(record, change, before)

    def prepare_check(self, caller: Caller, check: Mapping[str, Any], record_id: UUID | None) -> PreparedCheck | None:
        return checks.prepare(caller, check, record_id)

    def keep_checks(self, old: MemoryRecord, new: MemoryRecord) -> None:
        checks.keep_checks(old, new)

    def checks_of(self, record_ids: Sequence[UUID]) -> Mapping[UUID, CheckSummary]:
        return queries.summaries(record_ids)

    def additions_to_memories(self, since: datetime) -> Mapping[str, QuerySet[Any]]:
        return {"got a check since": MemoryCheck.objects.filter(created_at__gt=since)}

    def described_checks(self, caller: Caller, record_id: UUID) -> Sequence[Mapping[str, Any]]:
        found = queries.checks_for(caller, [record_id]).get(record_id)
        return [check_response(view) for view in found.views] if found else ()

    def stale_cause(self, record: MemoryRecord) -> StaleCause | None:
        return running.stale_cause(record) if presence.any_exist() else None

    def catalog_changed(self, urns: Sequence[str], names: Sequence[str]) -> None:
        if presence.any_exist():
            running.make_due_about(urns)

    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        return memory_copies.erase_copies(record_id)

    def text_places(self) -> Sequence[TextPlace]:
        def readable(caller: Caller) -> QuerySet[Finding]:
            return findings.readable(caller, sources.withheld_models(caller))

        return [TextPlace(findings.FINDINGS, Finding, ("finding",), readable, "session__owner")]

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        memory_copies.drop_unreadable_copies(record_ids)

    def things_received(self, email: str) -> None:
        memory_copies.drop_copies_unreadable_by(email)

    def portable_kinds(self) -> Sequence[ExportKind]:
        return KINDS

"""The analysis app's hooks into memories: deletion of ingested copies, and columns with personal data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from django.db.models import QuerySet

from analysis import findings, memory_copies
from analysis.models import Action, Finding, Session
from analysis.portable_kinds import KINDS
from memories.extensions import MemoryExtension, OwnedRows, PersonalDataColumn, TextPlace
from memories.identity.caller import Caller
from memories.portability import Kind


class AnalysisMemoryExtension(MemoryExtension):
    def erase_copies(self, caller: Caller, record_id: UUID, texts: Sequence[str]) -> Mapping[str, int]:
        return memory_copies.erase_copies(record_id)

    def text_places(self) -> Sequence[TextPlace]:
        def readable(caller: Caller) -> QuerySet[Finding]:
            return Finding.objects.filter(session__in=Session.objects.owned_by(caller))

        return [TextPlace(findings.FINDINGS, Finding, ("finding",), readable, "session__owner")]

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        memory_copies.drop_unreadable_copies(record_ids)

    def owned_rows(self) -> Sequence[OwnedRows]:
        return [
            OwnedRows("analyses", Session, "owner", unique=("analysis_id",)),
            OwnedRows("actions", Action, "owner"),
        ]

    def portable_kinds(self) -> Sequence[Kind]:
        return KINDS

    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(Session, "owner"),
            PersonalDataColumn(Action, "owner", stays=True),
            PersonalDataColumn(Action, "on_behalf_of", stays=True),
        ]

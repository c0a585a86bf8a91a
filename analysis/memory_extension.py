"""The analysis app's hooks into memories: deletion of ingested copies, and columns with personal data."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from analysis import memory_copies
from analysis.models import Action, Session
from memories.extensions import MemoryExtension, OwnedRows, PersonalDataColumn


class AnalysisMemoryExtension(MemoryExtension):
    def erase_copies(self, record_id: UUID, texts: Sequence[str]) -> None:
        memory_copies.erase_copies(record_id, texts)

    def access_narrowed(self, record_ids: Sequence[UUID]) -> None:
        memory_copies.drop_unreadable_copies(record_ids)

    def owned_rows(self) -> Sequence[OwnedRows]:
        return [
            OwnedRows("analyses", Session, "owner", unique=("analysis_id",)),
            OwnedRows("actions", Action, "owner"),
        ]

    def personal_data(self) -> Sequence[PersonalDataColumn]:
        return [
            PersonalDataColumn(Session, "owner"),
            PersonalDataColumn(Action, "owner", stays=True),
            PersonalDataColumn(Action, "on_behalf_of", stays=True),
        ]

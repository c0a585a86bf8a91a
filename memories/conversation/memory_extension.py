"""Hooks of the conversation app, for personal data and for cached answers that erasures and catalog changes affect."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from memories.conversation import cache
from memories.conversation.models import CachedAnswer, CacheUse, UserDecision, WipeRequest
from memories.extensions import MemoryExtension, OwnedRows, PersonalDataColumn


class ConversationMemoryExtension(MemoryExtension):
    def erase_copies(self, record_id: UUID, texts: Sequence[str]) -> None:
        cache.delete_answers_quoting(texts)

    def catalog_changed(self, urns: Sequence[str], names: Sequence[str]) -> None:
        cache.delete_answers_about(urns, names)

    def personal_data(self) -> Sequence[PersonalDataColumn]:
        models = (CachedAnswer, CacheUse, UserDecision, WipeRequest)
        return [PersonalDataColumn(model, "created_by") for model in models]

    def owned_rows(self) -> Sequence[OwnedRows]:
        return [
            OwnedRows("cached answers", CachedAnswer, "created_by"),
            OwnedRows("decisions", UserDecision, "created_by", unique=("key",)),
        ]

"""Hooks of the conversation app, for personal data and for cached answers that erasures and catalog changes affect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import Model, QuerySet

from foundation.people.caller import Caller
from memories.conversation import cache
from memories.conversation.models import CachedAnswer, UserDecision
from memories.conversation.portable_kinds import KINDS
from memories.extensions import MemoryExtension, TextPlace
from memories.portability import ExportKind


def _own(model: type[Model]) -> Callable[[Caller], QuerySet[Any]]:
    return lambda caller: (
        model._default_manager.all() if caller.is_admin else model._default_manager.filter(created_by=caller.email)
    )


class ConversationMemoryExtension(MemoryExtension):
    def text_places(self) -> Sequence[TextPlace]:
        return [
            TextPlace(cache.CACHED_ANSWERS, CachedAnswer, ("query", "response"), _own(CachedAnswer), "created_by"),
            TextPlace("user decisions", UserDecision, ("value",), _own(UserDecision), "created_by"),
        ]

    def catalog_changed(self, urns: Sequence[str], names: Sequence[str]) -> None:
        cache.delete_answers_about(urns, names)

    def portable_kinds(self) -> Sequence[ExportKind]:
        return KINDS

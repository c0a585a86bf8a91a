"""Conversations: their turns are memories with a speaker, a time and a place in the thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from django.db import transaction
from django.utils import timezone

from memories import embedding
from memories.access import Caller
from memories.contract.errors import Forbidden, check_choice
from memories.contract.fields import Text
from memories.contract.operations import checked
from memories.models import Dimension, MemoryRecord, Source, Tier, Visibility
from memories.models.index_job import Trigger
from memories.retrieval import indexing
from memories.retrieval.languages import language_of

ConversationId = Annotated[str, Text(1, 200)]
Author = Annotated[str, Text(0, 60)]
TurnText = Annotated[str, Text(1, 20_000)]


@dataclass(frozen=True)
class Turn:
    """What somebody said. `author` becomes part of the text, since that is how it is asked for later."""

    author: str
    text: str
    at: datetime | None = None
    position: int | None = None

    @property
    def content(self) -> str:
        return f"{self.author}: {self.text}" if self.author else self.text


def store_turns(
    *,
    caller: Caller,
    conversation_id: str,
    turns: Sequence[Turn],
    tier: str = Tier.SHORT_TERM,
    visibility: str = Visibility.PRIVATE,
) -> list[MemoryRecord]:
    """Keeps the turns of one conversation, in order, and gives them vectors in one go."""
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")
    conversation_id = checked(ConversationId, conversation_id, "conversation_id")
    check_choice("tier", tier, [Tier.SHORT_TERM, Tier.LONG_TERM])
    check_choice("visibility", visibility, Visibility.values)
    now = timezone.now()
    records = [
        MemoryRecord(
            created_by=caller.email,
            persona=caller.persona,
            visibility=visibility,
            dimension=Dimension.EVENT,
            source=Source.AUTOMATION,
            content=checked(TurnText, turn.content, "content"),
            language=language_of(turn.text),
            tier=tier,
            conversation_id=conversation_id,
            role=checked(Author, turn.author, "author"),
            thread_position=turn.position if turn.position is not None else index,
            created_at=turn.at or now,
            updated_at=now,
        )
        for index, turn in enumerate(turns)
    ]
    with transaction.atomic():
        MemoryRecord.objects.bulk_create(records, batch_size=500)
    try:
        indexing.index("memory", {record.pk: record.content for record in records})
    except embedding.EmbedderUnavailable:
        indexing.enqueue("memory", [record.pk for record in records], Trigger.WRITE)
    return records

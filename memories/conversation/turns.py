"""Storage of conversation turns.

`store_messages` stores each message as a turn: a short-term memory that expires. A human message of more than
CANDIDATE_OVER characters is also stored as a long-term memory. `store_turns` imports turns that never expire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from foundation import embedding
from foundation.operations.errors import check_choice
from foundation.operations.operation import validate
from foundation.people.caller import Caller, require_user
from memories.conversation import heuristics
from memories.conversation.acting_user import acting_as
from memories.conversation.operations import Author, ConversationId, StoreMessages, TurnText
from memories.models import Dimension, IndexJob, MemoryRecord, Source, Tier, Visibility
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages
from memories.retrieval.passages import Stamped
from memories.texts.language import language_of
from memories.writing.revision import save_many

# Number of characters, set by the tool contract. A human message with more is also stored as a long-term memory.
CANDIDATE_OVER = 30
ENRICHMENT = "enrichment"  # IndexJob.source_kind of jobs that enrich long-term memories
PENDING, COMPLETED = "pending", "completed"  # values of MemoryRecord.enrichment_status
ROLE_NAMES = frozenset({"human", "ai", "user", "assistant", "agent", "bot", "system", "me", "you"})


@dataclass(frozen=True)
class Turn:
    author: str  # embedded with the text, because questions name the speaker
    text: str
    at: datetime | None = None
    position: int | None = None
    role: str = ""


@dataclass(frozen=True)
class Stored:
    turns: list[MemoryRecord]  # in the order of the messages
    candidates: list[MemoryRecord] = field(default_factory=list)  # long-term memories derived from the turns
    note: str = ""  # a message for the caller, if the texts could not be embedded


def store_messages(caller: Caller, operation: StoreMessages) -> Stored:
    """Store messages as turns that expire after STM_TTL_HOURS, and longer human messages as long-term memories too.

    Raises Forbidden if the caller may not act for the user.
    """
    user = acting_as(caller, operation.user_id)
    turns = [
        Turn(
            author=_author_name(message.get("author", "")),
            text=message["content"],
            at=message.get("timestamp"),
            role=message["role"],
        )
        for message in operation.messages
    ]
    expiry = timezone.now() + timedelta(hours=settings.STM_TTL_HOURS)
    return _store(user, operation.conversation_id, turns, Tier.SHORT_TERM, Visibility.PRIVATE, expiry)


def store_turns(
    caller: Caller,
    *,
    conversation_id: str,
    turns: Sequence[Turn],
    tier: str = Tier.SHORT_TERM,
    visibility: str = Visibility.PRIVATE,
) -> list[MemoryRecord]:
    """Import turns of one conversation, in order.

    They never expire, and no long-term memories are derived from them.
    """
    require_user(caller)
    conversation_id = validate(ConversationId, conversation_id, "conversation_id")
    check_choice("tier", tier, [Tier.SHORT_TERM, Tier.LONG_TERM])
    check_choice("visibility", visibility, Visibility.values)
    for turn in turns:
        validate(TurnText, turn.text, "content")
        validate(Author, turn.author, "author")
    return _store(caller, conversation_id, turns, tier, visibility, None).turns


def _store(
    user: Caller, conversation_id: str, turns: Sequence[Turn], tier: str, visibility: str, expiry: datetime | None
) -> Stored:
    records = new_turns(user, conversation_id, turns, tier, visibility, expiry)
    try:
        encoded, model = passages.encode([record.spoken for record in records], waiting=embedding.Waiting.BATCH)
        stamps: list[Stamped | None] = [Stamped(part, model) for part in encoded]
        note = ""
    except embedding.EmbedderUnavailable as error:
        stamps = [None] * len(records)
        note = f"{error}; only word search finds these messages until their vectors are computed"
    with transaction.atomic():
        _assign_positions(user, conversation_id, records)
        stamped_turns = [*zip(records, stamps, strict=True)]
        # A long-term memory has the same text as its turn, so it gets the same vectors.
        stamped_derived = [(_long_term_memory(r), s) for r, s in stamped_turns if expiry and _is_worth_keeping(r)]
        save_many([*stamped_turns, *stamped_derived])
        derived = [record for record, _ in stamped_derived]
        jobs = [IndexJob(source_kind=ENRICHMENT, source_id=d.pk, trigger_kind=Trigger.WRITE) for d in derived]
        IndexJob.objects.bulk_create(jobs, batch_size=500)
        if note:
            indexing.enqueue("memory", [record.pk for record in [*records, *derived]], Trigger.WRITE)
    return Stored(records, derived, note)


def new_turns(
    user: Caller, conversation_id: str, turns: Sequence[Turn], tier: str, visibility: str, expiry: datetime | None
) -> list[MemoryRecord]:
    """Return unsaved records of turns."""
    now = timezone.now()
    return [
        MemoryRecord(
            created_by=user.email,
            persona=user.persona,
            visibility=visibility,
            dimension=Dimension.EVENT,
            source=Source.AUTOMATION,
            content=turn.text,
            language=language_of(turn.text),
            tier=tier,
            conversation_id=conversation_id,
            role=turn.role,
            author=turn.author,
            thread_position=turn.position,
            importance=heuristics.importance_of(turn.text) if expiry else 0.5,
            created_at=turn.at or now,
            updated_at=now,
            expires_at=expiry,
        )
        for turn in turns
    ]


def lock_conversation(user: Caller, conversation_id: str) -> None:
    """Make concurrent calls for the same conversation wait, so that no position is assigned twice."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"turns {user.email} {conversation_id}"]
        )


def _assign_positions(user: Caller, conversation_id: str, records: Sequence[MemoryRecord]) -> None:
    """Give each record without a position the next one in the conversation."""
    lock_conversation(user, conversation_id)
    conversation = MemoryRecord.objects.filter(created_by=user.email, conversation_id=conversation_id)
    last = conversation.aggregate(last=Max("thread_position"))["last"]
    next_position = 0 if last is None else last + 1
    for number, record in enumerate(records):
        if record.thread_position is None:
            record.thread_position = next_position + number


def _is_worth_keeping(turn: MemoryRecord) -> bool:
    return turn.role == "human" and len(turn.content) > CANDIDATE_OVER


def _long_term_memory(turn: MemoryRecord) -> MemoryRecord:
    """Return an unsaved long-term memory derived from a turn. Enrichment sets its importance later."""
    return MemoryRecord(
        created_by=turn.created_by,
        persona=turn.persona,
        visibility=Visibility.PRIVATE,
        dimension=Dimension.KNOWLEDGE,
        source=Source.AUTOMATION,
        content=turn.content,
        language=turn.language,
        tier=Tier.LONG_TERM,
        conversation_id=turn.conversation_id,
        role=turn.role,
        author=turn.author,
        thread_position=turn.thread_position,
        derived_from=turn.pk,
        enrichment_status=PENDING,
        created_at=turn.created_at,
        updated_at=turn.updated_at,
    )


def _author_name(author: str) -> str:
    # Only real names are worth embedding. The role has its own column.
    return "" if author.casefold() in ROLE_NAMES else author

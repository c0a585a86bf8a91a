"""Conversations: their turns are short-term memories, and what people said at some length is kept beside them as a
long-term one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max
from django.utils import timezone

from memories import embedding
from memories.contract.errors import Forbidden, check_choice
from memories.contract.operations import validate
from memories.conversation import heuristics
from memories.conversation.acting_user import acting_as
from memories.conversation.operations import Author, ConversationId, StoreMessages, TurnText
from memories.identity.caller import Caller
from memories.models import Dimension, IndexJob, MemoryRecord, Source, Tier, Visibility
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages
from memories.retrieval.language import language_of
from memories.retrieval.passages import Stamped
from memories.writing.revision import save_many

CANDIDATE_OVER = 30  # characters of a human message from which it also becomes long-term; the seed's
ENRICHMENT = "enrichment"  # the kind of the jobs that see to new long-term memories
PENDING, COMPLETED = "pending", "completed"  # MemoryRecord.enrichment_status
NO_NAMES = frozenset({"human", "ai", "user", "assistant", "agent", "bot", "system", "me", "you"})


@dataclass(frozen=True)
class Turn:
    """What somebody said. `author` joins what is embedded, since that is how it is asked for later."""

    author: str
    text: str
    at: datetime | None = None
    position: int | None = None
    role: str = ""


@dataclass(frozen=True)
class Stored:
    """The turns in their order; `note` says what is degraded."""

    turns: list[MemoryRecord]
    candidates: list[MemoryRecord] = field(default_factory=list)
    note: str = ""


def store_messages(operation: StoreMessages, *, caller: Caller) -> Stored:
    """Keeps the messages of a conversation as turns for STM_TTL_HOURS, and long-term candidates of what people said.

    The vectors are made before the transaction, once for a turn and its candidate. Raises Forbidden for another's id.
    """
    user = acting_as(caller, operation.user_id)
    turns = [
        Turn(
            author=_name(message.get("author", "")),
            text=message["content"],
            at=message.get("timestamp"),
            role=message["role"],
        )
        for message in operation.messages
    ]
    expiry = timezone.now() + timedelta(hours=settings.STM_TTL_HOURS)
    return _store(user, operation.conversation_id, turns, Tier.SHORT_TERM, Visibility.PRIVATE, expiry)


def store_turns(
    *,
    caller: Caller,
    conversation_id: str,
    turns: Sequence[Turn],
    tier: str = Tier.SHORT_TERM,
    visibility: str = Visibility.PRIVATE,
) -> list[MemoryRecord]:
    """Keeps turns of one conversation that never expire, in order, without candidates: an import."""
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")
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
    now = timezone.now()
    records = [
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
    try:
        encoded, model = passages.encode([record.spoken for record in records], waiting=embedding.Waiting.BATCH)
        stamps: list[Stamped | None] = [Stamped(part, model) for part in encoded]
        note = ""
    except embedding.EmbedderUnavailable as error:
        stamps, note = [None] * len(records), f"{error}; until the vectors are computed, words alone find these"
    with transaction.atomic():
        _take_places(user, conversation_id, records)
        pairs = [*zip(records, stamps, strict=True)]
        news = [(_candidate(r), s) for r, s in pairs if expiry and _is_worth_keeping(r)]
        save_many([*pairs, *news])
        candidates = [record for record, _ in news]
        jobs = [IndexJob(source_kind=ENRICHMENT, source_id=c.pk, trigger_kind=Trigger.WRITE) for c in candidates]
        IndexJob.objects.bulk_create(jobs, batch_size=500)
        if note:
            indexing.enqueue("memory", [record.pk for record in [*records, *candidates]], Trigger.WRITE)
    return Stored(records, candidates, note)


def _take_places(user: Caller, conversation_id: str, records: Sequence[MemoryRecord]) -> None:
    """The next places in the thread; who stores into the same conversation at the same time waits."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"turns {user.email} {conversation_id}"]
        )
    thread = MemoryRecord.objects.filter(created_by=user.email, conversation_id=conversation_id)
    last = thread.aggregate(last=Max("thread_position"))["last"]
    following = 0 if last is None else last + 1
    for number, record in enumerate(records):
        if record.thread_position is None:
            record.thread_position = following + number


def _is_worth_keeping(turn: MemoryRecord) -> bool:
    return turn.role == "human" and len(turn.content) > CANDIDATE_OVER


def _candidate(turn: MemoryRecord) -> MemoryRecord:
    """The long-term memory of a turn; enrichment says later what it is worth."""
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


def _name(author: str) -> str:
    """Only real names are worth embedding; a role is in its own column."""
    return "" if author.casefold() in NO_NAMES else author

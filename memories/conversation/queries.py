"""Queries for the pages of a user's conversations, decisions and cached answers. All return only the caller's rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone

from foundation.people.caller import Caller
from memories.conversation.models import CachedAnswer, UserDecision
from memories.conversation.statistics import living
from memories.models import MemoryRecord, Tier

THREADS_SHOWN = 30
TURNS_SHOWN = 500
SHOWN = 200  # maximum number of decisions or cached answers on a page


@dataclass(frozen=True)
class Thread:
    conversation_id: str
    turns: int
    lasting: int  # number of long-term memories
    last_at: datetime
    last: MemoryRecord | None = None  # the latest text


@dataclass(frozen=True)
class ConversationLine:
    """A turn with the long-term memory derived from it, if there is one, or a long-term memory without a turn.

    A long-term memory has no turn if the turn has expired or was deleted, or if the memory is a summary.
    """

    turn: MemoryRecord | None
    lasting: MemoryRecord | None

    @property
    def record(self) -> MemoryRecord:
        record = self.turn or self.lasting
        assert record is not None  # a line has at least one of the two
        return record


def threads(caller: Caller, offset: int = 0) -> tuple[list[Thread], bool]:
    """Return a page of the caller's conversations, the latest first, and whether there are more."""
    rows = (
        living(caller.email)
        .order_by()
        .values("conversation_id")
        .annotate(
            turns=Count("pk", filter=Q(tier=Tier.SHORT_TERM)),
            lasting=Count("pk", filter=Q(tier=Tier.LONG_TERM)),
            last_at=Max("created_at"),
        )
        .order_by("-last_at", "conversation_id")
    )
    page = list(rows[offset : offset + THREADS_SHOWN + 1])
    shown = page[:THREADS_SHOWN]
    texts = living(caller.email).filter(conversation_id__in=[row["conversation_id"] for row in shown])
    texts = texts.order_by("conversation_id", "-created_at", "-thread_position").distinct("conversation_id")
    last = {text.conversation_id: text for text in texts.defer("search")}
    threads = [Thread(**row, last=last.get(row["conversation_id"])) for row in shown]
    return threads, len(page) > THREADS_SHOWN


def turns(caller: Caller) -> QuerySet[MemoryRecord]:
    """Return the turns and long-term memories of the caller's conversations, in order."""
    return living(caller.email).order_by("conversation_id", "thread_position", "created_at", "tier")


def lines(caller: Caller, conversation_id: str) -> list[ConversationLine]:
    """Return the turns and long-term memories of one conversation in order.

    A long-term memory is on the line of the turn from which it was derived, if that turn still exists.
    """
    rows = living(caller.email).filter(conversation_id=conversation_id).defer("search")
    records = list(rows.order_by("thread_position", "created_at", "tier")[: 2 * TURNS_SHOWN])
    turns = {record.pk for record in records if record.tier == Tier.SHORT_TERM}
    lasting = {record.derived_from: record for record in records if record.derived_from in turns}
    return [
        ConversationLine(record, lasting.get(record.pk))
        if record.tier == Tier.SHORT_TERM
        else ConversationLine(None, record)
        for record in records
        if record.derived_from not in turns
    ]


def decisions(caller: Caller) -> QuerySet[UserDecision]:
    """Return the caller's unexpired decisions with their earlier values."""
    rows = UserDecision.objects.filter(created_by=caller.email)
    rows = rows.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))
    return rows.prefetch_related("changes")


def cached_answers(caller: Caller) -> QuerySet[CachedAnswer]:
    rows = CachedAnswer.objects.filter(created_by=caller.email, expires_at__gt=timezone.now())
    return rows.defer("vector")

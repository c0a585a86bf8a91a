"""Recall of conversations, ranked by recency, importance and relevance.

    final_score = RECENCY · exp(−age / DECAY_DAYS) + IMPORTANCE · I · min(1 + ln(1 + uses), 3) / 3 + RELEVANCE · R

- The memory has an age in days, a number of uses (access_count), and the importance I.
- R is the memory's score in memories.retrieval.recall, scaled so that the lowest score found is 0 and the highest is 1.
  It is scaled, because different rankings have different ranges of scores.

The tool hybrid_search has another formula: it combines the ranking of memories.retrieval.recall and a ranking by words
only, by reciprocal rank fusion (Cormack, Clarke and Büttcher 2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django_q.tasks import async_task

from foundation.database.connections import async_commit
from foundation.people.caller import Caller
from memories.conversation.acting_user import acting_as
from memories.conversation.operations import TIERS, RecallConversations, SearchHybrid
from memories.models import MemoryRecord, Status, Tier
from memories.operations import RecallMemories
from memories.retrieval import recall
from memories.retrieval.filters import Filters
from memories.retrieval.rank_fusion import RRF_K
from memories.retrieval.ranking import CANDIDATES
from memories.retrieval.recall import Recall

DAY_S = 86_400
# weights of final_score, which sum to 1
RECENCY = 0.2
IMPORTANCE = 0.3
RELEVANCE = 0.5
DECAY_DAYS = 30.0  # in which recency falls to 1/e, a half-life of 20.8 days
ARM_WEIGHTS = {"auto": 1.0, "lexical": 0.7}  # of the rankings that hybrid_search fuses, by the strategy of recall


@dataclass(frozen=True)
class RecalledMemory:
    record: MemoryRecord
    score: float  # final_score, or the fused score of hybrid_search


@dataclass(frozen=True)
class RecallResult:
    results: list[RecalledMemory]
    note: str = ""
    degraded: bool = False


def recall_conversations(caller: Caller, operation: RecallConversations) -> RecallResult:
    """Return the user's conversation memories, best first.

    If neither tags nor a type are given, only the better of a turn and its long-term memory is returned.
    """
    user = acting_as(caller, operation.user_id)
    recalled = _recall(user, operation, "auto")
    relevances = calibrated([hit.score for hit in recalled.hits])
    derived = _derived_memories(user, operation, [hit.record for hit in recalled.hits])
    rows = []
    for hit, relevance in zip(recalled.hits, relevances, strict=True):
        records = [hit.record, *derived.get(hit.record.pk, [])]
        scored = [RecalledMemory(record, final_score(record, relevance)) for record in records]
        rows.append(max(scored, key=lambda row: row.score))
    rows.sort(key=lambda row: (-row.score, -row.record.created_at.timestamp(), row.record.pk))
    rows = rows[: operation.limit]
    _count_later([row.record.pk for row in rows])
    return RecallResult(rows, recalled.note, recalled.degraded)


def search_hybrid(caller: Caller, operation: SearchHybrid) -> RecallResult:
    """Return the user's conversation memories, ranked by reciprocal rank fusion of recall and word search."""
    user = acting_as(caller, operation.user_id)
    recalled = {strategy: _recall(user, operation, strategy) for strategy in ARM_WEIGHTS}
    records: dict[UUID, MemoryRecord] = {}
    fused: dict[UUID, float] = {}
    for strategy, weight in ARM_WEIGHTS.items():
        if recalled[strategy].ranking == "lexical" and strategy == "auto":
            continue  # without vectors, recall ranks by words too, so this ranking would count twice
        for rank, hit in enumerate(recalled[strategy].hits, start=1):
            records[hit.record.pk] = hit.record
            fused[hit.record.pk] = fused.get(hit.record.pk, 0.0) + weight / (RRF_K + rank)
    rows = [RecalledMemory(records[pk], score) for pk, score in fused.items()]
    rows.sort(key=lambda row: (-row.score, -row.record.created_at.timestamp(), row.record.pk))
    _count_later([row.record.pk for row in rows[: operation.limit]])
    return RecallResult(rows[: operation.limit], recalled["auto"].note, recalled["auto"].degraded)


def calibrated(scores: Sequence[float]) -> list[float]:
    """Scale the scores of one recall, so that the lowest is 0 and the highest is 1. Equal scores become 1."""
    lowest = min(scores, default=0.0)
    highest = max(scores, default=0.0)
    return [(score - lowest) / (highest - lowest) if highest > lowest else 1.0 for score in scores]


def final_score(record: MemoryRecord, relevance: float) -> float:
    age_days = max((timezone.now() - record.created_at).total_seconds(), 0.0) / DAY_S
    recency = math.exp(-age_days / DECAY_DAYS)
    boost = record.importance * min(1 + math.log(1 + record.access_count), 3) / 3
    return RECENCY * recency + IMPORTANCE * boost + RELEVANCE * relevance


def _recall(user: Caller, operation: RecallConversations, strategy: str) -> Recall:
    filters = Filters(
        owner=user.email,
        dimension=operation.memory_type or "",
        tags=operation.tags,
        tiers=operation.tier or TIERS,
        pairs_once=not operation.tags and not operation.memory_type and set(operation.tier or TIERS) == set(TIERS),
    )
    limit = max(operation.limit, CANDIDATES)
    search = RecallMemories.model_construct(query=operation.query, strategy=strategy, limit=limit)
    return recall.recall(user, search, filters=filters)


def _derived_memories(
    user: Caller, operation: RecallConversations, turns: Sequence[MemoryRecord]
) -> dict[UUID, list[MemoryRecord]]:
    """Return the active long-term memories derived from these turns, by the id of the turn.

    recall() leaves these memories out if its filters have `pairs_once`.
    """
    pks = [turn.pk for turn in turns if turn.tier == Tier.SHORT_TERM]
    rows = MemoryRecord.objects.visible_to(user).filter(created_by=user.email, derived_from__in=pks)
    derived: dict[UUID, list[MemoryRecord]] = {}
    for row in rows.filter(tier__in=operation.tier or TIERS, status=Status.ACTIVE).defer("search") if pks else []:
        if row.derived_from:
            derived.setdefault(row.derived_from, []).append(row)
    return derived


def _count_later(ids: Sequence[UUID]) -> None:
    if ids:
        # A worker counts the uses, so that recall does not wait and locks no rows.
        task = partial(async_task, "memories.conversation.tasks.count_accesses", [pk.hex for pk in ids])
        with async_commit():
            transaction.on_commit(task)

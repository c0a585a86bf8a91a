"""Responses of the conversation tools. The keys are part of the tools' contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired

from typing_extensions import TypedDict

from foundation.operations.responses import response_of
from foundation.tools.budget import fit_items

if TYPE_CHECKING:
    from memories.conversation.cache import NearQuestion
    from memories.conversation.models import UserDecision
    from memories.conversation.recall import RecallResult
    from memories.models import MemoryRecord

PREVIEW = 300  # maximum number of characters shown of a near question


class StoredResponse(TypedDict):
    stm_ids: list[str]
    count: int
    note: NotRequired[str]


class TurnResponse(TypedDict):
    _id: str
    user_id: str
    tier: str
    content: str
    importance: float
    access_count: int
    created_at: str
    conversation_id: str
    role: NotRequired[str]
    author: NotRequired[str]
    summary: NotRequired[str]
    tags: NotRequired[list[str]]
    memory_type: NotRequired[str]
    derived_from: NotRequired[str]
    expires_at: NotRequired[str]
    final_score: NotRequired[float]
    rrf_score: NotRequired[float]


class ResultsResponse(TypedDict):
    results: list[TurnResponse]
    count: int
    omitted: NotRequired[int]
    degraded: NotRequired[bool]
    note: NotRequired[str]


class DeletedResponse(TypedDict):
    deleted_count: int
    copies_deleted: NotRequired[int]
    dry_run: bool


class NearResponse(TypedDict):
    question: str
    similarity: float
    differs: str
    cache_id: str


class CacheResponse(TypedDict):
    cache_hit: bool
    query: NotRequired[str]
    response: NotRequired[str]
    score: NotRequired[float]
    near: NotRequired[list[NearResponse]]
    note: NotRequired[str]


class CachedResponse(TypedDict):
    cache_id: str
    expires_at: str
    note: NotRequired[str]


class InvalidatedResponse(TypedDict):
    user_id: str
    deleted_count: int


class WebResultResponse(TypedDict):
    title: str
    url: str
    content: str


class WebResponse(TypedDict):
    results: list[WebResultResponse]
    query: str


class HealthResponse(TypedDict):
    user_id: str
    total_memories: int
    tier_stats: dict[str, int]
    enrichment_stats: dict[str, int]


class WipedResponse(TypedDict):
    user_id: str
    memories_deleted: NotRequired[int]
    cache_deleted: NotRequired[int]
    audit_deleted: NotRequired[int]
    others_deleted: NotRequired[dict[str, int]]
    status: NotRequired[str]
    confirm_at: NotRequired[str]
    counts: NotRequired[dict[str, int]]
    message: NotRequired[str]


class DecidedResponse(TypedDict):
    key: str
    action: str
    user_id: str


class DecisionResponse(TypedDict):
    key: str
    value: str
    user_id: str
    created_at: str
    updated_at: str
    expires_at: NotRequired[str]


class DecisionAnswerResponse(TypedDict):
    key: str
    found: bool
    decision: NotRequired[DecisionResponse]


def results_response(user_id: str, result: RecallResult, score_key: str) -> ResultsResponse:
    rows = [turn_response(user_id, row.record) | {score_key: round(row.score, 4)} for row in result.results]
    results, omitted = fit_items(rows)
    response: ResultsResponse = {"results": results, "count": len(results)}  # type: ignore[typeddict-item]  # the score's key
    if omitted:
        response["omitted"] = omitted
    if result.degraded:
        response["degraded"] = True
    if result.note:
        response["note"] = result.note
    return response


def turn_response(user_id: str, record: MemoryRecord) -> TurnResponse:
    return response_of(
        TurnResponse,
        record,
        _id=record.pk,
        user_id=user_id,
        importance=round(record.importance, 3),
        memory_type=record.dimension,
        final_score=None,
        rrf_score=None,
    )


def near_response(near: NearQuestion) -> NearResponse:
    question = near.entry.query
    return {
        "question": question if len(question) <= PREVIEW else f"{question[: PREVIEW - 1]}…",
        "similarity": round(near.score, 4),
        "differs": near.differs,
        "cache_id": near.entry.pk.hex,
    }


def decision_response(user_id: str, decision: UserDecision) -> DecisionResponse:
    return response_of(DecisionResponse, decision, user_id=user_id)

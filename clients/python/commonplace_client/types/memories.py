"""Answers about memories."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from commonplace_client.types.arguments import Versioned


class Memory(TypedDict):
    id: str
    content: str
    summary: str
    dimension: str
    category: str
    confidence: str
    source: str
    status: str
    visibility: str
    created_by: str
    edited_by: NotRequired[str]
    persona: str
    created_at: str
    updated_at: str
    last_verified: str | None
    verified_by: NotRequired[str]
    changed_since_verified: NotRequired[bool]
    stale_reason: str
    stale_at: str | None
    validity: NotRequired[str]
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    valid_while: NotRequired[str]
    condition_ended_at: NotRequired[str]
    tags: list[str]
    entity_urns: list[str]
    detected_urns: list[str]
    related_columns: list[dict[str, str]]
    unsettled: NotRequired[bool]
    supersedes: str | None
    metadata: dict[str, Any]
    scope: NotRequired[str]
    attachment: NotRequired[str]


class Similar(TypedDict):
    """An existing memory with nearly the same meaning."""

    id: str
    content: str
    score: float
    created_by: str
    edited_by: NotRequired[str]
    status: str
    differs: NotRequired[str]


class Corrected(TypedDict):
    memory: Memory
    similar_existing: list[Similar]
    note: str


class EntityCandidate(TypedDict):
    """A catalog entity, or its column, that a memory without entities may be about."""

    urn: str
    name: str
    column: NotRequired[str]
    why: str


class Remembered(Corrected):
    """`existing` is true if you had already stored this text, so that nothing was added.

    If the memory names no entity, `entity_candidates` has the likeliest ones, and `settle` says what to do.
    """

    existing: bool
    entity_candidates: NotRequired[list[EntityCandidate]]
    settle: NotRequired[str]


class HistoryEntry(TypedDict):
    id: str
    at: str
    change: str
    by: str
    reason: str
    content_before: str | None
    content: str
    status: str
    visibility: str


class OneMemory(Versioned):
    """`chain` has the corrections of the memory, oldest first. `omitted` counts history entries that did not fit."""

    memory: Memory
    chain: list[Memory]
    history: list[HistoryEntry]
    omitted: int
    entity_candidates: NotRequired[list[EntityCandidate]]
    settle: NotRequired[str]


class Revised(Versioned):
    memory: Memory
    message: str


class History(TypedDict):
    id: str
    status: str
    history: list[HistoryEntry]
    total: int
    omitted: NotRequired[int]


class Detected(TypedDict):
    """A catalog entity that a text mentions."""

    urn: str
    name: str
    columns: list[str]


class Changed(Versioned):
    """`etag` is empty if the object is gone or no longer visible to you."""

    id: str
    status: str
    message: str
    detected: NotRequired[list[Detected]]


class Registered(TypedDict):
    """A document with the ids of its citations: added and kept by this call, removed by it, and outdated already."""

    document_id: str
    added: list[str]
    kept: list[str]
    removed: list[str]
    outdated: list[str]
    not_found: list[str]


class Reported(TypedDict):
    """`reported` counts the new reports by verdict. `repeated` counts those that you had made on the same day."""

    reported: dict[str, int]
    repeated: int
    withdrawn: int
    cited: NotRequired[Registered]


class Report(TypedDict):
    """`is_settled` is true if the memory was verified, or its text changed, since the report."""

    verdict: str
    by: str
    at: str
    note: str
    is_settled: bool


class Reports(TypedDict):
    """`used` and `used_by` count reports of the last 30 days, and the people. `doubts` has the newest other reports.

    If `sees_all` is false, only your own reports are counted.
    """

    id: str
    sees_all: bool
    used: int
    used_by: int
    wrong: int
    outdated: int
    doubts: list[Report]


class Erased(Changed):
    removed: dict[str, int]
    same_words: dict[str, int]


class Scores(TypedDict):
    stage: float
    cosine: float | None
    coverage: float
    entity: float


class Hit(TypedDict):
    """A recalled memory. Keys whose values are empty or usual are left out.

    If `cut` is true, `content` is the best passage of a longer text.
    """

    id: str
    content: str
    cut: NotRequired[bool]
    created_by: str
    edited_by: NotRequired[str]
    created_at: str
    dimension: str
    category: str
    confidence: NotRequired[str]
    status: NotRequired[str]
    stale_reason: NotRequired[str]
    validity: NotRequired[str]
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    valid_while: NotRequired[str]
    condition_ended_at: NotRequired[str]
    visibility: NotRequired[str]
    last_verified: NotRequired[str]
    verified_by: NotRequired[str]
    changed_since_verified: NotRequired[bool]
    supersedes: NotRequired[str]
    superseded_by: NotRequired[str]
    tags: NotRequired[list[str]]
    entity_urns: NotRequired[list[str]]
    detected_urns: NotRequired[list[str]]
    conversation_id: NotRequired[str]
    to_verify: NotRequired[str]
    scope: NotRequired[str]
    holds_for: NotRequired[str]
    score: NotRequired[float]
    scores: NotRequired[Scores]
    check: NotRequired[str]
    match: NotRequired[str]


class Recall(TypedDict):
    """`degraded` is true if a part of the search, such as embeddings, was unavailable. `note` says what to try."""

    memories: list[Hit]
    count: int
    strategy: str
    ranking: str
    omitted: NotRequired[int]
    degraded: NotRequired[bool]
    note: NotRequired[str]
    left_out: NotRequired[dict[str, int]]
    about: NotRequired[str]


class ContextMemory(TypedDict):
    id: str
    content: str
    dimension: str
    category: str
    confidence: str
    created_by: str
    edited_by: NotRequired[str]
    created_at: str
    why: str
    scope: NotRequired[str]


class Context(TypedDict):
    """`more` has memories that did not fit. The three counts are of memories that are left out."""

    memories: list[ContextMemory]
    more: list[dict[str, str]]
    stale: int
    waiting_for_review: int
    not_valid_now: int
    about: str


class InterviewQuestion(TypedDict):
    question_id: str
    person: str
    entity_urn: str
    entity: str
    reason: str
    question: str
    memory_ids: list[str]
    asked_by: str
    asked_at: str
    state: str
    decided_at: str | None
    insight_id: NotRequired[str]
    answered_by_others: NotRequired[bool]


class Briefing(TypedDict):
    """`text` has one line for each point. `omitted` counts the points that did not fit."""

    text: str
    memory_ids: list[str]
    tokens: int
    since: str
    entities: list[str]
    omitted: NotRequired[int]
    questions: NotRequired[list[InterviewQuestion]]
    about: str

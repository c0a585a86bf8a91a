"""Types of arguments and answers. Keys and their meaning are those of the REST API's OpenAPI document."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Dimension = Literal["knowledge", "event", "entity", "relationship", "preference"]
InsightCategory = Literal[
    "correction", "business_context", "data_quality", "usage_guidance", "relationship", "enhancement"
]
Category = InsightCategory | Literal["general"]
Confidence = Literal["high", "medium", "low"]
InsightSource = Literal["user", "agent_discovery", "enrichment_gap"]
Source = InsightSource | Literal["automation", "lineage_event"]
ListedSource = Source | Literal["note"]
Visibility = Literal["private", "persona", "everyone"]
Status = Literal["active", "stale", "superseded", "archived"]
Strategy = Literal["auto", "semantic", "lexical", "entity", "graph"]
Verdict = Literal["useful", "wrong", "withdraw"]
Language = Literal["en", "de", "es", "fr", "ja"]
InsightState = Literal["pending", "approved", "applied", "rejected", "superseded"]
ChangesetState = Literal["planned", "applied", "partial", "failed", "rolled_back"]
Order = Literal["newest", "oldest"]
Tier = Literal["stm", "ltm"]


class Versioned(TypedDict):
    """`etag` is the header ETag, added by the client. Pass it to `update` and to other changes of the same object."""

    etag: str


class Column(TypedDict):
    urn: str
    column: str
    relevance: str


class Change(TypedDict):
    """A change of the catalog, to propose or to apply."""

    change_type: str
    target: NotRequired[str]
    detail: NotRequired[str]
    query_sql: NotRequired[str]
    query_description: NotRequired[str]


class Message(TypedDict):
    """A message of a conversation. `timestamp` is ISO 8601."""

    role: Literal["human", "ai"]
    content: str
    author: NotRequired[str]
    timestamp: NotRequired[str]


class Account(TypedDict):
    email: str
    persona: str
    personas: list[str]
    rights: list[str]
    is_admin: bool


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
    tags: list[str]
    entity_urns: list[str]
    detected_urns: list[str]
    related_columns: list[dict[str, str]]
    supersedes: str | None
    metadata: dict[str, Any]


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


class Remembered(Corrected):
    """`existing` is true if you had already stored this text, so that nothing was added."""

    existing: bool


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
    score: NotRequired[float]
    scores: NotRequired[Scores]


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


class Context(TypedDict):
    """`more` has memories that did not fit. `stale` and `waiting_for_review` count memories that are left out."""

    memories: list[ContextMemory]
    more: list[dict[str, str]]
    stale: int
    waiting_for_review: int
    about: str


class Question(TypedDict):
    """A curator's question about an earlier insight of yours."""

    insight_id: str
    insight_text: str
    asked_by: str
    question: str
    how: str


class Captured(TypedDict):
    insight_id: str
    status: str
    message: str
    existing: bool
    evidence: dict[str, Any]
    problems: NotRequired[list[str]]
    similar_existing: NotRequired[list[Similar]]
    detected: NotRequired[list[Detected]]
    open_questions: NotRequired[list[Question]]
    note: NotRequired[str]


class Insight(TypedDict, total=False):
    """Keys that don't apply to the insight's state are left out."""

    id: str
    insight_text: str
    category: str
    confidence: str
    source: str
    state: str
    status: str
    captured_by: str
    persona: str
    created_at: str
    entity_urns: list[str]
    related_columns: list[dict[str, str]]
    suggested_actions: list[dict[str, str]]
    replaces: str | None
    summary: str
    tags: list[str]
    wanted_visibility: str
    reviewed_by: str
    reviewed_at: str | None
    review_notes: str
    applied_by: str
    applied_at: str | None
    changeset_id: str | None
    edited_by: str
    pending_edit: dict[str, Any]
    edit_by: str
    withdrawn: bool
    seen: str
    evidence: dict[str, Any]


class OneInsight(Versioned, Insight):
    """An insight with the version that was read."""


class Answered(TypedDict):
    insight_id: str
    status: str
    message: str


class Refused(TypedDict):
    id: str
    error: str
    code: str


class Decided(TypedDict):
    """`errors` has the insights that were not decided, each with the reason."""

    updated: int
    total: int
    errors: list[Refused]
    note: NotRequired[str]


class Draft(TypedDict):
    entity_urn: str
    proposed_changes: list[dict[str, Any]]
    note: str


class ChangeState(TypedDict, total=False):
    """A change of a changeset, with the catalog's value before and after."""

    change_type: str
    does: str
    urn: str
    aspect: str
    path: list[str]
    before: Any
    was_absent: bool
    after: Any
    removes: bool
    outcome: str
    error: str
    before_is_ingested: bool
    relied_on_by: list[str]


class Usage(TypedDict, total=False):
    urn: str
    name: str
    users: list[dict[str, str]]
    users_total: int
    note: str


class Changeset(TypedDict, total=False):
    changeset_id: str
    entity_urn: str
    state: str
    catalog: str
    created_at: str
    applied_by: str
    insight_ids: list[str]
    rolled_back_by: str
    rolled_back_at: str | None
    error: str
    changes_count: int
    changes: list[ChangeState]


class Plan(TypedDict):
    """A preview. Nothing has been written."""

    confirmation_required: bool
    dry_run: bool
    entity_urn: NotRequired[str]
    changes_count: NotRequired[int]
    preview: list[ChangeState]
    replaces: NotRequired[dict[str, str]]
    chains: NotRequired[list[str]]
    removed_in_use: NotRequired[list[Usage]]
    message: str


class Applied(TypedDict):
    changeset_id: str
    entity_urn: str
    state: str
    changes_applied: int
    changes_unchanged: int
    changes: list[ChangeState]
    insights_marked_applied: int
    created_ids: list[str]
    message: str
    note: NotRequired[str]
    resulting_state: NotRequired[dict[str, Any] | None]


class RolledBack(TypedDict):
    changeset_id: str
    target_urn: str
    state: str
    reverted_changes: list[ChangeState]
    skipped_changes: list[ChangeState]
    kept_changes: list[ChangeState]
    insights_rolled_back: int
    rolled_back_by: str
    removed_in_use: NotRequired[list[Usage]]
    message: str


class Turn(Memory):
    """A message of a conversation (tier `stm`), or what was kept of several (tier `ltm`)."""

    conversation_id: str
    tier: str
    role: str
    author: str
    expires_at: str | None


class FoundTurn(TypedDict):
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


class FoundTurns(TypedDict):
    results: list[FoundTurn]
    count: int
    omitted: NotRequired[int]
    degraded: NotRequired[bool]
    note: NotRequired[str]


class Stored(TypedDict):
    stm_ids: list[str]
    count: int
    note: NotRequired[str]

"""Types of answers. Written by write_types.py from the OpenAPI document. Change that, and run it again."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from commonplace_client.types.arguments import Versioned

__all__ = [
    "Account",
    "Answered",
    "Applied",
    "Approval",
    "Briefing",
    "Captured",
    "ChangeState",
    "Changed",
    "Changeset",
    "Context",
    "ContextMemory",
    "Corrected",
    "Decided",
    "Declined",
    "Detected",
    "Draft",
    "EntityCandidate",
    "Erased",
    "FoundTurn",
    "FoundTurns",
    "History",
    "HistoryEntry",
    "Hit",
    "Insight",
    "InterviewQuestion",
    "Memory",
    "OneInsight",
    "OneMemory",
    "Plan",
    "Question",
    "Recall",
    "Refused",
    "Registered",
    "Remembered",
    "Report",
    "Reported",
    "Reports",
    "Revised",
    "RolledBack",
    "Scores",
    "Similar",
    "Stored",
    "Turn",
    "Usage",
]


class Account(TypedDict):
    email: str
    is_admin: bool
    persona: str
    personas: list[str]
    rights: list[str]


class Answered(TypedDict):
    insight_id: str
    message: str
    status: str


class ChangeState(TypedDict, total=False):
    """A change of a changeset, with the catalog's value before and after."""

    after: Any
    aspect: str
    before: Any
    before_is_ingested: bool
    change_type: str
    does: str
    error: str
    outcome: str
    path: list[str]
    relied_on_by: list[str]
    removes: bool
    urn: str
    was_absent: bool


class Applied(TypedDict):
    changes: list[ChangeState]
    changes_applied: int
    changes_unchanged: int
    changeset_id: str
    created_ids: list[str]
    entity_urn: str
    insights_marked_applied: int
    message: str
    note: NotRequired[str]
    resulting_state: NotRequired[dict[str, Any] | None]
    state: str


class InterviewQuestion(TypedDict):
    answered_by_others: NotRequired[bool]
    asked_at: str
    asked_by: str
    decided_at: str | None
    entity: str
    entity_urn: str
    insight_id: NotRequired[str]
    memory_ids: list[str]
    person: str
    question: str
    question_id: str
    reason: str
    state: str


class Briefing(TypedDict):
    """`text` has one line for each point. `omitted` counts the points that did not fit."""

    about: str
    entities: list[str]
    memory_ids: list[str]
    omitted: NotRequired[int]
    questions: NotRequired[list[InterviewQuestion]]
    since: str
    text: str
    tokens: int


class Detected(TypedDict):
    """A catalog entity that a text mentions, and those of its columns that the text names."""

    columns: list[str]
    name: str
    urn: str


class EntityCandidate(TypedDict):
    """An entity, or its column, that an unsettled memory may be about."""

    column: NotRequired[str]
    name: str
    urn: str
    why: str


class Question(TypedDict):
    """A curator's question about an earlier insight of yours."""

    asked_by: str
    how: str
    insight_id: str
    insight_text: str
    question: str


class Similar(TypedDict):
    """An existing memory with nearly the same meaning."""

    content: str
    created_by: str
    differs: NotRequired[str]
    edited_by: NotRequired[str]
    id: str
    score: float
    status: str


class Captured(TypedDict):
    detected: NotRequired[list[Detected]]
    entity_candidates: NotRequired[list[EntityCandidate]]
    evidence: dict[str, Any]
    existing: bool
    insight_id: str
    message: str
    note: NotRequired[str]
    open_questions: NotRequired[list[Question]]
    problems: NotRequired[list[str]]
    settle: NotRequired[str]
    similar_existing: NotRequired[list[Similar]]
    status: str


class Changed(Versioned, TypedDict):
    """`etag` is empty if the object is gone or no longer visible to you."""

    detected: NotRequired[list[Detected]]
    id: str
    message: str
    status: str


class Approval(TypedDict):
    at: str
    by: str
    notes: str
    verdict: str


class Changeset(TypedDict, total=False):
    applied_by: str
    approvals: list[Approval]
    catalog: str
    changes: list[ChangeState]
    changes_count: int
    changeset_id: str
    created_at: str
    entity_urn: str
    error: str
    insight_ids: list[str]
    risks: list[str]
    rolled_back_at: str | None
    rolled_back_by: str
    state: str


class ContextMemory(TypedDict):
    category: str
    confidence: str
    content: str
    created_at: str
    created_by: str
    dimension: str
    edited_by: NotRequired[str]
    id: str
    scope: NotRequired[str]
    why: str


class Context(TypedDict):
    """`more` has memories that did not fit. The three counts are of memories that are left out."""

    about: str
    memories: list[ContextMemory]
    more: list[dict[str, str]]
    not_valid_now: int
    stale: int
    waiting_for_review: int


class Memory(TypedDict):
    attachment: NotRequired[str]
    category: str
    changed_since_verified: NotRequired[bool]
    condition_ended_at: NotRequired[str]
    confidence: str
    content: str
    created_at: str
    created_by: str
    detected_urns: list[str]
    dimension: str
    edited_by: NotRequired[str]
    entity_urns: list[str]
    id: str
    last_verified: str | None
    metadata: dict[str, Any]
    persona: str
    related_columns: list[dict[str, str]]
    scope: NotRequired[str]
    source: str
    stale_at: str | None
    stale_reason: str
    status: str
    summary: str
    supersedes: str | None
    tags: list[str]
    unsettled: NotRequired[bool]
    updated_at: str
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    valid_while: NotRequired[str]
    validity: NotRequired[str]
    verified_by: NotRequired[str]
    visibility: str


class Corrected(TypedDict):
    memory: Memory
    note: str
    similar_existing: list[Similar]


class Refused(TypedDict):
    code: str
    error: str
    id: str


class Decided(TypedDict):
    """`errors` has the insights that were not decided, each with the reason."""

    errors: list[Refused]
    note: NotRequired[str]
    total: int
    updated: int


class Declined(TypedDict):
    changeset_id: str
    message: str
    state: str


class Draft(TypedDict):
    entity_urn: str
    note: str
    proposed_changes: list[dict[str, Any]]


class Erased(Versioned, TypedDict):
    """`removed` counts copies, and `same_words` other texts that the caller may read, both by the place of the
    text."""

    detected: NotRequired[list[Detected]]
    id: str
    message: str
    removed: dict[str, int]
    same_words: dict[str, int]
    status: str


class FoundTurn(TypedDict):
    _id: str
    access_count: int
    author: NotRequired[str]
    content: str
    conversation_id: str
    created_at: str
    derived_from: NotRequired[str]
    expires_at: NotRequired[str]
    final_score: NotRequired[float]
    importance: float
    memory_type: NotRequired[str]
    role: NotRequired[str]
    rrf_score: NotRequired[float]
    summary: NotRequired[str]
    tags: NotRequired[list[str]]
    tier: str
    user_id: str


class FoundTurns(TypedDict):
    count: int
    degraded: NotRequired[bool]
    note: NotRequired[str]
    omitted: NotRequired[int]
    results: list[FoundTurn]


class HistoryEntry(TypedDict):
    at: str
    by: str
    change: str
    content: str
    content_before: str | None
    id: str
    reason: str
    status: str
    visibility: str


class History(TypedDict):
    history: list[HistoryEntry]
    id: str
    omitted: NotRequired[int]
    status: str
    total: int


class Insight(TypedDict, total=False):
    """Keys that don't apply to the insight's state are left out."""

    applied_at: str | None
    applied_by: str
    captured_by: str
    category: str
    changeset_id: str | None
    check: str
    confidence: str
    created_at: str
    edit_by: str
    edited_by: str
    entity_urns: list[str]
    evidence: dict[str, Any]
    id: str
    insight_text: str
    pending_edit: dict[str, Any]
    persona: str
    related_columns: list[dict[str, str]]
    replaces: str | None
    review_notes: str
    reviewed_at: str | None
    reviewed_by: str
    seen: str
    source: str
    state: str
    status: str
    suggested_actions: list[dict[str, str]]
    summary: str
    tags: list[str]
    wanted_visibility: str
    withdrawn: bool


class OneInsight(Versioned, TypedDict, total=False):
    """An insight with the version that was read."""

    applied_at: str | None
    applied_by: str
    captured_by: str
    category: str
    changeset_id: str | None
    check: str
    confidence: str
    created_at: str
    edit_by: str
    edited_by: str
    entity_urns: list[str]
    evidence: dict[str, Any]
    id: str
    insight_text: str
    pending_edit: dict[str, Any]
    persona: str
    related_columns: list[dict[str, str]]
    replaces: str | None
    review_notes: str
    reviewed_at: str | None
    reviewed_by: str
    seen: str
    source: str
    state: str
    status: str
    suggested_actions: list[dict[str, str]]
    summary: str
    tags: list[str]
    wanted_visibility: str
    withdrawn: bool


class OneMemory(Versioned, TypedDict):
    """`chain` has the corrections of the memory, oldest first. `omitted` counts history entries that did not
    fit."""

    chain: list[Memory]
    entity_candidates: NotRequired[list[EntityCandidate]]
    history: list[HistoryEntry]
    memory: Memory
    omitted: int
    settle: NotRequired[str]


class Usage(TypedDict, total=False):
    name: str
    note: str
    urn: str
    users: list[dict[str, str]]
    users_total: int


class Plan(TypedDict):
    """A preview. Nothing has been written."""

    chains: NotRequired[list[str]]
    changes_count: NotRequired[int]
    confirmation_required: bool
    dry_run: bool
    entity_urn: NotRequired[str]
    message: str
    needs_second_approval: NotRequired[list[str]]
    preview: list[ChangeState]
    removed_in_use: NotRequired[list[Usage]]
    replaces: NotRequired[dict[str, str]]


class Scores(TypedDict):
    """The parts of a hit's score. `stage` is the score without the bonus `entity`."""

    cosine: float | None
    coverage: float
    entity: float
    stage: float


class Hit(TypedDict):
    """A recalled memory. Keys whose values are empty or usual are left out. If `cut` is true, `content` is the best
    passage of a longer text. A `distant` match may be about something else. `edited_by` reworded the text of
    `created_by`. If `changed_since_verified` is true, `verified_by` has seen another text, other entities or other
    readers."""

    category: str
    changed_since_verified: NotRequired[bool]
    check: NotRequired[str]
    condition_ended_at: NotRequired[str]
    confidence: NotRequired[str]
    content: str
    conversation_id: NotRequired[str]
    created_at: str
    created_by: str
    cut: NotRequired[bool]
    detected_urns: NotRequired[list[str]]
    dimension: str
    edited_by: NotRequired[str]
    entity_urns: NotRequired[list[str]]
    holds_for: NotRequired[str]
    id: str
    last_verified: NotRequired[str]
    match: NotRequired[str]
    scope: NotRequired[str]
    score: NotRequired[float]
    scores: NotRequired[Scores]
    stale_reason: NotRequired[str]
    status: NotRequired[str]
    superseded_by: NotRequired[str]
    supersedes: NotRequired[str]
    tags: NotRequired[list[str]]
    to_verify: NotRequired[str]
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    valid_while: NotRequired[str]
    validity: NotRequired[str]
    verified_by: NotRequired[str]
    visibility: NotRequired[str]


class Recall(TypedDict):
    """`degraded` is true if a part of the search, such as embeddings, was unavailable. `note` says what to try."""

    about: NotRequired[str]
    count: int
    degraded: NotRequired[bool]
    left_out: NotRequired[dict[str, int]]
    memories: list[Hit]
    note: NotRequired[str]
    omitted: NotRequired[int]
    ranking: str
    strategy: str


class Remembered(TypedDict):
    """`existing` is true if you had already stored this text, so that nothing was added. If the memory names no
    entity, `entity_candidates` has the likeliest ones, and `settle` says what to do."""

    entity_candidates: NotRequired[list[EntityCandidate]]
    existing: bool
    memory: Memory
    note: str
    settle: NotRequired[str]
    similar_existing: list[Similar]


class Report(TypedDict):
    """`is_settled` is true if the memory was verified, or its text changed, since the report."""

    at: str
    by: str
    is_settled: bool
    note: str
    verdict: str


class Registered(TypedDict):
    """Ids of memories. `outdated` no longer stand as cited. `not_found` don't exist, or you may not read them."""

    added: list[str]
    document_id: str
    kept: list[str]
    not_found: list[str]
    outdated: list[str]
    removed: list[str]


class Reported(TypedDict):
    """`reported` counts the new reports by verdict. `repeated` counts those that were made before on this day."""

    cited: NotRequired[Registered]
    repeated: int
    reported: dict[str, int]
    withdrawn: int


class Reports(TypedDict):
    """The reports about a memory. `used` and `used_by` count reports of the last 30 days, and the people. `doubts`
    has the newest reports as wrong or outdated. `is_settled` is true if the memory was verified, or its text
    changed, since. If `sees_all` is false, only your own reports are counted."""

    doubts: list[Report]
    id: str
    outdated: int
    sees_all: bool
    used: int
    used_by: int
    wrong: int


class Revised(Versioned, TypedDict):
    memory: Memory
    message: str


class RolledBack(TypedDict):
    changeset_id: str
    insights_rolled_back: int
    kept_changes: list[ChangeState]
    message: str
    removed_in_use: NotRequired[list[Usage]]
    reverted_changes: list[ChangeState]
    rolled_back_by: str
    skipped_changes: list[ChangeState]
    state: str
    target_urn: str


class Stored(TypedDict):
    count: int
    note: NotRequired[str]
    stm_ids: list[str]


class Turn(TypedDict):
    """A message of a conversation (tier `stm`), or what was kept of several (tier `ltm`)."""

    attachment: NotRequired[str]
    author: str
    category: str
    changed_since_verified: NotRequired[bool]
    condition_ended_at: NotRequired[str]
    confidence: str
    content: str
    conversation_id: str
    created_at: str
    created_by: str
    detected_urns: list[str]
    dimension: str
    edited_by: NotRequired[str]
    entity_urns: list[str]
    expires_at: str | None
    id: str
    last_verified: str | None
    metadata: dict[str, Any]
    persona: str
    related_columns: list[dict[str, str]]
    role: str
    scope: NotRequired[str]
    source: str
    stale_at: str | None
    stale_reason: str
    status: str
    summary: str
    supersedes: str | None
    tags: list[str]
    tier: str
    unsettled: NotRequired[bool]
    updated_at: str
    valid_from: NotRequired[str]
    valid_until: NotRequired[str]
    valid_while: NotRequired[str]
    validity: NotRequired[str]
    verified_by: NotRequired[str]
    visibility: str

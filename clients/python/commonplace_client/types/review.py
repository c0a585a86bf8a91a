"""Answers about insights and changesets."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from commonplace_client.types.arguments import Versioned
from commonplace_client.types.memories import Detected, EntityCandidate, Similar


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
    entity_candidates: NotRequired[list[EntityCandidate]]
    settle: NotRequired[str]


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
    check: str


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


class Approval(TypedDict):
    by: str
    at: str
    verdict: str
    notes: str


class Declined(TypedDict):
    changeset_id: str
    state: str
    message: str


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
    risks: list[str]
    approvals: list[Approval]
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
    needs_second_approval: NotRequired[list[str]]
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

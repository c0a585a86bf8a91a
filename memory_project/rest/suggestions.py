"""Suggestions of the caller, and what hooks of agents stage there."""

from __future__ import annotations

from collections.abc import Sequence

import django_filters
from typing_extensions import TypedDict

from foundation.operations.errors import Forbidden
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from knowledge.mcp_tools.capture import capture_insight
from knowledge.models import Suggestion, SuggestionKind, SuggestionState
from knowledge.suggestions import decisions, queries, staging
from knowledge.suggestions.operations import (
    INSIGHT,
    Discard,
    Keep,
    NeverAgain,
    ShowSuggestion,
    StageCandidates,
    UndoDecisions,
)
from memories.mcp_tools import memory_manage
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.hooks import TAG as HOOKS
from memory_project.rest.lists import Listing, each

TAG = "suggestions"


class SuggestionResponse(TypedDict):
    id: str
    kind: str
    text: str
    evidence: str
    entities: list[str]
    source: str
    program: str
    repository: str
    times_seen: int
    state: str
    created_at: str
    decided_at: str | None
    expires_at: str | None
    memory_id: str | None


class KeptResponse(TypedDict):
    suggestion: SuggestionResponse
    memory_id: str
    existing: bool


class DecidedResponse(TypedDict):
    suggestions: list[SuggestionResponse]
    count: int


class StagedResponse(TypedDict):
    staged: int
    known: int
    left_out: int


class SuggestionFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=SuggestionState.choices)
    kind = django_filters.ChoiceFilter(choices=SuggestionKind.choices)


def _response(row: Suggestion) -> SuggestionResponse:
    return response_of(SuggestionResponse, row, memory_id=row.record_id)


def _show(caller: Caller, operation: ShowSuggestion) -> SuggestionResponse:
    return _response(queries.suggestion(caller, operation.suggestion_id))


def _stage(caller: Caller, operation: StageCandidates) -> StagedResponse:
    staged = staging.stage(caller, operation)
    return {"staged": staged.staged, "known": staged.known, "left_out": staged.left_out}


def _keep(caller: Caller, operation: Keep) -> KeptResponse:
    # Keeping stores what these tools store, so a persona that may not use them may not keep either.
    tool = capture_insight.name if operation.keep_as == INSIGHT else memory_manage.name
    choice = "" if operation.keep_as == INSIGHT else "remember"
    if not caller.may_use(tool, choice):
        raise Forbidden(f"the persona {caller.persona!r} may not use {f'{tool} {choice}'.strip()}")
    kept = decisions.keep(caller, operation)
    return {"suggestion": _response(kept.suggestion), "memory_id": kept.record.pk.hex, "existing": kept.existing}


def _decided(rows: Sequence[Suggestion]) -> DecidedResponse:
    return {"suggestions": [_response(row) for row in rows], "count": len(rows)}


def _discard(caller: Caller, operation: Discard) -> DecidedResponse:
    return _decided(decisions.discard(caller, operation))


def _never_again(caller: Caller, operation: NeverAgain) -> DecidedResponse:
    return _decided(decisions.never_again(caller, operation))


def _undo(caller: Caller, operation: UndoDecisions) -> DecidedResponse:
    return _decided(decisions.undo(caller, operation))


LIST = Listing(
    "list_suggestions",
    queries.suggestions,
    each(_response),
    SuggestionResponse,
    SuggestionFilter,
    summary="List your suggestions",
)
ONE = "suggestions/<id:suggestion_id>/"

urlpatterns = [
    route(HOOKS, "hooks/candidates/", post=Endpoint("stage_candidates", _stage)),
    route(TAG, "suggestions/", get=LIST),
    route(TAG, "suggestions/discard/", post=Endpoint("discard_suggestions", _discard)),
    route(TAG, "suggestions/never-again/", post=Endpoint("never_suggest_again", _never_again)),
    route(TAG, "suggestions/undo/", post=Endpoint("undo_suggestions", _undo)),
    route(TAG, ONE, get=Endpoint("show_suggestion", _show)),
    route(TAG, f"{ONE}keep/", post=Endpoint("keep_suggestion", _keep)),
]

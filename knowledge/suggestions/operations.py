"""Operations on suggestions."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from foundation.operations.fields import FORBID, Content, Id, OneOf, Text
from foundation.operations.operation import Operation
from knowledge.models import SuggestionKind
from knowledge.operations import CATEGORIES
from memories.models import Visibility
from memories.operations import VisibilityName

MIN_TEXT, MAX_TEXT = 30, 500  # characters of a candidate
MAX_ENTITIES = 10
MAX_CANDIDATES = 10  # per call
MAX_DECIDED = 200  # suggestions that one call decides about
# Kinds that sessions have. A question without an answer is found in the audit log, by the server alone.
KINDS_IN_SESSIONS = [
    SuggestionKind.DECISION.value, SuggestionKind.CORRECTION.value, SuggestionKind.FAILED_STATEMENT.value,
]  # fmt: skip
MEMORY, INSIGHT = "memory", "insight"

SuggestionIds = Annotated[list[Id], Field(min_length=1, max_length=MAX_DECIDED, description="Ids of suggestions.")]
SuggestionId = Annotated[Id, Field(description="Id of the suggestion.")]


@with_config(FORBID)
class GivenCandidate(TypedDict):
    """Something found in a session."""

    kind: Annotated[str, OneOf(KINDS_IN_SESSIONS)]
    text: Annotated[str, Text(MIN_TEXT, MAX_TEXT)]
    evidence: NotRequired[Annotated[str, Text(0, MAX_TEXT)]]
    entities: NotRequired[Annotated[list[Annotated[str, Text(1, 200)]], Field(max_length=MAX_ENTITIES)]]


class StageCandidates(Operation):
    """Put what rules found in a session into the caller's inbox of suggestions"""

    session: Annotated[str, Text(1, 200)] = Field(description="The program's name of the session.")
    program: Annotated[str, Text(0, 40)] = Field("", description="The agent's program, such as claude-code.")
    repository: Annotated[str, Text(0, 200)] | None = Field(None, description="host/owner/name of its git remote.")
    candidates: Annotated[list[GivenCandidate], Field(max_length=MAX_CANDIDATES)]


class ShowSuggestion(Operation):
    """Show a suggestion of yours"""

    suggestion_id: SuggestionId


class Keep(Operation):
    """Keep a suggestion, as a memory or as an insight that a curator reviews"""

    suggestion_id: SuggestionId
    content: Content | None = Field(None, description="Another text; the suggested one if not given.")
    keep_as: Annotated[str, OneOf((MEMORY, INSIGHT))] = Field(MEMORY, description="What it becomes.")
    visibility: VisibilityName = Field(
        Visibility.PRIVATE.value, description="Readers; of an insight, once it is approved."
    )
    category: Annotated[str, OneOf(CATEGORIES)] | None = Field(
        None, description="Kind of knowledge; by the kind of suggestion if not given."
    )


class DecideSuggestions(Operation):
    """Decide about suggestions"""

    suggestion_ids: SuggestionIds


class Discard(DecideSuggestions):
    """Discard suggestions"""


class NeverAgain(DecideSuggestions):
    """Discard suggestions, and never suggest them or texts like them again"""


class UndoDecisions(DecideSuggestions):
    """Undo the decisions about suggestions of yours"""

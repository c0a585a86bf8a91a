"""Operations on interviews."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from foundation.operations.fields import Content, EntityUrn, Id, OneOf, Text, if_any
from foundation.operations.operation import Operation
from knowledge.operations import CATEGORIES
from memories.operations import VisibilityName

SKIP, UNKNOWN, PASS = "skip", "unknown", "pass"
QuestionId = Annotated[Id, Field(description="Id of the question.")]


class AskQuestions(Operation):
    """Ask yourself, or as a curator another person, what is missing about the entities that the person may know"""

    person: Annotated[str, Text(0, 254)] = Field("", description="E-mail address; yourself if not given.")
    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="Only about this entity.")


class AnswerInterview(Operation):
    """Answer a question of an interview, as an insight of yours that a curator reviews"""

    question_id: QuestionId
    content: Content = Field(description="The answer, in your words.")
    category: Annotated[str, OneOf(CATEGORIES)] | None = Field(
        None, description="Kind of knowledge; by the reason of the question if not given."
    )
    visibility: VisibilityName = Field("persona", description="Readers once it is approved.")


class PassOver(Operation):
    """Leave a question of an interview without an answer"""

    question_id: QuestionId
    because: Annotated[str, OneOf((SKIP, UNKNOWN, PASS))] = Field(
        SKIP, description="skip: not now; unknown: you don't know; pass: somebody else should answer."
    )
    to: Annotated[str, Text(0, 254)] = Field("", description="With pass: e-mail address of that person.")


class UndoAnswer(Operation):
    """Open a question of yours again, and withdraw its answer; or take back a question that you have asked"""

    question_id: QuestionId


class ListDebts(Operation):
    """List entities by what is missing about them"""

    persona: Annotated[str, Text(0, 60)] = Field("", description="Only memories of this persona; * for everyone's.")
    domain: Annotated[str, Text(0, 500)] = Field("", description="Only entities of this domain, by URN.")
    query: Annotated[str, Text(0, 200)] = Field("", description="Part of the name.")
    reason: Annotated[str, Text(0, 20)] = Field(
        "", description="Only with contested, unanswered, stale, questions or no_description."
    )
    cursor: Annotated[str, Text(0, 600)] = Field("", description="`next` of the page before.")
    limit: Annotated[int, Field(ge=1, le=100)] = Field(20, description="How many entities.")

"""Operations on interviews."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from knowledge.operations import CATEGORIES
from memories.contract.fields import Content, EntityUrn, Id, OneOf, Text, if_any
from memories.contract.operations import Operation
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
    visibility: VisibilityName = Field("persona", description="Who may read it once approved.")


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

"""The capture_insight tool: propose an insight, appeal a rejection, or answer a curator's question."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from foundation.operations.display import show_invisible
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from knowledge.context import caveat_waivers
from knowledge.debt import interviews, questions
from knowledge.debt.operations import SKIP, UNKNOWN, AnswerInterview, PassOver
from knowledge.insights.capture import capture
from knowledge.models import CaveatWaiver
from knowledge.operations import AnswerQuestion, Appeal, Capture, Reinstate, Waive
from knowledge.review import clarifications, decisions, evidence
from knowledge.review.review_page import problems_of
from memories.responses import (
    DetectedResponse,
    SimilarResponse,
    UnsettledResponse,
    detected_response,
    similar_response,
    unsettled_response,
)

MAX_QUESTIONS = 5
HOW_TO_ANSWER = (
    "call capture_insight with this insight_id as `answers` and the answer as `insight_text`; "
    "if you do not know the answer, ask your user"
)


class AppealResponse(TypedDict):
    insight_id: str
    status: str
    message: str


class WaiverResponse(TypedDict):
    """`column` is "" if the whole entity is meant."""

    id: str
    entity_urn: str
    column: str
    message: str


class QuestionResponse(TypedDict):
    insight_id: str
    insight_text: str
    asked_by: str
    question: str
    how: str


class CaptureResponse(AppealResponse, UnsettledResponse):
    existing: bool
    evidence: dict[str, Any]
    problems: NotRequired[list[str]]
    similar_existing: NotRequired[list[SimilarResponse]]
    detected: NotRequired[list[DetectedResponse]]
    open_questions: NotRequired[list[QuestionResponse]]
    note: NotRequired[str]


def _appeal(caller: Caller, operation: Appeal) -> AppealResponse:
    insight = decisions.appeal(caller, operation)
    return {"insight_id": insight.pk.hex, "status": insight.state, "message": "appealed; a curator will look again"}


def _answer(caller: Caller, operation: AnswerQuestion) -> AppealResponse:
    if questions.own(caller).filter(pk=operation.insight_id).exists():
        return _answer_interview(caller, operation)
    insight = clarifications.answer(caller, operation)
    return {"insight_id": insight.pk.hex, "status": insight.state, "message": "answered; a curator will look again"}


def _waive(caller: Caller, operation: Waive) -> WaiverResponse:
    return _waiver_response(caveat_waivers.waive(caller, operation), "the caveat is no longer shown there")


def _reinstate(caller: Caller, operation: Reinstate) -> WaiverResponse:
    return _waiver_response(caveat_waivers.reinstate(caller, operation), "the caveat is shown there again")


def _waiver_response(waiver: CaveatWaiver, message: str) -> WaiverResponse:
    return {"id": waiver.record_id.hex, "entity_urn": waiver.urn, "column": waiver.column, "message": message}


def _answer_interview(caller: Caller, operation: AnswerQuestion) -> AppealResponse:
    text = operation.notes.strip()
    if text in (SKIP, UNKNOWN):
        passed = PassOver.read({"question_id": operation.insight_id.hex, "because": text})
        question = interviews.pass_over(caller, passed)
        return {"insight_id": "", "status": question.state, "message": "noted; there is no insight"}
    try:
        given = AnswerInterview.read({"question_id": operation.insight_id.hex, "content": text})
    except Invalid as error:
        # The argument `content` of AnswerInterview is called `insight_text` in this tool.
        allowed = f"{error.allowed}; or {SKIP}, {UNKNOWN}"
        raise Invalid(error.fault, field="insight_text", allowed=allowed) from None
    insight = interviews.answer(caller, given).insight
    return {"insight_id": insight.pk.hex, "status": insight.state, "message": "captured; a curator will review it"}


def _open_questions(caller: Caller) -> list[QuestionResponse]:
    found: list[QuestionResponse] = []
    for insight in clarifications.open_questions(caller)[:MAX_QUESTIONS]:
        if question := clarifications.question_of(insight):
            text = show_invisible(insight.record.content)
            found.append(
                QuestionResponse(
                    insight_id=insight.pk.hex,
                    insight_text=text,
                    asked_by=question.by,
                    question=question.notes,
                    how=HOW_TO_ANSWER,
                )
            )
    return found


def _capture(caller: Caller, operation: Capture) -> CaptureResponse:
    captured = capture(caller, operation)
    insight = captured.insight
    response: CaptureResponse = {
        "insight_id": insight.pk.hex,
        "status": insight.state,
        "message": "this is already captured" if captured.existing else "captured; a curator will review it",
        "existing": captured.existing,
        "evidence": evidence.evidence_for(insight),
    }
    if problems := problems_of(insight):
        response["problems"] = problems
    if captured.similar:
        response["similar_existing"] = [similar_response(similar) for similar in captured.similar]
    if open_questions := _open_questions(caller):
        response["open_questions"] = open_questions
    if captured.note:
        response["note"] = captured.note
    if detected := detected_response(insight.record):
        response["detected"] = detected
    return {**response, **unsettled_response(caller, insight.record)}


capture_insight = Tool(
    name="capture_insight",
    toolset="knowledge",
    title="Capture an insight",
    description="Propose a fact for the data catalog, where everyone who works with the data finds it. A curator "
    "reviews it first.\n\nFor what only you or your team needs, use memory_manage. The response shows what the catalog "
    "says now: tell your user if that disagrees.",
    choices={"": _capture, "appeals": _appeal, "answers": _answer, "waives": _waive, "reinstates": _reinstate},
    rare=("valid_while", "scope", "check", "observation_id", "waives", "reinstates"),
)

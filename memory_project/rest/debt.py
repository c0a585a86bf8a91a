"""Knowledge debt, for curators, and the questions of interviews."""

from __future__ import annotations

import django_filters
from typing_extensions import TypedDict

from foundation.people.caller import Caller
from knowledge.debt import interviews, questions
from knowledge.debt.operations import AnswerInterview, PassOver, UndoAnswer
from knowledge.debt.responses import (
    InterviewQuestionResponse,
    ask,
    list_debts,
    question_items,
)
from knowledge.mcp_tools.capture import capture_insight
from knowledge.models import InterviewQuestion, QuestionState
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing

TAG = "knowledge debt"


class AnsweredResponse(TypedDict):
    question: InterviewQuestionResponse
    insight_id: str
    existing: bool


class QuestionFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=QuestionState.choices)


def _one(caller: Caller, question: InterviewQuestion) -> InterviewQuestionResponse:
    return question_items(caller, [question])[0]


def _answer(caller: Caller, operation: AnswerInterview) -> AnsweredResponse:
    captured = interviews.answer(caller, operation)
    question = questions.own_question(caller, operation.question_id)
    return {
        "question": _one(caller, question),
        "insight_id": captured.insight.pk.hex,
        "existing": captured.existing,
    }


def _pass_over(caller: Caller, operation: PassOver) -> InterviewQuestionResponse:
    return _one(caller, interviews.pass_over(caller, operation))


def _undo(caller: Caller, operation: UndoAnswer) -> InterviewQuestionResponse:
    return _one(caller, interviews.undo(caller, operation))


LIST = Listing(
    "list_interview_questions",
    questions.own,
    question_items,
    InterviewQuestionResponse,
    QuestionFilter,
    summary="List the questions of interviews that you are asked",
)
ONE = "interview/questions/<id:question_id>/"

urlpatterns = [
    route(TAG, "debt/", get=Endpoint("list_debts", list_debts)),
    route(TAG, "interview/questions/", get=LIST, post=Endpoint("ask_questions", ask)),
    # Answering stores what this tool stores, so a persona that may not use it may not answer either.
    route(TAG, f"{ONE}answer/", post=Endpoint("answer_interview_question", _answer, capture_insight.name, "answers")),
    route(TAG, f"{ONE}pass/", post=Endpoint("pass_over_question", _pass_over)),
    route(TAG, f"{ONE}undo/", post=Endpoint("undo_interview_answer", _undo)),
]

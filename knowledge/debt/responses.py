"""The shapes of debts and questions in answers of tools and of the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired

from typing_extensions import TypedDict

from foundation.operations.display import show_invisible
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from knowledge.debt import experts, interviews, questions
from knowledge.debt.computation import computed_at
from knowledge.debt.operations import AskQuestions, ListDebts
from knowledge.debt.queries import Debt, DebtFilter, debt_page
from knowledge.debt.questions import ShownQuestion
from knowledge.models import InterviewQuestion

HOW_TO_ANSWER = (
    "Ask the person these questions, and answer none yourself. Per answer: capture_insight with the question_id as "
    "`answers` and the person's own words as insight_text; `skip` or `unknown` if the person does not answer."
)


class ExpertResponse(TypedDict):
    email: str
    why: str


class DebtResponse(TypedDict):
    """Numbers of calls are 0 unless enough different people made them."""

    urn: str
    name: str
    entity_type: str
    domain: str
    score: float
    calls: int
    recalled: int
    unanswered: int
    memories: int
    stale: int
    stale_since: str | None
    contested: int
    questions: int
    has_description: bool
    answers: int
    experts: list[ExpertResponse]


class DebtListResponse(TypedDict):
    items: list[DebtResponse]
    next: str
    computed_at: str | None


class InterviewQuestionResponse(TypedDict):
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


class InterviewResponse(TypedDict):
    questions: list[InterviewQuestionResponse]
    how: str


def list_debts(caller: Caller, operation: ListDebts) -> DebtListResponse:
    """List entities by what is missing about them"""
    chosen = DebtFilter(operation.persona, operation.domain, operation.query, operation.reason)
    page = debt_page(caller, chosen, operation.cursor, size=operation.limit)
    people = experts.experts(caller, [row.urn for row in page.rows])
    at = computed_at()
    return {
        "items": [debt_response(row, people.get(row.urn, ())) for row in page.rows],
        "next": page.after,
        "computed_at": at.isoformat() if at else None,
    }


def debt_response(row: Debt, people: Sequence[experts.Expert]) -> DebtResponse:
    return response_of(
        DebtResponse,
        row,
        name=show_invisible(row.name),
        score=round(row.score, 3),
        has_description=not row.no_description,
        experts=[{"email": expert.email, "why": expert.why} for expert in people],
    )


def question_response(shown: ShownQuestion) -> InterviewQuestionResponse:
    row = shown.question
    return response_of(
        InterviewQuestionResponse,
        row,
        question_id=row.pk,
        person=row.owner,
        entity_urn=row.urn,
        entity=show_invisible(shown.name),
        question=show_invisible(shown.text),
        memory_ids=[record.pk.hex for record in shown.records],
        asked_at=row.created_at,
        insight_id=row.record_id,
        answered_by_others=shown.is_answered_by_others,
    )


def question_items(caller: Caller, rows: Sequence[InterviewQuestion]) -> list[InterviewQuestionResponse]:
    return [question_response(shown) for shown in questions.shown(caller, rows)]


def interview(caller: Caller) -> list[InterviewQuestionResponse]:
    """Return all open questions to the caller, and ask new ones first if the caller could answer them here.

    A connection that may only read can't answer, and nothing is stored through it.
    """
    if caller.may_use("capture_insight"):
        interviews.ask(caller, AskQuestions())
    return question_items(caller, list(questions.open_questions(caller)[: interviews.MAX_OPEN]))


def ask(caller: Caller, operation: AskQuestions) -> InterviewResponse:
    asked = interviews.ask(caller, operation)
    return {"questions": question_items(caller, asked), "how": HOW_TO_ANSWER}

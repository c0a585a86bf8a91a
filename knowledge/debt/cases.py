"""Questions of interviews as cases of the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import (
    Case,
    CaseKind,
    CaseVerdict,
    Decided,
    PastVerdict,
    decided_row,
    parse_case_id,
    undo_token_of,
)
from foundation.people.caller import Caller
from knowledge.debt import interviews, questions
from knowledge.debt.operations import PASS, SKIP, UNKNOWN, AnswerInterview, PassOver, UndoAnswer
from knowledge.debt.questions import ShownQuestion
from knowledge.models import InterviewQuestion


def _answer(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    captured = interviews.answer(caller, AnswerInterview.read({**values, "question_id": case_id}))
    message = gettext("It was there already.") if captured.existing else gettext("Proposed. A curator will review it.")
    return Decided(
        message, undo_token_of(questions.own_question(caller, parse_case_id(case_id))), captured.insight.pk.hex
    )


def _pass_over(because: str, caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    question = interviews.pass_over(caller, PassOver.read({**values, "question_id": case_id, "because": because}))
    return Decided(gettext("Noted."), undo_token_of(question))


class QuestionCases(CaseKind):
    name = "question"
    title = gettext_lazy("Questions")
    label = gettext_lazy("Question")
    verdicts = (
        # An answer stores what this tool stores.
        CaseVerdict(
            "answer",
            gettext_lazy("Propose as insight"),
            _answer,
            fields=("content", "category", "visibility"),
            tool="capture_insight",
            command="answers",
        ),
        CaseVerdict(SKIP, gettext_lazy("Skip"), partial(_pass_over, SKIP), key="s", takes_many=True),
        CaseVerdict(UNKNOWN, gettext_lazy("I don’t know"), partial(_pass_over, UNKNOWN), key="n", takes_many=True),
        CaseVerdict(PASS, gettext_lazy("Pass on"), partial(_pass_over, PASS), fields=("to",)),
    )

    def waiting(self, caller: Caller) -> QuerySet[InterviewQuestion]:
        return questions.open_questions(caller)

    def cases(self, caller: Caller, rows: Sequence[InterviewQuestion]) -> list[Case]:
        return [
            Case(self, shown.question.pk.hex, shown.question.created_at, shown.text, shown)
            for shown in questions.shown(caller, rows, with_experts=True)
        ]

    def summary(self, caller: Caller) -> Mapping[str, Any]:
        return {"has_room": questions.open_questions(caller).count() < interviews.MAX_OPEN}

    def past(self, caller: Caller) -> list[PastVerdict]:
        rows = list(questions.decided(caller)[: questions.MAX_DECIDED])
        return [
            PastVerdict(
                _with_answer(shown),
                shown.question.get_state_display(),
                shown.question.decided_at,
                undo_token_of(shown.question),
                shown.question.record_id.hex if shown.question.record_id else "",
            )
            for shown in questions.shown(caller, rows)
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        question = decided_row(questions.own(caller), undo_token)  # not one that the caller has asked others
        interviews.undo(caller, UndoAnswer(question_id=question.pk))


def _with_answer(shown: ShownQuestion) -> str:
    answer = shown.question.record
    return f"{shown.text} {answer.content}" if answer else shown.text

"""Ends of interview questions. They are announced, so that the notifications of those who were asked end, too."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict
from knowledge import extensions
from knowledge.models import InterviewQuestion
from knowledge.models import QuestionState as State


def decide(question: InterviewQuestion, state: State, **values: object) -> None:
    """Set the state of an open question. Raises Conflict if it was decided meanwhile."""
    rows = InterviewQuestion.objects.filter(pk=question.pk, state=State.OPEN)
    if not rows.update(state=state, decided_at=timezone.now(), **values):
        raise Conflict(gettext("was decided meanwhile"), field="question_id")
    question.state = state
    extensions.question_decided(question)


def close_all(rows: QuerySet[InterviewQuestion]) -> int:
    """Close those of these questions that are open. Return how many these were."""
    with transaction.atomic():
        questions = list(rows.filter(state=State.OPEN).select_for_update().order_by("pk"))
        closed = InterviewQuestion.objects.filter(pk__in=[question.pk for question in questions])
        closed.update(state=State.CLOSED, decided_at=timezone.now())
        for question in questions:
            question.state = State.CLOSED
            extensions.question_decided(question)
    return len(questions)

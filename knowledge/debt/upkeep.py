"""Changes to questions and counts when a memory is erased or a person's data are wiped."""

from __future__ import annotations

from uuid import UUID

from django.db.models import F, Func, UUIDField, Value
from django.utils import timezone

from knowledge.models import InterviewQuestion, QuestionState


def remove_record(record_id: UUID) -> int:
    """Close the questions that an erased memory has answered, and take it out of others. Return how many changed.

    A closed question may be asked again at once, because its answer is gone.
    """
    values = {"state": QuestionState.CLOSED, "record": None, "stored_new": False, "decided_at": timezone.now()}
    answered = InterviewQuestion.objects.filter(record=record_id).update(**values)
    without = Func(F("record_ids"), Value(record_id, UUIDField()), function="array_remove")
    about = InterviewQuestion.objects.filter(record_ids__contains=[record_id]).update(record_ids=without)
    return answered + about

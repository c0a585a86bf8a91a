"""The texts of questions, made from the reason in the language of the reader."""

from __future__ import annotations

from django.utils.formats import date_format
from django.utils.timezone import localtime
from django.utils.translation import gettext

from knowledge.models import DebtReason, InterviewQuestion
from memories.models import Category

# The kind of knowledge that an answer is, unless its author chooses another.
CATEGORIES: dict[str, str] = {
    DebtReason.CONTESTED: Category.CORRECTION.value,
    DebtReason.UNANSWERED: Category.USAGE_GUIDANCE.value,
    DebtReason.STALE: Category.CORRECTION.value,
    DebtReason.NO_DESCRIPTION: Category.BUSINESS_CONTEXT.value,
}


def question_text(question: InterviewQuestion, name: str) -> str:
    """Return the question as one or two sentences. `name` is the entity's name."""
    values = {"name": name}
    match question.reason:
        case DebtReason.CONTESTED if len(question.record_ids) > 1:
            return gettext("Two memories about %(name)s contradict each other. Which one holds, and why?") % values
        case DebtReason.CONTESTED:
            return gettext("A memory about %(name)s is contested. What holds, and how do you know?") % values
        case DebtReason.UNANSWERED:
            return gettext("People looked for %(name)s and found nothing. What should they know about it?") % values
        case DebtReason.STALE if question.since:
            day = date_format(localtime(question.since), "DATE_FORMAT")
            return gettext("What is known about %(name)s has been stale since %(day)s. What holds today?") % {
                "name": name,
                "day": day,
            }
        case DebtReason.STALE:
            return gettext("What is known about %(name)s is stale. What holds today?") % values
    return gettext("The catalog has no description of %(name)s. What is in it, and what is it used for?") % values

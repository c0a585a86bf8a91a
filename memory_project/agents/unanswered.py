"""Suggestions from recalls: a person whose agents ask the same thing again and again, and find nothing, learns of it.

Only a person's own recalls count. A number of recalls of others would tell what others ask.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Lower, Trim, TruncDate
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from knowledge.suggestions import staging
from memory_project.accounts import mail
from memory_project.agents.conversations import caller_of
from memory_project.audit import RECALL
from memory_project.models import AuditEvent, User

WITHIN = timedelta(days=30)
MIN_TIMES = 5
MIN_DAYS = 2  # an agent that repeats itself within one task is no sign that something is missing
MAX_QUESTIONS = 500  # per run
MIN_QUESTION = 10  # characters


def stage_questions_without_answers() -> str:
    """Suggest that people write down what their agents don't find. Return a summary for the operator."""
    recalls = AuditEvent.objects.filter(tool=RECALL, at__gte=timezone.now() - WITHIN).exclude(email="").order_by()
    recalls = recalls.annotate(question=Trim(Lower(KeyTextTransform("query", "arguments"))))
    asked = recalls.filter(hits=0).values("email", "question")
    asked = asked.annotate(times=Count("pk"), days=Count(TruncDate("at"), distinct=True))
    repeated = asked.filter(times__gte=MIN_TIMES, days__gte=MIN_DAYS).order_by("-times", "email", "question")
    staged = 0
    for row in list(repeated[:MAX_QUESTIONS]):
        is_answered = recalls.filter(email=row["email"], question=row["question"], hits__gt=0).exists()
        # the audit log has the length instead of a long text
        is_whole = len(row["question"] or "") >= MIN_QUESTION and not row["question"].startswith("[")
        if is_whole and not is_answered:
            staged += _stage(row["email"], row["question"], row["times"])
    return f"{staged} suggestions"


def _stage(email: str, question: str, times: int) -> int:
    caller = caller_of(email)
    if caller is None:
        return 0
    with identity.acting_as(caller), mail.in_language_of(User.objects.get(email=email)):
        # The text has no number, so that the same question is suggested once.
        text = gettext("Nothing is known about: %(question)s") % {"question": question}
        evidence = gettext("Your agents asked it %(count)s times in 30 days, and found no memory.") % {"count": times}
        return staging.stage_questions(caller, [(text, evidence)]).staged

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import MemoryRecord

EVERYONE = "*"  # the scope of rows that everyone may read; no persona has this name


class EntityUse(models.Model):
    """Number of one person's calls about an entity in one week. Derived from the audit log and impressions."""

    # No part of a hand-over: it is about what one person knows and did.
    person_columns = (PersonColumn("owner"),)

    id = models.BigAutoField(primary_key=True)
    urn = models.CharField(max_length=500)
    persona = models.CharField(max_length=60, help_text=gettext_lazy("The persona of the calls; * for none."))
    owner = models.CharField(max_length=254, help_text=gettext_lazy("The person who called."))
    week = models.DateField(help_text=gettext_lazy("The Monday of the week, in UTC."))
    calls = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Calls that named the entity."))
    unanswered = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Those that found no memory."))
    recalled = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Memories about it that were attached."))

    class Meta:
        db_table = "entity_uses"
        constraints = [
            models.UniqueConstraint(fields=["urn", "persona", "owner", "week"], name="entity_use_once_a_week")
        ]
        indexes = [
            models.Index(fields=["owner", "urn"], name="entity_use_of_person"),  # an interview, and a wipe
            models.Index(fields=["week"], name="entity_use_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.urn} in the week of {self.week}"


class EntityDebt(models.Model):
    """Gaps of the memories about an entity, for one persona or for everyone. Derived, as of the last run.

    Numbers of calls are 0 unless enough different people made them (DEBT_MIN_PEOPLE).
    """

    id = models.BigAutoField(primary_key=True)
    urn = models.CharField(max_length=500)
    persona = models.CharField(max_length=60, help_text=gettext_lazy("Who may read the row; * for everyone."))
    name = models.CharField(max_length=500)
    entity_type = models.CharField(max_length=60, blank=True)
    domain = models.CharField(max_length=500, blank=True)
    calls = models.PositiveIntegerField(default=0)
    recalled = models.PositiveIntegerField(default=0)
    unanswered = models.PositiveIntegerField(default=0)
    memories = models.PositiveIntegerField(default=0)
    stale = models.PositiveIntegerField(default=0)
    stale_since = models.DateTimeField(null=True, blank=True)
    contested = models.PositiveIntegerField(default=0)
    questions = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Open questions to authors of insights."))
    no_description = models.PositiveSmallIntegerField(default=0)
    answers = models.PositiveIntegerField(default=0, help_text=gettext_lazy("Answers in interviews, which halve it."))

    class Meta:
        db_table = "entity_debts"
        constraints = [models.UniqueConstraint(fields=["urn", "persona"], name="entity_debt_once_a_persona")]
        indexes = [models.Index(fields=["persona", "urn"], name="entity_debt_of_persona")]

    def __str__(self) -> str:
        return self.name


class DebtReason(models.TextChoices):
    """Reason for asking a question, the most urgent first."""

    CONTESTED = "contested", gettext_lazy("Contested")
    UNANSWERED = "unanswered", gettext_lazy("Nothing found")
    STALE = "stale", gettext_lazy("Stale")
    NO_DESCRIPTION = "no_description", gettext_lazy("No description")


class QuestionState(models.TextChoices):
    OPEN = "open", gettext_lazy("Not answered yet")
    ANSWERED = "answered", gettext_lazy("Answered")
    SKIPPED = "skipped", gettext_lazy("Skipped")
    UNKNOWN = "unknown", gettext_lazy("Not known to this person")
    PASSED = "passed", gettext_lazy("Passed to somebody else")
    CLOSED = "closed", gettext_lazy("No longer needed")


class InterviewQuestion(models.Model):
    """A question to one person about an entity. Its text is made from the reason when it is shown."""

    # No part of a hand-over: it is about what one person knows and did.
    person_columns = (
        PersonColumn("owner"),
        PersonColumn("asked_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.CharField(max_length=254, help_text=gettext_lazy("The person who is asked."))
    urn = models.CharField(max_length=500)
    reason = models.CharField(max_length=20, choices=DebtReason.choices)
    record_ids = ArrayField(
        models.UUIDField(), default=list, blank=True, help_text=gettext_lazy("The memories that it is about.")
    )
    since = models.DateTimeField(null=True, blank=True, help_text=gettext_lazy("Since when they are stale."))
    asked_by = models.CharField(max_length=254)
    created_at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=QuestionState.choices, default=QuestionState.OPEN)
    decided_at = models.DateTimeField(null=True, blank=True)
    record = models.ForeignKey(
        MemoryRecord, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", verbose_name="answer"
    )
    stored_new = models.BooleanField(default=False, help_text=gettext_lazy("Whether the answer stored the insight."))

    class Meta:
        db_table = "interview_questions"
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["owner", "urn", "reason"], name="interview_question_once")]
        indexes = [
            # a person's open questions, and their count in the navigation
            models.Index(fields=["owner", "created_at"], condition=Q(state="open"), name="interview_open"),
            models.Index(fields=["asked_by", "-created_at"], name="interview_asked_by"),
            models.Index(fields=["urn", "reason"], name="interview_about"),  # answers of others
        ]

    def __str__(self) -> str:
        return f"{self.reason}: {self.urn}"

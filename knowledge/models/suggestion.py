from __future__ import annotations

import uuid
from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn
from memories.models import MemoryRecord


class SuggestionKind(models.TextChoices):
    DECISION = "decision", gettext_lazy("Decision")
    CORRECTION = "correction", gettext_lazy("Correction")
    FAILED_STATEMENT = "failed_statement", gettext_lazy("Repaired statement")
    OPEN_QUESTION = "open_question", gettext_lazy("Question without an answer")


class SuggestionState(models.TextChoices):
    WAITING = "waiting", gettext_lazy("Waiting")
    KEPT = "kept", gettext_lazy("Kept")
    DISCARDED = "discarded", gettext_lazy("Discarded")
    NEVER = "never", gettext_lazy("Never again")


class SuggestionSource(models.TextChoices):
    HOOK = "hook", gettext_lazy("Session of an agent")
    CONVERSATION = "conversation", gettext_lazy("Conversation")
    RECALLS = "recalls", gettext_lazy("Repeated questions")


class Suggestion(models.Model):
    """Something that rules found in a person's sessions, and that only this person sees and decides about."""

    # No part of a hand-over: suggestions are what a person said, and not kept.
    person_columns = (PersonColumn("owner"),)

    retention = (Retention("expires_at", timedelta(seconds=1)),)  # the column has the time when it expires

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.CharField(max_length=254)
    kind = models.CharField(max_length=20, choices=SuggestionKind.choices)
    text = models.CharField(max_length=500)
    evidence = models.CharField(max_length=500, blank=True, help_text=gettext_lazy("Where it was found."))
    entities = ArrayField(
        models.CharField(max_length=200), default=list, help_text=gettext_lazy("Names, as in the session.")
    )
    source = models.CharField(max_length=12, choices=SuggestionSource.choices)
    program = models.CharField(max_length=40, blank=True)
    repository = models.CharField(max_length=200, blank=True)
    session = models.CharField(max_length=200, blank=True, help_text=gettext_lazy("The last one it was found in."))
    text_key = models.CharField(max_length=64, editable=False)  # digest of the normalized text
    times_seen = models.PositiveIntegerField(default=1, help_text=gettext_lazy("Sessions it was found in."))
    created_at = models.DateTimeField(default=timezone.now)
    state = models.CharField(max_length=10, choices=SuggestionState.choices, default=SuggestionState.WAITING)
    decided_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True, help_text=gettext_lazy("Empty: it stays."))
    record = models.ForeignKey(
        MemoryRecord, on_delete=models.SET_NULL, null=True, blank=True, related_name="+", verbose_name="memory"
    )
    stored_new = models.BooleanField(default=False, help_text=gettext_lazy("Whether keeping it stored the memory."))

    class Meta:
        db_table = "suggestions"
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["owner", "text_key"], name="suggestion_once_a_person")]
        indexes = [
            # the inbox, its count in the navigation, and its limit
            models.Index(fields=["owner", "-created_at"], condition=Q(state="waiting"), name="suggestion_waiting"),
            models.Index(fields=["expires_at"], name="suggestion_expiry"),
        ]

    def __str__(self) -> str:
        return self.text

from __future__ import annotations

from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy

from foundation.people.caller import CURATE, Caller
from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import MemoryRecord, Status, Visibility
from memories.models.fields import exact_words
from memories.models.record import readable_by
from memories.models.revision import value_of


class InsightState(models.TextChoices):
    PENDING = "pending", gettext_lazy("Pending")
    APPROVED = "approved", gettext_lazy("Approved")
    APPLIED = "applied", gettext_lazy("Applied")
    REJECTED = "rejected", gettext_lazy("Rejected")
    SUPERSEDED = "superseded", gettext_lazy("Superseded")


class InsightQuerySet(models.QuerySet["Insight"]):
    def visible_to(self, caller: Caller) -> InsightQuerySet:
        """Filter to insights whose memory the caller can see.

        Curators also see the insights of their personas, and admins see all.
        """
        rule = readable_by(caller, "record__")
        if (
            caller.is_curator and not caller.is_admin
        ):  # an admin's rule is Q(); `Q() | x` is x and would restrict the admin
            rule |= Q(record__persona__in=sorted(caller.personas))
        return self.filter(rule)

    def about(self, urn: str) -> InsightQuerySet:
        return self.filter(record__entity_urns__contains=[urn])


class Insight(models.Model):
    """A memory that is proposed for the catalog, with its suggested changes and the state of its review."""

    person_columns = (
        PersonColumn("reviewed_by", PSEUDONYM),
        PersonColumn("edit_by", PSEUDONYM),
        PersonColumn("applied_by", PSEUDONYM),
    )

    record = models.OneToOneField(MemoryRecord, on_delete=models.CASCADE, primary_key=True, related_name="insight")
    state = models.CharField(max_length=12, choices=InsightState.choices, default=InsightState.PENDING)
    suggested_actions = models.JSONField(default=list)
    wanted_visibility = models.CharField(max_length=10, choices=Visibility.choices, default=Visibility.PERSONA)
    replaces = models.ForeignKey(
        MemoryRecord,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="proposed_corrections",
        help_text=gettext_lazy("The memory that this one supersedes when it is applied."),
    )
    beside = models.ForeignKey(
        MemoryRecord,
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="captured_beside",
        help_text=gettext_lazy(
            "The author's memory with the same text when it was captured. Applying supersedes it, too."
        ),
    )
    changeset = models.ForeignKey("Changeset", null=True, blank=True, on_delete=models.PROTECT, related_name="insights")
    reviewed_by = models.CharField(max_length=254, blank=True)
    reviewed_at = models.DateTimeField(null=True, blank=True)
    review_notes = models.TextField(blank=True)
    pending_edit = models.JSONField(
        default=dict,
        blank=True,
        help_text=gettext_lazy("An edit that waits for approval. The approved version stays in force."),
    )
    edit_by = models.CharField(max_length=254, blank=True)
    edit_at = models.DateTimeField(null=True, blank=True)
    question_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=gettext_lazy("When a curator asked the author a question; empty once it is answered."),
    )
    assignee = models.CharField(
        max_length=254, blank=True, help_text=gettext_lazy("The curator to whom a rule or a colleague has assigned it.")
    )
    snoozed_until = models.DateTimeField(
        null=True,
        blank=True,
        help_text=gettext_lazy("Until then it is not in the review queue; empty if it is not snoozed."),
    )
    target_days = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text=gettext_lazy("Target age in days of its rule; empty: REVIEW_TARGET_DAYS.")
    )
    applied_by = models.CharField(max_length=254, blank=True)
    applied_at = models.DateTimeField(null=True, blank=True)
    # Copies of the memory's columns, kept by triggers. The policies of memories depend on insights, so those of
    # insights can't depend on memories.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    is_edited = False  # not a column: whether the last edit has changed anything

    objects = InsightQuerySet.as_manager()

    class Meta:
        db_table = "insights"
        ordering = ["record__created_at"]
        permissions = [(CURATE, "Can review, apply and roll back insights")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=InsightState.values), name="insight_state_known"),
            models.CheckConstraint(
                condition=~Q(state=InsightState.APPLIED) | Q(changeset__isnull=False, applied_at__isnull=False),
                name="insight_applied_by_a_changeset",
            ),
            models.CheckConstraint(
                condition=Q(state=InsightState.PENDING)
                | Q(state=InsightState.SUPERSEDED)
                | Q(reviewed_at__isnull=False) & ~Q(reviewed_by=""),
                name="insight_reviewed_by_somebody",
            ),
        ]
        indexes = [
            models.Index(fields=["state"], name="insight_by_state"),
            models.Index(  # open questions to authors
                fields=["question_at"], condition=Q(question_at__isnull=False), name="insight_question_open"
            ),
            models.Index(fields=["edit_at"], condition=Q(edit_at__isnull=False), name="insight_edit_waits"),
            GinIndex(exact_words("review_notes"), name="insight_review_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return str(self.record)

    @property
    def edited_fields(self) -> list[tuple[str, Any, Any]]:
        """Return the fields of the pending edit, other than the text, with their values before and after it."""
        edit = [(name, value_of(name, value)) for name, value in self.pending_edit.items() if name != "content"]
        return [(name, getattr(self.record, name), value) for name, value in edit]

    @property
    def is_withdrawn(self) -> bool:
        """Return whether the memory was archived or superseded before the insight was rejected or applied."""
        is_gone = self.record.status in (Status.ARCHIVED, Status.SUPERSEDED)
        return is_gone and self.state in (InsightState.PENDING, InsightState.APPROVED)

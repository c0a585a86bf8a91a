from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from knowledge.models.insight import Insight
from memories.models.fields import exact_words


class DecisionKind(models.TextChoices):
    APPROVED = "approved", gettext_lazy("Approved")
    REJECTED = "rejected", gettext_lazy("Rejected")
    TAKEN_BACK = "taken_back", gettext_lazy("Taken back")
    APPEALED = "appealed", gettext_lazy("Appealed")
    EDIT_APPROVED = "edit_approved", gettext_lazy("Edit approved")
    EDIT_REJECTED = "edit_rejected", gettext_lazy("Edit rejected")
    NEEDS_MORE = "needs_more", gettext_lazy("Needs info")
    ANSWERED = "answered", gettext_lazy("Answered")
    HANDED_OVER = "handed_over", gettext_lazy("Handed over")
    SNOOZED = "snoozed", gettext_lazy("Snoozed")


class Decision(models.Model):
    """One step in the review of an insight: its kind, the person who took it, and the reason."""

    person_columns = (
        PersonColumn("by", PSEUDONYM),
        PersonColumn("overturns", PSEUDONYM),
    )

    id = models.BigAutoField(primary_key=True)
    insight = models.ForeignKey(Insight, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=20, choices=DecisionKind.choices)
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    notes = models.TextField(blank=True)
    before = models.JSONField(default=dict, help_text=gettext_lazy("The values that undoing this decision restores."))
    overturns = models.CharField(
        max_length=254, blank=True, help_text=gettext_lazy("The curator whose earlier decision this one overturns.")
    )

    class Meta:
        db_table = "insight_decisions"
        ordering = ["at", "id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=DecisionKind.values), name="decision_kind_known")
        ]
        indexes = [
            models.Index(  # decisions that overturned a person's earlier decision
                fields=["overturns", "-at"], condition=~models.Q(overturns=""), name="decision_overturns"
            ),
            GinIndex(exact_words("notes"), name="decision_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.by}"

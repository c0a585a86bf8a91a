from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone

from knowledge.models.insight import Insight
from memories.models.fields import exact_words


class DecisionKind(models.TextChoices):
    APPROVED = "approved"
    REJECTED = "rejected"
    TAKEN_BACK = "taken_back", "Taken back"
    APPEALED = "appealed"
    EDIT_APPROVED = "edit_approved", "Edit approved"
    EDIT_REJECTED = "edit_rejected", "Edit rejected"
    NEEDS_MORE = "needs_more", "Needs info"
    ANSWERED = "answered"
    HANDED_OVER = "handed_over", "Handed over"


class Decision(models.Model):
    """One step in the review of an insight: its kind, the person who took it, and the reason."""

    id = models.BigAutoField(primary_key=True)
    insight = models.ForeignKey(Insight, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=20, choices=DecisionKind.choices)
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    notes = models.TextField(blank=True)
    before = models.JSONField(default=dict, help_text="For an approved edit: the earlier values of the fields.")
    overturns = models.CharField(
        max_length=254, blank=True, help_text="The curator whose earlier decision this one overturns."
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

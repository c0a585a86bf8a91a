from __future__ import annotations

from django.db import models
from django.utils import timezone

from knowledge.models.insight import Insight


class DecisionKind(models.TextChoices):
    APPROVED = "approved"
    REJECTED = "rejected"
    TAKEN_BACK = "taken_back", "Taken back"
    APPEALED = "appealed"
    EDIT_APPROVED = "edit_approved", "Edit approved"
    EDIT_REJECTED = "edit_rejected", "Edit rejected"
    NEEDS_MORE = "needs_more", "Needs more"
    ANSWERED = "answered"
    HANDED_OVER = "handed_over", "Handed over"


class Decision(models.Model):
    """One word in the review of an insight: what was decided, by whom, and why."""

    id = models.BigAutoField(primary_key=True)
    insight = models.ForeignKey(Insight, on_delete=models.CASCADE, related_name="decisions")
    kind = models.CharField(max_length=20, choices=DecisionKind.choices)
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    notes = models.TextField(blank=True)
    before = models.JSONField(default=dict, help_text="Of an approved edit: the fields as they were.")
    overturns = models.CharField(max_length=254, blank=True, help_text="Who had decided otherwise before.")

    class Meta:
        db_table = "insight_decisions"
        ordering = ["at", "id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=DecisionKind.values), name="decision_kind_known")
        ]
        indexes = [
            models.Index(  # what others decided against one's own word
                fields=["overturns", "-at"], condition=~models.Q(overturns=""), name="decision_overturns"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.by}"

from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn
from memories.models.fields import exact_words
from memories.models.record import MemoryRecord


class Verdict(models.TextChoices):
    USEFUL = "useful", gettext_lazy("Useful")
    WRONG = "wrong", gettext_lazy("Wrong")


class Feedback(models.Model):
    """A reader's latest verdict on a memory."""

    person_columns = (PersonColumn("by"),)

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="feedback")
    by = models.CharField(max_length=254)
    verdict = models.CharField(max_length=10, choices=Verdict.choices)
    note = models.TextField(blank=True)
    made_stale = models.TextField(
        blank=True, help_text=gettext_lazy("The stale reason that this verdict set, if it made the memory stale.")
    )
    counts = models.BooleanField(
        default=False,
        help_text=gettext_lazy(
            "Whether it counts for other readers: its author held the memory's persona or was a curator."
        ),
    )
    at = models.DateTimeField(default=timezone.now)
    # Copies of the memory's columns, kept by triggers, so that the policies of the table need no other table.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    class Meta:
        db_table = "memory_feedback"
        ordering = ["-at"]
        verbose_name_plural = gettext_lazy("feedback")
        indexes = [
            models.Index(
                fields=["by", "record"], condition=models.Q(verdict="wrong"), name="feedback_wrong_for_reader"
            ),
            GinIndex(exact_words("note"), name="feedback_words"),  # texts with the words of an erased one
        ]
        constraints = [
            models.UniqueConstraint(fields=["record", "by"], name="feedback_once_a_reader"),
            models.CheckConstraint(condition=models.Q(verdict__in=Verdict.values), name="feedback_verdict_known"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.by}"

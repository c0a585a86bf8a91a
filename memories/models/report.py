from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn
from memories.models.fields import exact_words
from memories.models.impression import KEPT_DAYS
from memories.models.record import MemoryRecord

DOUBT_KEPT_DAYS = 365  # days until a report of a memory as wrong or outdated is deleted


class ReportVerdict(models.TextChoices):
    USED = "used", gettext_lazy("Used")
    WRONG = "wrong", gettext_lazy("Wrong")
    OUTDATED = "outdated", gettext_lazy("Outdated")


DOUBTS = (ReportVerdict.WRONG, ReportVerdict.OUTDATED)


class Report(models.Model):
    """Report of an agent or a program on a memory after using it. It changes neither rank nor status."""

    person_columns = (PersonColumn("by"),)

    retention = (
        Retention("at", timedelta(days=KEPT_DAYS), models.Q(verdict=ReportVerdict.USED)),
        Retention("at", timedelta(days=DOUBT_KEPT_DAYS), models.Q(verdict__in=DOUBTS)),
    )

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="reports")
    by = models.CharField(max_length=254)
    verdict = models.CharField(max_length=10, choices=ReportVerdict.choices)
    note = models.TextField(blank=True)
    day = models.DateField(help_text=gettext_lazy("The day in UTC. A person makes each report once a day."))
    at = models.DateTimeField(default=timezone.now)
    content_key = models.CharField(
        max_length=32, help_text=gettext_lazy("The key of the text that the report is about.")
    )
    # Copies of the memory's columns, kept by triggers, so that the policies of the table need no other table.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    class Meta:
        db_table = "memory_reports"
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["by", "day"], name="report_of_person"),  # the daily limit, and a wipe
            models.Index(fields=["verdict", "at"], name="report_newest"),  # doubted memories, and deletion of old rows
            GinIndex(exact_words("note"), name="report_words"),  # texts with the words of an erased one
        ]
        constraints = [
            models.UniqueConstraint(fields=["record", "by", "verdict", "day"], name="report_once_a_day"),
            models.CheckConstraint(condition=models.Q(verdict__in=ReportVerdict.values), name="report_verdict_known"),
        ]

    def __str__(self) -> str:
        return f"{self.verdict}, reported by {self.by}"

    @property
    def is_settled(self) -> bool:
        """Return whether the memory has been verified, or its text changed, since the report."""
        verified_at = self.record.last_verified_at
        return self.content_key != self.record.content_key or (verified_at is not None and self.at <= verified_at)

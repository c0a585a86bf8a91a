from __future__ import annotations

from django.db import models
from django.utils import timezone

from memories.models.record import MemoryRecord


class Impression(models.Model):
    """That a memory came along with an answer, unasked: on which connection, beside which tool, in which version."""

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="impressions")
    connection = models.CharField(max_length=120, help_text="The token, or the process on stdio.")
    to = models.CharField(max_length=254)
    tool = models.CharField(max_length=100)
    version = models.CharField(max_length=16, help_text="Hash of its text and status as they were then.")
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "memory_showings"
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["connection", "-at"], name="showing_on_connection"),  # once an hour
            models.Index(fields=["record", "-at"], name="showing_of_record"),  # how often it came along
            models.Index(fields=["at"], name="showing_old"),  # the sweep
        ]

    def __str__(self) -> str:
        return f"{self.record_id} beside {self.tool}"

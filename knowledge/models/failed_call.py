from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention

WITHIN = timedelta(minutes=15)  # maximum time between the failure and the correction


class FailedCall(models.Model):
    """A failed SQL statement, stored to recognize its correction. Only written if CAPTURE_FROM_FAILURE is set."""

    retention = (Retention("at", WITHIN),)

    id = models.BigAutoField(primary_key=True)
    connection = models.CharField(max_length=120)
    tool = models.CharField(max_length=100)
    question = models.TextField(help_text=gettext_lazy("The statement that failed."))
    error = models.CharField(max_length=500)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "failed_calls"
        ordering = ["-at"]
        indexes = [models.Index(fields=["connection", "tool", "-at"], name="failed_call_of_connection")]

    def __str__(self) -> str:
        return f"{self.tool}: {self.error}"

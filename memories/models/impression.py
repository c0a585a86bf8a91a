from __future__ import annotations

from datetime import timedelta

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn
from memories.models.record import MemoryRecord

KEPT_DAYS = 30  # days until an impression is deleted


class Impression(models.Model):
    """One memory that was attached to the response of one tool call."""

    person_columns = (PersonColumn("to"),)

    retention = (Retention("at", timedelta(days=KEPT_DAYS)),)

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="impressions")
    connection = models.CharField(max_length=120, help_text=gettext_lazy("The token, or the stdio process."))
    to = models.CharField(max_length=254)
    tool = models.CharField(max_length=100)
    version = models.CharField(
        max_length=16, help_text=gettext_lazy("Hash of the memory's text and status at that time.")
    )
    at = models.DateTimeField(default=timezone.now)
    terms = ArrayField(
        models.IntegerField(),
        null=True,
        help_text=gettext_lazy("Keyed hashes of the memory’s words that the call did not have. NULL: not counted."),
    )
    used_at = models.DateTimeField(
        null=True, help_text=gettext_lazy("When a later call on the connection first had one of these words.")
    )

    class Meta:
        db_table = "memory_showings"
        ordering = ["-at"]
        indexes = [
            models.Index(fields=["connection", "-at"], name="showing_on_connection"),  # attached in the last hour
            models.Index(fields=["record", "-at"], name="showing_of_record"),  # how often it was attached
            models.Index(fields=["at"], name="showing_old"),  # deletion of old rows
        ]

    def __str__(self) -> str:
        return f"{self.record_id} attached to {self.tool}"

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn


class ExportState(models.TextChoices):
    WAITING = "waiting", gettext_lazy("Waiting")
    RUNNING = "running", gettext_lazy("Running")
    DONE = "done", gettext_lazy("Done")
    FAILED = "failed", gettext_lazy("Failed")


class Export(models.Model):
    """A file with rows that a person has asked for. A worker writes it, and it is deleted after a day."""

    person_columns = (PersonColumn("created_by"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    scope = models.CharField(max_length=12, help_text=gettext_lazy("person, persona or installation"))
    persona = models.CharField(
        max_length=60, blank=True, help_text=gettext_lazy("The persona whose rows it has, if it is one's.")
    )
    format = models.CharField(max_length=10)
    state = models.CharField(max_length=10, choices=ExportState.choices, default=ExportState.WAITING)
    rows_done = models.PositiveBigIntegerField(default=0)
    rows_total = models.PositiveBigIntegerField(null=True)
    size = models.PositiveBigIntegerField(null=True, help_text=gettext_lazy("In bytes."))
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "exports"
        ordering = ["-created_at", "id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ExportState.values), name="export_state_known"),
        ]
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="export_of_person"),  # the page
            models.Index(fields=["expires_at"], name="export_expiry"),  # for the deletion of expired files
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.persona} as {self.format}"

    @property
    def is_unfinished(self) -> bool:
        return self.state in (ExportState.WAITING, ExportState.RUNNING)

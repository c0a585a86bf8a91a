from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone


class Batch(models.Model):
    """One act on many rows, by one person: what is still to do, and what became of each. Texts are not kept."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=254)
    persona = models.CharField(max_length=60, blank=True, help_text="Active when it was started.")
    act = models.CharField(max_length=40)
    note = models.TextField(blank=True)
    choice = models.TextField(blank=True, help_text="What was chosen with it: a colleague, a persona, a visibility.")
    unit_ids = ArrayField(models.UUIDField())
    outcomes = models.JSONField(default=list, help_text="In the order of unit_ids: '' for done, otherwise why not.")
    back_to = models.CharField(max_length=500, blank=True, help_text="The page it was started from.")
    undoes = models.OneToOneField("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="undone_by")
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "batches"
        ordering = ["-created_at"]
        verbose_name_plural = "batches"
        indexes = [models.Index(fields=["created_by", "-created_at"], name="batch_of_person")]

    def __str__(self) -> str:
        return f"{self.act} × {len(self.unit_ids)}"

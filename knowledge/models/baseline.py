from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memories.models import MemoryRecord


class EntityBaseline(models.Model):
    """State of an entity when a memory about it was written or last verified. Differences make the memory stale."""

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="baselines")
    catalog = models.CharField(max_length=200, blank=True, help_text="The catalog that was read.")
    urn = models.CharField(max_length=500)
    existed = models.BooleanField()
    deprecated = models.BooleanField(default=False)
    columns = models.JSONField(default=dict, help_text="The fingerprint: simple path → [native type, nullable].")
    mentioned = ArrayField(
        models.CharField(max_length=300), default=list, help_text="Columns named in the memory's text."
    )
    description_hash = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the entity's description.")
    taken_at = models.DateTimeField(default=timezone.now)
    checked_at = models.DateTimeField(default=timezone.now)
    to_verify = models.TextField(blank=True, help_text="Changes near the memory's subject, which may leave it true.")
    hint = models.TextField(
        blank=True, help_text="The changes to columns named in the text, shown wherever the memory is shown."
    )

    class Meta:
        db_table = "entity_baselines"
        ordering = ["record_id", "urn"]
        constraints = [models.UniqueConstraint(fields=["record", "urn"], name="baseline_once_per_entity")]
        indexes = [
            models.Index(fields=["checked_at"], name="baseline_check_next"),  # longest unchecked first
            models.Index(fields=["urn"], name="baseline_of_entity"),  # checks after events and applied changesets
            models.Index(fields=["record"], condition=~models.Q(hint=""), name="baseline_with_hint"),  # recall, review
        ]

    def __str__(self) -> str:
        return f"{self.record_id} · {self.urn}"

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from memories.models import MemoryRecord


class EntityBaseline(models.Model):
    """What an entity was like when a memory about it was captured or last verified: stale means different from that."""

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="baselines")
    catalog = models.CharField(max_length=200, blank=True, help_text="Which catalog was looked at.")
    urn = models.CharField(max_length=500)
    existed = models.BooleanField()
    deprecated = models.BooleanField(default=False)
    columns = models.JSONField(default=dict, help_text="The fingerprint: simple path → [native type, nullable].")
    mentioned = ArrayField(
        models.CharField(max_length=300), default=list, help_text="Columns that the text itself names."
    )
    description_hash = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the entity's description.")
    taken_at = models.DateTimeField(default=timezone.now)
    checked_at = models.DateTimeField(default=timezone.now)
    to_verify = models.TextField(blank=True, help_text="What changed near what the memory says; it may still be true.")
    hint = models.TextField(blank=True, help_text="Of that, what the text names: it is told wherever the memory is.")

    class Meta:
        db_table = "entity_baselines"
        ordering = ["record_id", "urn"]
        constraints = [models.UniqueConstraint(fields=["record", "urn"], name="baseline_once_per_entity")]
        indexes = [
            models.Index(fields=["checked_at"], name="baseline_check_next"),  # the watcher: longest unchecked first
            models.Index(fields=["urn"], name="baseline_of_entity"),  # events, own applies
            models.Index(fields=["record"], condition=~models.Q(hint=""), name="baseline_with_hint"),  # recall, review
        ]

    def __str__(self) -> str:
        return f"{self.record_id} · {self.urn}"

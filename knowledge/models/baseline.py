from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from memories.models import MemoryRecord


class Due(models.TextChoices):
    """Work on a baseline that is due before the next check of its memory."""

    NOTHING = "", "Nothing"
    TAKE = "take", "Take it"  # it is missing, or was replaced by a verification or an edit
    COMPARE = "compare", "Compare it"  # the memory became active again, or changed while it was compared


class EntityBaseline(models.Model):
    """State of an entity when a memory about it was written or last verified, compared with the current state later."""

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="baselines")
    catalog = models.CharField(max_length=200, blank=True, help_text=gettext_lazy("The catalog that was read."))
    urn = models.CharField(max_length=500)
    existed = models.BooleanField()
    deprecated = models.BooleanField(default=False)
    columns = models.JSONField(
        default=dict, help_text=gettext_lazy("The entity's columns: simple path → [native type, nullable].")
    )
    mentioned = ArrayField(
        models.CharField(max_length=300), default=list, help_text=gettext_lazy("Columns named in the memory's text.")
    )
    description_hash = models.CharField(
        max_length=64, blank=True, help_text=gettext_lazy("SHA-256 of the entity's description.")
    )
    taken_at = models.DateTimeField(
        default=timezone.now,
        null=True,
        help_text=gettext_lazy("Empty if the catalog was unavailable: it is taken later."),
    )
    due = models.CharField(max_length=10, choices=Due.choices, default=Due.NOTHING, blank=True)
    replaced = models.JSONField(
        null=True,
        help_text=gettext_lazy("The baseline before the last verification or edit, and the name of that change."),
    )
    checked_at = models.DateTimeField(default=timezone.now)
    to_verify = models.TextField(
        blank=True,
        help_text=gettext_lazy("Changes to columns that the memory does not refer to. It may still be true."),
    )
    hint = models.TextField(
        blank=True,
        help_text=gettext_lazy("Changes to columns that the memory's text mentions, shown in recall and review."),
    )

    class Meta:
        db_table = "entity_baselines"
        ordering = ["record_id", "urn"]
        constraints = [models.UniqueConstraint(fields=["record", "urn"], name="baseline_once_per_entity")]
        indexes = [
            models.Index(fields=["checked_at"], name="baseline_check_next"),  # order by time of the last check
            models.Index(fields=["urn"], name="baseline_of_entity"),  # checks after events and applied changesets
            models.Index(fields=["record"], condition=~models.Q(hint=""), name="baseline_with_hint"),  # recall, review
            models.Index(fields=["record"], condition=~models.Q(due=""), name="baseline_due"),  # scheduled checks
        ]

    def __str__(self) -> str:
        return f"{self.record_id} · {self.urn}"

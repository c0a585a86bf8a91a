from __future__ import annotations

import uuid

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import MemoryRecord
from memories.models.fields import exact_words


class PairVerdict(models.TextChoices):
    FIRST = "first", gettext_lazy("The first one holds")
    SECOND = "second", gettext_lazy("The second one holds")
    BOTH = "both", gettext_lazy("Both hold, differently")
    NEITHER = "neither", gettext_lazy("Neither holds")


class SettlementState(models.TextChoices):
    DECIDED = "decided", gettext_lazy("Decided")
    PROPOSED = "proposed", gettext_lazy("Proposed to the owner")


class Pair(models.Model):
    """Two texts: a memory, and another memory or the description of an entity or of one of its columns."""

    first = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="+")
    second = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    urn = models.CharField(max_length=500, blank=True, help_text=gettext_lazy("The entity that is described."))
    column = models.CharField(max_length=300, blank=True, default="")
    first_key = models.CharField(max_length=32, help_text=gettext_lazy("The key of the first text."))
    second_key = models.CharField(max_length=32, help_text=gettext_lazy("The key of the second text."))

    class Meta:
        abstract = True


class Contradiction(Pair):
    """A pair that contradicts each other, as a worker has found. Derived data."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    reason = models.CharField(max_length=300, help_text=gettext_lazy("The words that differ."))
    found_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "contradictions"
        ordering = ["-found_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(second__isnull=True) & ~Q(urn="") | Q(second__isnull=False, urn="", column=""),
                name="contradiction_with_memory_or_catalog",
            ),
            models.UniqueConstraint(
                fields=["first", "second"], condition=Q(second__isnull=False), name="contradiction_of_memories_once"
            ),
            models.UniqueConstraint(
                fields=["first", "urn", "column"],
                condition=Q(second__isnull=True),
                name="contradiction_of_catalog_once",
            ),
        ]
        indexes = [models.Index(fields=["-found_at", "id"], name="contradiction_newest")]  # the inbox

    def __str__(self) -> str:
        return self.reason


class ContradictionScan(models.Model):
    """Time at which a worker last compared a memory with others. Derived data."""

    record = models.OneToOneField(MemoryRecord, on_delete=models.CASCADE, primary_key=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        db_table = "contradiction_scans"

    def __str__(self) -> str:
        return f"{self.record_id} at {self.at}"


class Settlement(Pair):
    """A person's verdict on a pair. It counts as long as neither text changes.

    A verdict is a proposal if it needs a change of a memory that the person may not change.
    """

    person_columns = (
        PersonColumn("by", PSEUDONYM),
        PersonColumn("undone_by", PSEUDONYM),
    )

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    verdict = models.CharField(max_length=10, choices=PairVerdict.choices)
    state = models.CharField(max_length=10, choices=SettlementState.choices)
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    note = models.TextField(blank=True)
    first_scope = models.CharField(max_length=520, blank=True, default="")
    second_scope = models.CharField(max_length=520, blank=True, default="")
    effects = models.JSONField(default=list, help_text=gettext_lazy("What it has done, as undoing it reverts it."))
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.CharField(max_length=254, blank=True, default="")

    class Meta:
        db_table = "settlements"
        ordering = ["-at", "id"]
        constraints = [
            models.CheckConstraint(condition=Q(verdict__in=PairVerdict.values), name="settlement_verdict_known"),
            models.CheckConstraint(condition=Q(state__in=SettlementState.values), name="settlement_state_known"),
        ]
        indexes = [
            models.Index(fields=["by", "-at"], name="settlement_by_person"),  # a person's decisions
            GinIndex(exact_words("note"), name="settlement_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return f"{self.verdict} by {self.by}"

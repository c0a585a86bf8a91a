from __future__ import annotations

from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models.fields import exact_words
from memories.models.record import MemoryRecord, Visibility, readable_by


class MemoryRevisionQuerySet(models.QuerySet["MemoryRevision"]):
    def visible_to(self, caller: Caller) -> MemoryRevisionQuerySet:
        """Filter to states that the caller could read while in force, of records that the caller may read now."""
        rows = self.filter(readable_by(caller, "record__"))
        if caller.is_admin:
            return rows
        owner = models.Q(record__created_by=caller.email)
        persona = models.Q(visibility=Visibility.PERSONA, record__persona__in=sorted(caller.personas))
        return rows.filter(owner | persona | models.Q(visibility=Visibility.EVERYONE))


class MemoryRevision(models.Model):
    """The state of a memory before a change, in force from `valid_from` to `valid_to`."""

    person_columns = (PersonColumn("changed_by", PSEUDONYM),)

    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="revisions")
    valid_from = models.DateTimeField()
    valid_to = models.DateTimeField(default=timezone.now)
    content = models.TextField()
    status = models.CharField(max_length=12)
    visibility = models.CharField(max_length=10)
    details = models.JSONField(
        default=dict, help_text=gettext_lazy("Earlier values of the other columns that the change touched.")
    )
    change = models.CharField(
        max_length=20, help_text=gettext_lazy("The change that ended this state: revise, supersede, forget, …")
    )
    changed_by = models.CharField(max_length=254)
    reason = models.TextField(blank=True, default="")

    objects = MemoryRevisionQuerySet.as_manager()

    class Meta:
        db_table = "memory_revisions"
        ordering = ["record_id", "-valid_to", "-id"]
        indexes = [
            models.Index(fields=["record", "valid_to"], name="revision_in_force"),  # as-of recall, history
            GinIndex(exact_words("content"), name="revision_words"),  # texts with the words of an erased one
            GinIndex(exact_words("reason"), name="revision_reason_words"),
        ]

    def __str__(self) -> str:
        return f"{self.record_id} until {self.valid_to:%Y-%m-%d %H:%M}"


class Tombstone(models.Model):
    """The trace of an erased memory: its id, owner and persona, who erased it, and when. The content is not kept."""

    person_columns = (
        PersonColumn("created_by", PSEUDONYM),
        PersonColumn("erased_by", PSEUDONYM),
    )

    record_id = models.UUIDField(primary_key=True)
    created_by = models.CharField(max_length=254)
    persona = models.CharField(max_length=60)
    erased_by = models.CharField(max_length=254)
    erased_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "memory_tombstones"
        ordering = ["-erased_at"]

    def __str__(self) -> str:
        return f"{self.record_id} erased {self.erased_at:%Y-%m-%d}"


def value_of(name: str, json_value: Any) -> Any:
    """Convert a JSON value in a revision's `details` to the Python value of the attribute `name`."""
    field = next(field for field in MemoryRecord._meta.concrete_fields if field.attname == name)
    return None if json_value is None else field.to_python(json_value)

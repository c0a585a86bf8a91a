from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn
from memories.models.fields import exact_words


class Batch(models.Model):
    """A bulk action by one person, with the outcome for each row. The texts of the rows are not stored."""

    person_columns = (PersonColumn("created_by"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=254)
    persona = models.CharField(
        max_length=60, blank=True, help_text=gettext_lazy("The persona active when the batch was started.")
    )
    act = models.CharField(max_length=40)
    note = models.TextField(blank=True)
    choice = models.TextField(
        blank=True,
        help_text=gettext_lazy("The choice made for the action: a colleague, a persona, a visibility or a text."),
    )
    unit_ids = ArrayField(models.UUIDField())
    outcomes = models.JSONField(
        default=list, help_text=gettext_lazy("In the order of unit_ids: '' if done, otherwise the error.")
    )
    seen = models.JSONField(
        default=dict, help_text=gettext_lazy("By id of the row: a token for the state that the person saw.")
    )
    back_to = models.CharField(max_length=500, blank=True, help_text=gettext_lazy("The page where it was started."))
    undoes = models.OneToOneField("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="undone_by")
    finished_at = models.DateTimeField(null=True, blank=True)
    # counts that lists annotate, because the columns above are long (bulk_actions.with_counts)
    unit_count: int
    processed: int
    refused: int

    class Meta:
        db_table = "batches"
        ordering = ["-created_at"]
        verbose_name_plural = gettext_lazy("batches")
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="batch_of_person"),
            GinIndex(exact_words("note"), name="batch_note_words"),  # texts with the words of an erased one
            GinIndex(exact_words("choice"), name="batch_choice_words"),
        ]

    def __str__(self) -> str:
        # Without the count, a list that defers the column would read it for each row.
        return f"{self.act} × {self.__dict__.get('unit_count') or len(self.unit_ids)}"

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models.record import MemoryRecord
from memories.models.revision import Tombstone


class Quotation(models.Model):
    """The origin of a text: another row took it from this memory. Erasing the memory removes it there as well.

    The service that writes the other row stores this one in the same transaction.
    """

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="quotations", db_index=False)
    place = models.CharField(max_length=40, help_text=gettext_lazy("Name of the TextPlace that has the other row."))
    row = models.CharField(max_length=500, help_text=gettext_lazy("Primary key of the other row."))
    is_whole = models.BooleanField(
        default=False, help_text=gettext_lazy("The whole text derives from the memory, so that it goes as a whole.")
    )

    class Meta:
        db_table = "memory_quotations"
        constraints = [models.UniqueConstraint(fields=["record", "place", "row"], name="quotation_once")]

    def __str__(self) -> str:
        return f"{self.record_id} in {self.place} {self.row}"


class SameWordsDecision(models.TextChoices):
    OPEN = "open", gettext_lazy("Open")
    ERASED = "erased", gettext_lazy("Erased, too")
    LEFT = "left", gettext_lazy("Left")


class SameWords(models.Model):
    """A text that is no copy of an erased memory but has the same words. An admin decides about it.

    Neither of the two texts is stored here.
    """

    person_columns = (PersonColumn("decided_by", PSEUDONYM),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tombstone = models.ForeignKey(Tombstone, on_delete=models.CASCADE, related_name="same_words")
    place = models.CharField(max_length=40)
    row = models.CharField(max_length=500, help_text=gettext_lazy("Primary key of the row with the same words."))
    version = models.CharField(max_length=16, help_text=gettext_lazy("Keyed hash of the row's text when it was found."))
    found_at = models.DateTimeField(default=timezone.now)
    decision = models.CharField(max_length=10, choices=SameWordsDecision.choices, default=SameWordsDecision.OPEN)
    decided_by = models.CharField(max_length=254, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "memory_same_words"
        ordering = ["-found_at", "place", "row"]
        verbose_name = gettext_lazy("text with the same words")
        verbose_name_plural = gettext_lazy("texts with the same words")
        constraints = [
            models.UniqueConstraint(fields=["tombstone", "place", "row"], name="same_words_once"),
            models.CheckConstraint(
                condition=models.Q(decision__in=SameWordsDecision.values), name="same_words_decision_known"
            ),
        ]
        indexes = [
            models.Index(fields=["place", "row"], condition=models.Q(decision="open"), name="same_words_open"),
        ]

    def __str__(self) -> str:
        return f"{self.place} {self.row}"

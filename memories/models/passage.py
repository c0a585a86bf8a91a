from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy

from memories.models.fields import EmbeddingField
from memories.models.record import MemoryRecord


class Passage(models.Model):
    """A window of a memory's embedded text, from character `start` to `stop`, with its vector. A short text has one.

    Passages are derived from memories. The table is narrow, so that an exact scan reads little more than the vectors,
    which are stored inline. No migration creates the vector index, because it is trained on the rows
    (retrieval/vector_index.py).
    """

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="passages", db_index=False)
    start = models.PositiveSmallIntegerField()
    stop = models.PositiveSmallIntegerField()
    vector = EmbeddingField()
    short_term = models.BooleanField(
        default=False, help_text=gettext_lazy("Belongs to a turn that expires, so it is not in the vector index.")
    )
    token_bits = models.BinaryField(
        null=True, help_text=gettext_lazy("The signs of each word piece's hidden state, if the model returns them.")
    )
    # Copies of the memory's columns, kept by triggers, so that the policies of the table need no other table.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    class Meta:
        db_table = "memory_passages"
        ordering = ["record", "start"]
        constraints = [models.UniqueConstraint(fields=["record", "start"], name="passage_once")]

    def __str__(self) -> str:
        return f"{self.record_id} {self.start}-{self.stop}"


class TextPassage(models.Model):
    """Base class for passages of texts other than memories. Each subclass refers to the row with the text."""

    id = models.BigAutoField(primary_key=True)
    start = models.PositiveIntegerField()
    stop = models.PositiveIntegerField()
    vector = EmbeddingField()

    class Meta:
        abstract = True

from __future__ import annotations

from django.db import models

from memories.models.fields import EmbeddingField
from memories.models.record import MemoryRecord


class Passage(models.Model):
    """A window of a memory's text, from `start` to `stop`, by its vector. Derived; a short text is one passage.

    A narrow table, so that an exact scan reads little beside the vectors, which are stored in line. The index of large
    scopes is trained on its rows (retrieval/vector_index.py), and so it belongs to no migration.
    """

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="passages", db_index=False)
    start = models.PositiveSmallIntegerField()
    stop = models.PositiveSmallIntegerField()
    vector = EmbeddingField()
    short_term = models.BooleanField(default=False, help_text="Of a turn, which expires: not in the index.")
    token_bits = models.BinaryField(null=True, help_text="The signs of each word piece's state, where the model tells.")

    class Meta:
        db_table = "memory_passages"
        ordering = ["record", "start"]
        constraints = [models.UniqueConstraint(fields=["record", "start"], name="passage_once")]

    def __str__(self) -> str:
        return f"{self.record_id} {self.start}-{self.stop}"


class TextPassage(models.Model):
    """The same of another text, in a table of its own; the model names whose text it is."""

    id = models.BigAutoField(primary_key=True)
    start = models.PositiveIntegerField()
    stop = models.PositiveIntegerField()
    vector = EmbeddingField()

    class Meta:
        abstract = True

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Examination(models.Model):
    """The latest result of a check, as a worker has found it. Pages show those that are slow, and metrics all states.

    The texts are stored as messages and their values, so that a page shows them in the language of its reader.
    """

    name = models.CharField(max_length=60, primary_key=True)
    finding = models.JSONField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "examinations"

    def __str__(self) -> str:
        return self.name

from __future__ import annotations

from django.db import models
from django.utils import timezone


class Examination(models.Model):
    """The latest result of a check that is too slow for a page, such as that of the mail server.

    The texts are stored as messages and their values, so that a page shows them in the language of its reader.
    """

    name = models.CharField(max_length=60, primary_key=True)
    finding = models.JSONField()
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "examinations"

    def __str__(self) -> str:
        return self.name

from __future__ import annotations

from django.conf import settings
from django.db import models


class Preference(models.Model):
    """A person's setting of a page, such as the columns of a list. Pages work without any."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="preferences")
    key = models.CharField(max_length=100)
    value = models.JSONField()

    class Meta:
        db_table = "preferences"
        constraints = [models.UniqueConstraint(fields=["person", "key"], name="preference_once_a_person")]

    def __str__(self) -> str:
        return f"{self.key} of {self.person}"

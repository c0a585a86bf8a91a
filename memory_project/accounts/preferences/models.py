from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone

from foundation.people.columns import PSEUDONYM, PersonColumn


class Preference(models.Model):
    """A person's setting of a page, such as the columns of a list. Pages work without any."""

    person_columns = (PersonColumn("person__email"),)

    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="preferences")
    key = models.CharField(max_length=100)
    value = models.JSONField()

    class Meta:
        db_table = "preferences"
        constraints = [models.UniqueConstraint(fields=["person", "key"], name="preference_once_a_person")]

    def __str__(self) -> str:
        return f"{self.key} of {self.person}"


class ScheduleSetting(models.Model):
    """An operator's change of a schedule. It outlasts an upgrade, which updates the schedules themselves."""

    person_columns = (PersonColumn("changed_by", PSEUDONYM),)

    name = models.CharField(max_length=100, primary_key=True)
    minutes = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the usual interval.")
    is_paused = models.BooleanField(default=False)
    changed_by = models.CharField(max_length=254)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "schedule_settings"

    def __str__(self) -> str:
        return self.name

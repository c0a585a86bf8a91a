from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn


class Job(models.Model):
    """Work that is left to do for a person, which workers do in turns (foundation/work/jobs.py).

    What is done so far, and its outcome, are in the row that the job is about. So jobs are derived from these rows.
    """

    person_columns = (PersonColumn("owner"),)
    retention = (Retention("ended_at", timedelta(days=1)),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=40)
    target = models.UUIDField(help_text=gettext_lazy("The row that the work is about."))
    owner = models.CharField(max_length=254, help_text=gettext_lazy("Who waits for it."))
    created_at = models.DateTimeField(default=timezone.now, help_text=gettext_lazy("Since when it waits."))
    due_at = models.DateTimeField(default=timezone.now, help_text=gettext_lazy("When its next turn may begin."))
    turn_at = models.DateTimeField(null=True, blank=True, help_text=gettext_lazy("When its last turn began."))
    turns = models.PositiveIntegerField(default=0)
    defects = models.PositiveSmallIntegerField(
        default=0, help_text=gettext_lazy("Number of turns in a row that ended with an unexpected error.")
    )
    error = models.CharField(max_length=500, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        app_label = "memories"
        db_table = "jobs"
        ordering = ["-created_at"]
        constraints = [models.UniqueConstraint(fields=["kind", "target"], name="job_once")]
        indexes = [
            models.Index(fields=["owner", "-turn_at"], name="job_last_turn"),  # whose turn it is
            models.Index(fields=["due_at"], condition=Q(ended_at=None), name="job_due"),
            models.Index(fields=["ended_at"], name="job_ended"),  # for the deletion of ended jobs
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.owner}"

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn
from memories.models import MemoryRecord


class Expectation(models.TextChoices):
    """Result that a check's statement has to have if the memory is true."""

    EQUALS = "equals", gettext_lazy("Equals")
    AT_LEAST = "at_least", gettext_lazy("At least")
    BETWEEN = "between", gettext_lazy("Between")
    EMPTY = "empty", gettext_lazy("Is empty")
    NOT_EMPTY = "not_empty", gettext_lazy("Is not empty")
    SAME = "same", gettext_lazy("Same as when captured")


class CheckState(models.TextChoices):
    NOT_RUN = "not_run", gettext_lazy("Not run yet")
    PASSED = "passed", gettext_lazy("Passed")
    FAILED = "failed", gettext_lazy("Failed")
    CANNOT_RUN = "cannot_run", gettext_lazy("Can’t run")


class MemoryCheck(models.Model):
    """A statement that proves a memory, what it should return, and its last results.

    It runs with the rights of `author`. Texts with values of the source (`value`, `low`, `high`, `captured`, and the
    details in `runs`) and the statement are shown to people who may read the source.
    """

    person_columns = (PersonColumn("author", handed_over_as="checks"),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="checks")
    author = models.CharField(max_length=254)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    source = models.CharField(max_length=60)
    sql = models.TextField()
    expects = models.CharField(max_length=10, choices=Expectation.choices)
    value = models.JSONField(null=True, blank=True, help_text=gettext_lazy("For equals and at least."))
    low = models.JSONField(null=True, blank=True, help_text=gettext_lazy("For between."))
    high = models.JSONField(null=True, blank=True, help_text=gettext_lazy("For between."))
    digest = models.CharField(max_length=64, blank=True, help_text=gettext_lazy("SHA-256 of the captured result."))
    captured = models.TextField(blank=True, help_text=gettext_lazy("A summary of the captured result."))

    state = models.CharField(max_length=10, choices=CheckState.choices, default=CheckState.NOT_RUN)
    checked_at = models.DateTimeField(null=True, blank=True)
    runs = models.JSONField(default=list, help_text=gettext_lazy("The last results, newest first."))
    failures = models.PositiveSmallIntegerField(default=0, help_text=gettext_lazy("Failures in a row, at most 2."))
    failed_at = models.DateTimeField(null=True, blank=True, help_text=gettext_lazy("The first of these failures."))
    next_run_at = models.DateTimeField(default=timezone.now)
    runs_on = models.DateField(null=True, blank=True, help_text=gettext_lazy("The last day in UTC with a run."))
    runs_that_day = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "memory_checks"
        ordering = ["created_at", "id"]
        verbose_name = gettext_lazy("check")
        constraints = [
            models.CheckConstraint(condition=Q(expects__in=Expectation.values), name="check_expectation_known"),
            models.CheckConstraint(condition=Q(state__in=CheckState.values), name="check_state_known"),
        ]
        indexes = [
            models.Index(fields=["next_run_at"], name="check_due"),  # for the schedule
            models.Index(fields=["source", "runs_on"], name="check_runs_of_source"),  # for the daily limit
            models.Index(fields=["author"], name="check_of_author"),  # for hand-overs and wipes
        ]

    def __str__(self) -> str:
        return f"{self.get_expects_display()}, {self.source}"

    @property
    def last_run(self) -> dict[str, Any]:
        """Return the last result: `at`, `state`, `text` for everybody, and `detail` with values of the source."""
        return self.runs[0] if self.runs else {}

    @property
    def has_failed_twice(self) -> bool:
        return self.failures > 1

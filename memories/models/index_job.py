from __future__ import annotations

import uuid

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn


class JobStatus(models.TextChoices):
    PENDING = "pending", gettext_lazy("Pending")
    RUNNING = "running", gettext_lazy("Running")
    SUCCEEDED = "succeeded", gettext_lazy("Succeeded")
    FAILED = "failed", gettext_lazy("Failed")


class Trigger(models.TextChoices):
    WRITE = "write", gettext_lazy("Write")
    RECONCILER = "reconciler", gettext_lazy("Reconciler")
    MANUAL_RETRY = "manual_retry", gettext_lazy("Manual Retry")


class IndexJob(models.Model):
    """A worker's job for one row, its unit: to embed the row's text, or to enrich a conversation memory.

    A unit has at most one open job of a kind. Failed jobs are kept, with their cause, at least until they are resolved.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    source_kind = models.CharField(
        max_length=40, help_text=gettext_lazy("The kind of row that the job works on, for example memory.")
    )
    source_id = models.UUIDField()
    trigger_kind = models.CharField(max_length=20, choices=Trigger.choices)
    status = models.CharField(max_length=10, choices=JobStatus.choices, default=JobStatus.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    last_error = models.TextField(blank=True, default="")
    next_run_at = models.DateTimeField(default=timezone.now)
    worker_id = models.CharField(max_length=200, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    completed_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(
        null=True,
        blank=True,
        help_text=gettext_lazy("When a failed job was resolved: by a later success, or by a person."),
    )

    class Meta:
        db_table = "index_jobs"
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["source_kind", "source_id"],
                condition=Q(status__in=[JobStatus.PENDING, JobStatus.RUNNING]),
                name="index_job_one_open_per_unit",
            ),
            models.CheckConstraint(condition=Q(status__in=JobStatus.values), name="index_job_status_known"),
        ]
        indexes = [
            models.Index(fields=["next_run_at"], condition=Q(status=JobStatus.PENDING), name="index_job_next"),  # claim
            models.Index(  # reap: expired leases
                fields=["lease_expires_at"], condition=Q(status=JobStatus.RUNNING), name="index_job_leases"
            ),
            models.Index(fields=["source_kind", "source_id", "-created_at"], name="index_job_unit"),
        ]

    def __str__(self) -> str:
        return f"{self.source_kind} {self.source_id}: {self.status}"


class Lexeme(models.Model):
    """Numbers of memories that contain a search term, by the people who may read them.

    They are derived data (retrieval/term_statistics.py). Archived memories are not counted.
    """

    person_columns = (PersonColumn("owner"),)

    id = models.BigAutoField(primary_key=True)
    lexeme = models.TextField()
    owner = models.CharField(
        max_length=254, help_text=gettext_lazy("Owner of the private memories that are counted, or empty.")
    )
    persona = models.CharField(
        max_length=60,
        help_text=gettext_lazy("Persona with which the counted memories are shared, or empty. Both empty: everyone."),
    )
    rough = models.BooleanField(help_text=gettext_lazy("Whether this is the rough count of all shared memories."))
    documents = models.PositiveIntegerField(help_text=gettext_lazy("Number of memories that contain the term."))
    people = models.PositiveIntegerField(
        null=True, help_text=gettext_lazy("Of a rough count: how many people use the term at least.")
    )

    class Meta:
        db_table = "memory_lexemes"
        constraints = [
            models.UniqueConstraint(fields=["lexeme", "owner", "persona", "rough"], name="lexeme_once_for_its_readers")
        ]

    def __str__(self) -> str:
        return f"{self.lexeme}: {self.documents}"


class LexemeChange(models.Model):
    """A memory whose words are yet to be added to the counts of Lexeme, or to be subtracted from them.

    Triggers on memory_records write these rows, so no write of a memory is missed.
    """

    person_columns = (PersonColumn("owner", PSEUDONYM),)  # others' counts need it until they are settled

    id = models.BigAutoField(primary_key=True)
    owner = models.CharField(max_length=254)
    persona = models.CharField(max_length=60)
    visibility = models.CharField(max_length=10)
    search = SearchVectorField()
    documents = models.SmallIntegerField(help_text=gettext_lazy("1 if the memory is added, -1 if it is removed."))

    class Meta:
        db_table = "memory_lexeme_changes"

    def __str__(self) -> str:
        return f"{self.documents} of {self.owner}"

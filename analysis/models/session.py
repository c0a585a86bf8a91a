from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PersonColumn
from memories.models.fields import exact_words
from memories.models.passage import TextPassage


class SessionQuerySet(models.QuerySet["Session"]):
    def owned_by(self, caller: Caller) -> SessionQuerySet:
        """Return the caller's own sessions. Admins, too, can query and act only in their own sessions."""
        return self.filter(owner=caller.email)


class Session(models.Model):
    """A user's analysis: the ingested records, findings and actions of one analysis_id."""

    person_columns = (PersonColumn("owner", handed_over_as="analyses", unique=("analysis_id",)),)

    id = models.BigAutoField(primary_key=True)
    analysis_id = models.CharField(max_length=200)
    owner = models.CharField(max_length=254)
    persona = models.CharField(max_length=60)
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(default=timezone.now)

    objects = SessionQuerySet.as_manager()

    class Meta:
        db_table = "analysis_sessions"
        ordering = ["-last_used_at"]
        constraints = [models.UniqueConstraint(fields=["owner", "analysis_id"], name="analysis_once_an_owner")]

    def __str__(self) -> str:
        return f"{self.analysis_id} of {self.owner}"


class IngestedRecord(models.Model):
    """A copy of an upstream record, as of `ingested_at`."""

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="records")
    model = models.CharField(max_length=120)
    record_id = models.CharField(
        max_length=500, help_text=gettext_lazy("The upstream's id, or a hash of the row's position if it has none.")
    )
    has_id = models.BooleanField(default=True)
    data = models.JSONField()
    ingested_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        db_table = "ingested_records"
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["session", "model", "record_id"], name="ingested_once")]
        indexes = [
            models.Index(fields=["session", "model", "id"], name="ingested_in_order"),  # for lists and samples
            GinIndex(fields=["data"], opclasses=["jsonb_path_ops"], name="ingested_exact"),  # for exact matches
            models.Index(fields=["expires_at"], name="ingested_expiry"),  # for the deletion of expired records
            models.Index(fields=["record_id"], condition=Q(model="memory"), name="ingested_memory"),  # for erasing
        ]

    def __str__(self) -> str:
        return f"{self.model} {self.record_id}"


class Finding(models.Model):
    """A conclusion that an agent stored, or the summary of an ingested page."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="findings")
    model = models.CharField(max_length=120, blank=True)
    finding = models.TextField()
    category = models.CharField(max_length=120, blank=True)
    metadata = models.JSONField(default=dict)
    page_key = models.CharField(
        max_length=80, blank=True, help_text=gettext_lazy("For a page summary: the page and its scope.")
    )
    embedding_model = models.CharField(max_length=200, blank=True, default="", editable=False)
    embedding_text_hash = models.BinaryField(null=True, editable=False)
    persistent = models.BooleanField(default=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "analysis_memories"
        ordering = ["-created_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["session", "page_key"], condition=~Q(page_key=""), name="one_summary_a_page"
            ),
        ]
        indexes = [
            models.Index(fields=["session", "category"], name="finding_of_session"),
            models.Index(fields=["expires_at"], name="finding_expiry"),  # for the deletion of expired findings
            GinIndex(exact_words("finding"), name="finding_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return self.finding[:100]


class FindingPassage(TextPassage):
    """A passage of a finding's text and its vector. Derived data.

    There is no vector index, because a search compares only the passages of one session.
    """

    finding = models.ForeignKey(Finding, on_delete=models.CASCADE, related_name="passages")

    class Meta:
        db_table = "analysis_passages"

    def __str__(self) -> str:
        return f"{self.finding_id} {self.start}-{self.stop}"


class IngestState(models.TextChoices):
    RUNNING = "running", gettext_lazy("Running")  # initial state, before a download of all pages begins
    PARTIAL = (
        "partial",
        gettext_lazy("Partial"),
    )  # in progress, or stopped by the page limit, an error or the client; resume continues
    COMPLETE = "complete", gettext_lazy("Complete")


class Ingest(models.Model):
    """The progress of a download.

    Each combination of model, filters, page size, fields and impersonated user has its own row, so that a resume
    continues the right download.
    """

    id = models.BigAutoField(primary_key=True)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="ingests")
    model = models.CharField(max_length=120)
    scope = models.CharField(max_length=64, help_text=gettext_lazy("SHA-256 of model, filters, page size and fields."))
    filters = models.JSONField(default=dict)
    per_page = models.PositiveIntegerField()
    pages_done = ArrayField(models.PositiveIntegerField(), default=list)
    page_contents = models.JSONField(
        default=dict,
        blank=True,
        help_text=gettext_lazy("For each stored page: its number of rows, and a hash that identifies them."),
    )
    total_pages = models.PositiveIntegerField(null=True, blank=True)
    next_cursor = models.TextField(blank=True)
    state = models.CharField(max_length=10, choices=IngestState.choices, default=IngestState.RUNNING)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "analysis_ingests"
        constraints = [models.UniqueConstraint(fields=["session", "scope"], name="ingest_once_a_scope")]

    def __str__(self) -> str:
        return f"{self.model}: {len(self.pages_done)} pages, {self.state}"

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.database.retention import Retention
from foundation.people.columns import PersonColumn

KEPT_DAYS = 30  # days after the last work on it until an import is deleted with its report; it can't be undone then


class ImportState(models.TextChoices):
    PARSING = "parsing", gettext_lazy("Parsing")
    PARSED = "parsed", gettext_lazy("Waiting for you")
    TAKING_OVER = "taking_over", gettext_lazy("Taking over")
    DONE = "done", gettext_lazy("Done")
    UNDOING = "undoing", gettext_lazy("Undoing")
    UNDONE = "undone", gettext_lazy("Undone")
    FAILED = "failed", gettext_lazy("Failed")
    CANCELED = "canceled", gettext_lazy("Canceled")


class RowOutcome(models.TextChoices):
    NEW = "new", gettext_lazy("New")
    CONFLICTING = "conflicting", gettext_lazy("Conflicting")  # an earlier version of it was imported before
    DUPLICATE = "duplicate", gettext_lazy("Duplicate")
    REFUSED = "refused", gettext_lazy("Refused")
    KEPT = "kept", gettext_lazy("Kept")
    UNDONE = "undone", gettext_lazy("Undone")


WORKING = (ImportState.PARSING, ImportState.TAKING_OVER, ImportState.UNDOING)


class Import(models.Model):
    """A file that a person imports: first its rows are staged, then those that the person has chosen are taken over."""

    person_columns = (PersonColumn("created_by", handed_over_as="imports"),)

    retention = (Retention("worked_at", timedelta(days=KEPT_DAYS)),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    persona = models.CharField(
        max_length=60, help_text=gettext_lazy("The persona that was active when the file was uploaded.")
    )
    file_name = models.CharField(max_length=255)
    format = models.CharField(max_length=40)
    size = models.BigIntegerField(default=0, help_text=gettext_lazy("Bytes of the file."))
    state = models.CharField(max_length=12, choices=ImportState.choices, default=ImportState.PARSING)
    visibility = models.CharField(
        max_length=10, blank=True, help_text=gettext_lazy("Of rows that name none, or of all rows.")
    )
    applies_to_all = models.BooleanField(
        default=False, help_text=gettext_lazy("Whether the visibility holds for all rows.")
    )
    rows_read = models.PositiveIntegerField(default=0)
    read_to = models.BigIntegerField(
        default=0, help_text=gettext_lazy("Bytes of the parsed rows that have been read so far.")
    )
    is_read = models.BooleanField(default=False, help_text=gettext_lazy("Whether the end of the file was reached."))
    error = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    worked_at = models.DateTimeField(default=timezone.now, help_text=gettext_lazy("When a worker made progress last."))
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "imports"
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="import_of_person"),
            models.Index(fields=["worked_at"], condition=Q(state__in=WORKING), name="import_working"),
        ]

    def __str__(self) -> str:
        return self.file_name

    @property
    def is_working(self) -> bool:
        return self.state in WORKING


class ImportRow(models.Model):
    """One item of an imported file, and what becomes of it. Its data are deleted when the import is finished."""

    person_columns = (PersonColumn("owner", handed_over_as="rows of imports"),)

    id = models.BigAutoField(primary_key=True)
    of = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="rows")
    owner = models.CharField(max_length=254)
    number = models.PositiveIntegerField()
    place = models.CharField(max_length=300, help_text=gettext_lazy("Where it is in the file, for example “line 12”."))
    kind = models.CharField(max_length=40)
    key = models.CharField(max_length=400, blank=True, help_text=gettext_lazy("Names the item within its source."))
    text_key = models.CharField(
        max_length=32, blank=True, help_text=gettext_lazy("Digest of the text, to find repetitions.")
    )
    data = models.JSONField(default=dict)
    outcome = models.CharField(max_length=12, choices=RowOutcome.choices)
    reason = models.CharField(max_length=500, blank=True)
    is_chosen = models.BooleanField(default=True)
    existing = models.UUIDField(
        null=True, blank=True, help_text=gettext_lazy("The memory that it repeats or is a version of.")
    )
    reference = models.CharField(max_length=64, blank=True, help_text=gettext_lazy("The id of what was stored."))

    class Meta:
        db_table = "import_rows"
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["of", "number"], name="import_row_number")]
        indexes = [
            models.Index(fields=["of", "outcome", "number"], name="import_row_outcome"),  # report, taking over
            models.Index(fields=["of", "text_key"], name="import_row_text"),  # repetitions within the file
            models.Index(  # erasing a memory
                fields=["reference"], condition=~Q(reference=""), name="import_row_reference"
            ),
            models.Index(fields=["existing"], condition=Q(existing__isnull=False), name="import_row_existing"),
        ]

    def __str__(self) -> str:
        return self.place

    @property
    def text(self) -> str:
        return str(self.data.get("content") or self.data.get("name") or "")

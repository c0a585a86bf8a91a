from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PersonColumn
from memories.models.record import MemoryRecord


class Outdated(models.TextChoices):
    """Reason why a cited memory no longer stands as it was cited."""

    NONE = "", gettext_lazy("Current")
    SUPERSEDED = "superseded", gettext_lazy("Corrected")
    STALE = "stale", gettext_lazy("May no longer be true")
    ARCHIVED = "archived", gettext_lazy("Archived")
    EDITED = "edited", gettext_lazy("Reworded")
    ROLLED_BACK = "rolled_back", gettext_lazy("Rolled back")
    INVALID = "invalid", gettext_lazy("No longer valid")


class CitingDocument(models.Model):
    """An answer, document or dashboard elsewhere that cites memories, as its author registered it."""

    person_columns = (PersonColumn("created_by", handed_over_as="citing documents", unique=("address",)),)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    created_by = models.CharField(max_length=254)
    title = models.CharField(max_length=200, blank=True, default="")
    address = models.CharField(max_length=500, help_text=gettext_lazy("Where it is: a URL, or other words."))
    is_shared = models.BooleanField(
        default=False, help_text=gettext_lazy("Whether its title and address are shown to other people.")
    )
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    registered_at = models.DateTimeField(default=timezone.now, editable=False)  # the last time
    erased = models.PositiveIntegerField(
        default=0, help_text=gettext_lazy("Cited memories that were erased and that its author has yet to note.")
    )
    erased_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        db_table = "citing_documents"
        ordering = ["-registered_at", "id"]
        verbose_name = gettext_lazy("citing document")
        constraints = [
            models.UniqueConstraint(fields=["created_by", "address"], name="citing_document_once"),  # and lists
            models.CheckConstraint(condition=~Q(address=""), name="citing_document_has_address"),
        ]

    def __str__(self) -> str:
        return self.title or self.address

    @property
    def url(self) -> str:
        """Return the address if pages may link to it, otherwise ""."""
        return self.address if self.address.lower().startswith(("https://", "http://")) else ""


class Citation(models.Model):
    """A memory that a document cites. It is current, outdated, or outdated and acknowledged."""

    id = models.BigAutoField(primary_key=True)
    document = models.ForeignKey(CitingDocument, on_delete=models.CASCADE, related_name="citations")
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="citations")
    cited_at = models.DateTimeField(default=timezone.now)
    content_key = models.CharField(max_length=32, help_text=gettext_lazy("The key of the text that is cited."))
    reason = models.CharField(max_length=12, choices=Outdated.choices, default=Outdated.NONE, blank=True)
    other_reason = models.CharField(
        max_length=12,
        choices=Outdated.choices,
        default=Outdated.NONE,
        blank=True,
        help_text=gettext_lazy("A reason that neither the status nor the text of the memory shows."),
    )
    outdated_at = models.DateTimeField(null=True, blank=True)
    acknowledged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "memory_citations"
        ordering = ["document", "id"]
        constraints = [
            models.UniqueConstraint(fields=["document", "record"], name="citation_once"),
            models.CheckConstraint(
                condition=Q(reason__in=Outdated.values, other_reason__in=("", "rolled_back", "invalid")),
                name="citation_reason_known",
            ),
            models.CheckConstraint(
                condition=Q(reason="") & Q(outdated_at=None) & Q(acknowledged_at=None)
                | ~Q(reason="") & Q(outdated_at__isnull=False),
                name="citation_outdated_has_reason",
            ),
        ]
        indexes = [
            models.Index(  # what the author of a document has yet to look at
                fields=["document"],
                condition=~Q(reason="") & Q(acknowledged_at=None),
                name="citation_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.record_id} in {self.document_id}"

    @property
    def is_open(self) -> bool:
        """Return whether the memory has changed since, and the document's author has not acknowledged that."""
        return bool(self.reason) and self.acknowledged_at is None

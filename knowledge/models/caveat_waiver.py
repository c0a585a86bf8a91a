from __future__ import annotations

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.caller import Caller
from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models import MemoryRecord
from memories.models.fields import exact_words
from memories.models.record import readable_by


class CaveatWaiverQuerySet(models.QuerySet["CaveatWaiver"]):
    def visible_to(self, caller: Caller) -> CaveatWaiverQuerySet:
        """Filter to waivers of memories that the caller may read."""
        return self.filter(readable_by(caller, "record__"))

    def in_force(self) -> CaveatWaiverQuerySet:
        """Filter to waivers that nobody has withdrawn and that are about the memory's present text."""
        return self.filter(withdrawn_at__isnull=True, content_key=F("record__content_key"))


class CaveatWaiver(models.Model):
    """A person's statement that a caveat does not hold for an entity derived from the caveat's own, or for a column."""

    person_columns = (
        PersonColumn("by", PSEUDONYM),
        PersonColumn("withdrawn_by", PSEUDONYM),
    )

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="waivers")
    urn = models.CharField(max_length=500, help_text=gettext_lazy("The derived entity."))
    column = models.CharField(
        max_length=300, blank=True, help_text=gettext_lazy("The derived column. Empty: the whole entity.")
    )
    reason = models.TextField()
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    content_key = models.CharField(
        max_length=32, help_text=gettext_lazy("The key of the text that was waived. Another text ends the waiver.")
    )
    withdrawn_by = models.CharField(max_length=254, blank=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)
    # Copies of the memory's columns, kept by triggers, so that the policies of the table need no other table.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    objects = CaveatWaiverQuerySet.as_manager()

    class Meta:
        db_table = "caveat_waivers"
        ordering = ["-at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["record", "urn", "column", "content_key"],
                condition=Q(withdrawn_at__isnull=True),
                name="caveat_waived_once",
            )
        ]
        indexes = [
            models.Index(fields=["urn"], name="waiver_of_entity"),  # page of the derived entity
            models.Index(fields=["by"], name="waiver_of_person"),  # a wipe
            GinIndex(exact_words("reason"), name="waiver_words"),  # texts with the words of an erased one
        ]

    def __str__(self) -> str:
        return f"{self.record_id} waived for {self.urn} {self.column}".rstrip()

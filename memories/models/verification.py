from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Case, F, Func, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from memories.models.record import MemoryRecord, Visibility

# Fields that a verification is about. Changing one of them ends it, and changing it back renews it.
VERIFIED_FIELDS = frozenset({"content", "entity_urns", "related_columns", "visibility", "persona"})


def version_of(prefix: str = "") -> Func:
    """Return the SQL expression for the version of a memory: a SHA-256 of its VERIFIED_FIELDS.

    The persona is part of the version only while it decides who may read the memory.
    """
    audience = Case(
        When(**{f"{prefix}visibility": Visibility.PERSONA}, then=F(f"{prefix}persona")),
        default=Value(""),
        output_field=models.TextField(),
    )
    fields = [F(f"{prefix}{name}") for name in ("content", "entity_urns", "related_columns", "visibility")]
    return Func(
        *fields,
        audience,
        template="encode(sha256(convert_to(jsonb_build_array(%(expressions)s)::text, 'UTF8')), 'hex')",
        output_field=models.CharField(),
    )


class VerificationQuerySet(models.QuerySet["Verification"]):
    def current(self) -> VerificationQuerySet:
        """Filter to verifications of the version that a memory has now."""
        return self.filter(version=version_of("record__"))

    def by_second_person(self) -> VerificationQuerySet:
        """Filter to current verifications by people who neither own the memory nor have written its text."""
        return self.current().filter(is_own=False).exclude(by=F("record__created_by"))


class Verification(models.Model):
    """A person's statement that a memory is true. It is about one version of the memory."""

    person_columns = (PersonColumn("by", PSEUDONYM),)

    id = models.BigAutoField(primary_key=True)
    record = models.ForeignKey(MemoryRecord, on_delete=models.CASCADE, related_name="verifications")
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    version = models.CharField(max_length=64, help_text=gettext_lazy("The version that was verified, see version_of."))
    is_own = models.BooleanField(help_text=gettext_lazy("Whether the person owned the memory or had written its text."))
    detected_urns = ArrayField(
        models.CharField(max_length=500),
        default=list,
        help_text=gettext_lazy(
            "Entities that were detected in the text by then. Those detected later are not verified."
        ),
    )

    # Copies of the memory's columns, kept by triggers, so that the policies of the table need no other table.
    owner = models.CharField(max_length=254, default="", editable=False)
    persona = models.CharField(max_length=60, default="", editable=False)
    visibility = models.CharField(max_length=10, default="", editable=False)

    objects = VerificationQuerySet.as_manager()

    class Meta:
        db_table = "memory_verifications"
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"verified by {self.by}"

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn
from knowledge.models.changeset import Changeset
from memories.models.fields import exact_words

MAX_DERIVED = 200  # the most entities that one lineage query returns


def sensitive_by_default() -> list[str]:
    return ["pii"]


class ApprovalRule(models.Model):
    """Limits above which a changeset needs the approval of a second curator.

    There is one row. An empty limit is switched off.
    """

    person_columns = (PersonColumn("changed_by", PSEUDONYM),)

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    readers = models.PositiveIntegerField(
        gettext_lazy("readers"),
        null=True,
        blank=True,
        default=50,
        validators=[MinValueValidator(1)],
        help_text=gettext_lazy("Number of people who were shown memories about its entities in the last 30 days."),
    )
    derived = models.PositiveSmallIntegerField(
        gettext_lazy("derived entities"),
        null=True,
        blank=True,
        default=20,
        validators=[MinValueValidator(1), MaxValueValidator(MAX_DERIVED)],
        help_text=gettext_lazy("Number of entities downstream of its entities in lineage, at any distance up to 5."),
    )
    sensitive = ArrayField(
        models.CharField(max_length=80),
        verbose_name=gettext_lazy("sensitive tags and terms"),
        default=sensitive_by_default,
        blank=True,
        help_text=gettext_lazy("Words, separated by commas. A tag or glossary term is sensitive if its name has one."),
    )
    changed_by = models.CharField(max_length=254, blank=True, editable=False)
    changed_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        db_table = "approval_rules"
        verbose_name = gettext_lazy("approval rule")
        verbose_name_plural = gettext_lazy("approval rules")
        constraints = [
            models.CheckConstraint(condition=Q(id=1), name="approval_rule_is_one"),
            models.CheckConstraint(
                condition=Q(derived__isnull=True) | Q(derived__lte=MAX_DERIVED), name="derived_known"
            ),
        ]

    def __str__(self) -> str:
        return str(gettext_lazy("Second approval of changesets"))


class ChangesetVerdict(models.TextChoices):
    APPROVED = "approved", gettext_lazy("Approved")
    DECLINED = "declined", gettext_lazy("Declined")
    WITHDRAWN = "withdrawn", gettext_lazy("Withdrawn")


class ChangesetApproval(models.Model):
    """Decision of a curator on a changeset that needs two approvals. The first row is that of the proposer."""

    person_columns = (PersonColumn("by", PSEUDONYM),)

    id = models.BigAutoField(primary_key=True)
    changeset = models.ForeignKey(Changeset, on_delete=models.CASCADE, related_name="approvals")
    by = models.CharField(max_length=254)
    at = models.DateTimeField(default=timezone.now)
    verdict = models.CharField(max_length=10, choices=ChangesetVerdict.choices)
    notes = models.TextField(blank=True)

    class Meta:
        db_table = "changeset_approvals"
        ordering = ["at", "id"]
        constraints = [
            models.CheckConstraint(condition=Q(verdict__in=ChangesetVerdict.values), name="approval_verdict_known"),
            models.UniqueConstraint(
                fields=["changeset", "by"], condition=Q(verdict="approved"), name="approval_once_a_curator"
            ),
        ]
        indexes = [GinIndex(exact_words("notes"), name="approval_words")]  # texts with the words of an erased one

    def __str__(self) -> str:
        return f"{self.verdict} by {self.by}"

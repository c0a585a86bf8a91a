from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn


class AssignmentRule(models.Model):
    """A rule that assigns new insights of a persona to a curator. Empty conditions match every insight."""

    person_columns = (
        PersonColumn("assignee", PSEUDONYM),
        PersonColumn("created_by", PSEUDONYM),
    )

    id = models.BigAutoField(primary_key=True)
    persona = models.CharField(max_length=60)
    entity_urn = models.CharField(max_length=500, blank=True)
    domain_urn = models.CharField(max_length=500, blank=True)
    category = models.CharField(max_length=30, blank=True)
    assignee = models.CharField(max_length=254)
    target_days = models.PositiveSmallIntegerField(null=True, blank=True, help_text="Empty: REVIEW_TARGET_DAYS.")
    created_by = models.CharField(max_length=254)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        db_table = "assignment_rules"
        ordering = ["persona", "id"]
        verbose_name = gettext_lazy("assignment rule")
        verbose_name_plural = gettext_lazy("assignment rules")
        constraints = [
            models.UniqueConstraint(
                fields=["persona", "entity_urn", "domain_urn", "category"], name="assignment_rule_unique"
            ),
            models.CheckConstraint(
                condition=~Q(entity_urn="", domain_urn="", category=""), name="assignment_rule_has_a_condition"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.persona}: {self.entity_urn or self.domain_urn or self.category} to {self.assignee}"

    @property
    def rank(self) -> tuple[bool, bool, bool, int]:
        """The sort key. The most specific rule comes first: an entity before a domain, and that before a category."""
        return (not self.entity_urn, not self.domain_urn, not self.category, self.pk)

"""The time in which a memory is true: its conditions in SQL, and the named periods that memories may depend on."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy

from foundation.people.columns import PSEUDONYM, PersonColumn

VALIDITY_FIELDS = ("valid_from", "valid_until", "valid_while")  # what people state
VALIDITY_COLUMNS = (*VALIDITY_FIELDS, "condition_ended_at")
NOT_YET, EXPIRED = "not_yet_valid", "expired"

# The condition of the partial index for memories that are, or may be, outside their validity. They are few.
MAY_BE_OUTSIDE = (
    Q(valid_from__isnull=False) | Q(valid_until__isnull=False) | Q(condition_ended_at__isnull=False)
)  # fmt: skip


def is_over() -> Q:
    """Return the condition for memories that are no longer true."""
    return Q(valid_until__lte=Now()) | Q(condition_ended_at__isnull=False)


def is_to_come() -> Q:
    """Return the condition for memories that are not true yet."""
    return Q(valid_from__gt=Now()) & ~is_over()


def outside() -> Q:
    """Return the condition for memories that are not yet or no longer true. It fits the index memory_bounded."""
    return Q(valid_from__gt=Now()) | is_over()


def within() -> Q:
    """Return the condition for memories that are true now. Most memories have no bounds, so null is tested first."""
    started = Q(valid_from__isnull=True) | Q(valid_from__lte=Now())
    lasts = Q(valid_until__isnull=True) | Q(valid_until__gt=Now())
    return started & lasts & Q(condition_ended_at__isnull=True)


def state_at(
    moment: datetime, valid_from: datetime | None, valid_until: datetime | None, condition_ended_at: datetime | None
) -> str:
    """Return NOT_YET, EXPIRED, or "" if a memory with these bounds is true at `moment`."""
    if any(end is not None and end <= moment for end in (valid_until, condition_ended_at)):
        return EXPIRED
    return NOT_YET if valid_from is not None and valid_from > moment else ""


class Period(models.Model):
    """A release, a fiscal period or any other named span of time, which an admin opens and ends."""

    person_columns = (
        PersonColumn("opened_by", PSEUDONYM),
        PersonColumn("ended_by", PSEUDONYM),
    )

    name = models.CharField(
        max_length=100,
        unique=True,
        help_text=gettext_lazy("For example FY2026-Q3 or release-42. Memories refer to it, so it stays."),
    )
    note = models.CharField(max_length=500, blank=True)
    opened_at = models.DateTimeField(default=timezone.now)
    opened_by = models.CharField(max_length=254)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.CharField(max_length=254, blank=True)

    class Meta:
        db_table = "memory_periods"
        ordering = ["-opened_at", "name"]
        verbose_name = gettext_lazy("period")
        verbose_name_plural = gettext_lazy("periods")

    def __str__(self) -> str:
        return self.name

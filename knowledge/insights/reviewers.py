"""People who can review the insights of a persona."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Exists, OuterRef, Q

from foundation.operations.errors import DomainError
from foundation.people.caller import CURATE, Caller
from foundation.people.permissions import build_caller
from knowledge.models.changeset import Changeset
from knowledge.models.insight import InsightQuerySet


def has_right() -> Q:
    """Return the condition that an account may curate."""
    permissions = Permission.objects.filter(codename=CURATE, content_type__app_label="knowledge")
    return (Q(groups__permissions__in=permissions) | Q(user_permissions__in=permissions) | Q(is_superuser=True)) & Q(
        is_active=True
    )


def reviewer(email: str, persona: str) -> Caller | None:
    """Return the person with this address if they can review the insights of this persona, otherwise None."""
    person = get_user_model().objects.filter(email=email.strip().lower(), is_active=True).first()
    try:
        caller = build_caller(person, channel="portal") if person else None
    except DomainError:
        return None
    return caller if caller and caller.is_curator and caller.can_review_for(persona) else None


def reviewing(emails: Iterable[str]) -> set[tuple[str, str]]:
    """Return which of these people review which personas, as (e-mail address, persona); "" stands for all personas."""
    rows = get_user_model().objects.filter(has_right(), email__in=set(emails))
    values = rows.values_list("email", "is_superuser", "personas__name")
    return {(email, "" if is_superuser else str(persona)) for email, is_superuser, persona in values}


def without_assignee(rows: InsightQuerySet) -> InsightQuerySet:
    """Filter to insights that are assigned to nobody, or to somebody who can no longer review them."""
    accounts = get_user_model().objects.filter(has_right(), email=OuterRef("assignee"))
    holds_persona = Q(is_superuser=True) | Q(personas__name=OuterRef("record__persona"))
    return rows.exclude(Exists(accounts.filter(holds_persona)))


def second_approvers(changeset: Changeset) -> list[str]:
    """Return the e-mail addresses of the people who may give the second approval of a changeset."""
    accounts = get_user_model().objects.filter(has_right()).exclude(email=changeset.applied_by)
    holders = accounts
    for persona in changeset.personas:  # they must hold each of them
        holders = holders.filter(Q(is_superuser=True) | Q(personas__name=persona))
    return sorted(set(holders.values_list("email", flat=True)))

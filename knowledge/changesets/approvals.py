"""The second approval of risky changesets.

Whoever applies a risky changeset gives the first approval, and nothing is written. A second curator who may decide
about all of its insights sees the same diff and approves or declines it. Its insights stay bound to it meanwhile, so
that nobody else applies or rejects them. A declined or withdrawn changeset sets them free, still approved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from django.db import transaction
from django.db.models import Count, F
from django.utils import timezone
from django.utils.translation import gettext
from pydantic import Field

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden
from foundation.operations.fields import Reason, Text
from foundation.operations.operation import Operation, validate
from foundation.people.caller import Caller
from knowledge.catalog.interface import Catalog
from knowledge.changesets.apply import Applied, carry_out, check, get_changeset
from knowledge.changesets.delivery import as_before, as_written, catalog_of, value_now
from knowledge.insights import events
from knowledge.insights.lifecycle import require_curator, unbind
from knowledge.models import (
    ApprovalRule,
    Changeset,
    ChangesetApproval,
    ChangesetState,
    ChangesetVerdict,
    Decision,
    Insight,
    InsightState,
)
from knowledge.models.approval import MAX_DERIVED
from knowledge.models.changeset import ChangesetQuerySet

MAX_WORDS = 50


class SaveApprovalRule(Operation):
    """Set when a changeset needs two approvals; an empty limit is switched off"""

    readers: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    derived: Annotated[int, Field(ge=1, le=MAX_DERIVED)] | None = None
    sensitive: Annotated[list[Annotated[str, Text(1, 80)]], Field(max_length=MAX_WORDS)] = []


def waiting(caller: Caller) -> ChangesetQuerySet:
    """Return the changesets of the caller's personas that wait for a second approval, oldest first."""
    return Changeset.objects.visible_to(caller).filter(state=ChangesetState.WAITING).order_by("created_at")


def for_me(caller: Caller) -> ChangesetQuerySet:
    """Return the waiting changesets that others have applied."""
    return waiting(caller).exclude(applied_by=caller.email)


def approve(caller: Caller, *, changeset_id: UUID | str, notes: str = "") -> Applied:
    """Give the second approval, and write the changes.

    Raises Forbidden if the caller gave the first one, or may not decide about one of the insights, and Conflict if the
    changeset does not wait, or if the catalog has changed since, so that the diff is no longer the one approved first.
    """
    require_curator(caller)
    notes = validate(Reason, notes, "review_notes")
    changeset = get_changeset(caller, changeset_id)
    _require_waiting(changeset)
    if changeset.applied_by == caller.email:
        raise Forbidden(gettext("has your approval already: another curator must approve it"), field="changeset_id")
    bound = bound_insights(changeset)
    check(caller, bound)
    if not caller.is_admin and any(insight.record.created_by == caller.email for insight in bound):
        raise Forbidden(gettext("applies an insight of yours: another curator must approve it"), field="changeset_id")
    catalog = catalog_of(changeset)
    _require_same_diff(catalog, changeset)
    with transaction.atomic():
        _decide(caller, changeset, ChangesetVerdict.APPROVED, ChangesetState.PLANNED, notes)
    return carry_out(caller, catalog, changeset)


def decline(caller: Caller, *, changeset_id: UUID | str, notes: str = "") -> Changeset:
    """End the wait without writing anything. The insights stay approved.

    Whoever gave the first approval withdraws it. Others need the right to apply the insights.
    """
    require_curator(caller)
    notes = validate(Reason, notes, "review_notes")
    changeset = get_changeset(caller, changeset_id)
    _require_waiting(changeset)
    is_own = changeset.applied_by == caller.email
    if not is_own and not all(caller.can_review_for(persona) for persona in changeset.personas):
        raise Forbidden(gettext("has insights of personas that you don't curate"), field="changeset_id")
    with transaction.atomic():
        verdict = ChangesetVerdict.WITHDRAWN if is_own else ChangesetVerdict.DECLINED
        _decide(caller, changeset, verdict, ChangesetState.DECLINED, notes)
        unbind(changeset)
    return changeset


@identity.service("promotion")
def bound_insights(changeset: Changeset) -> list[Insight]:
    """Return all insights of the changeset, so that a curator who can't see one of them can be refused."""
    rows = Insight.objects.filter(changeset=changeset, state=InsightState.APPROVED)
    return list(rows.select_related("record", "replaces"))


def _require_same_diff(catalog: Catalog, changeset: Changeset) -> None:
    """Raise Conflict if the catalog's values are no longer those from before the changes."""
    places = set()
    for change in changeset.changes.order_by("position"):
        place = (change.urn, change.aspect, tuple(change.path))
        current = value_now(catalog, change) if place not in places else None
        # A later write to the same place starts from what the first one writes.
        if place not in places and not (as_before(change, current) or as_written(change, current)):
            raise Conflict(
                gettext("is outdated: %(urn)s has changed since. Decline it and apply its insights again")
                % {"urn": change.urn},
                field="changeset_id",
            )
        places.add(place)


def save_rule(caller: Caller, operation: SaveApprovalRule) -> ApprovalRule:
    """Set the limits. They count for changesets applied from then on; those that wait keep waiting."""
    if not caller.is_admin:
        raise Forbidden(gettext("only admins can set when a changeset needs two approvals"))
    values = {
        "readers": operation.readers,
        "derived": operation.derived,
        "sensitive": sorted({word.casefold() for word in operation.sensitive}),
        "changed_by": caller.email,
        "changed_at": timezone.now(),
    }
    rule, _ = ApprovalRule.objects.update_or_create(pk=1, defaults=values)
    return rule


@dataclass(frozen=True)
class Agreement:
    """Numbers of a curator's decisions that other curators confirmed and contradicted."""

    curator: str
    confirmed: int  # insights they approved and another curator applied, and changesets of theirs that one approved
    contradicted: int  # decisions of theirs that were overturned, and changesets of theirs that were declined

    @property
    def share(self) -> float:
        return self.confirmed / (self.confirmed + self.contradicted)


def agreement(caller: Caller) -> list[Agreement]:
    """Return the agreement of each curator whose decisions were judged by another one. Only admins may see it."""
    if not caller.is_admin:
        raise Forbidden(gettext("only admins see how often curators agree"))
    others = ChangesetApproval.objects.exclude(by=F("changeset__applied_by"))
    applied = Insight.objects.exclude(applied_by="").exclude(reviewed_by__in=["", F("applied_by")])
    confirmed = Counter(_count(applied, "reviewed_by"))
    confirmed += Counter(_count(others.filter(verdict=ChangesetVerdict.APPROVED), "changeset__applied_by"))
    against = Counter(_count(Decision.objects.exclude(overturns=""), "overturns"))
    against += Counter(_count(others.filter(verdict=ChangesetVerdict.DECLINED), "changeset__applied_by"))
    curators = sorted(confirmed.keys() | against.keys())
    return [Agreement(curator, confirmed[curator], against[curator]) for curator in curators]


def _count(rows: object, column: str) -> dict[str, int]:
    return dict(rows.order_by().values_list(column).annotate(n=Count("pk")))  # type: ignore[attr-defined]


def _require_waiting(changeset: Changeset) -> None:
    if changeset.state != ChangesetState.WAITING:
        raise Conflict(
            gettext("is %(state)s: it does not wait for an approval")
            % {"state": changeset.get_state_display().lower()},
            field="changeset_id",
        )


def _decide(caller: Caller, changeset: Changeset, verdict: ChangesetVerdict, state: ChangesetState, notes: str) -> None:
    """Store the decision, unless somebody else has decided meanwhile."""
    waiting = Changeset.objects.filter(pk=changeset.pk, state=ChangesetState.WAITING)
    if not waiting.update(state=state):
        changeset.refresh_from_db()
        _require_waiting(changeset)
    changeset.state = state
    ChangesetApproval.objects.create(changeset=changeset, by=caller.email, verdict=verdict, notes=notes)
    events.announce_changeset(changeset, verdict, by=caller.email)

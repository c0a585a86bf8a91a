"""Announcement of review events to the registered extensions."""

from __future__ import annotations

from collections.abc import Iterable

from knowledge import extensions
from knowledge.models import Changeset, Decision, Insight

# kinds of events besides those of DecisionKind
CAPTURED, APPLIED, ROLLED_BACK, OVERTURNED = "captured", "applied", "rolled_back", "overturned"
PROPOSED = "proposed"  # of a changeset that needs a second approval, besides those of ChangesetVerdict


def announce_decision(
    insight: Insight, decision: Decision, *, to: Iterable[str], overridden: Iterable[str] = ()
) -> None:
    """Notify the people `to` of the decision, and those whose decision it overturns or overrides of that."""
    if decision.overturns:
        extensions.decision_overturned(insight, decision)
    announce(decision.kind, insight, by=decision.by, notes=decision.notes, to=to)
    if decided_before := {decision.overturns, *overridden} - {"", decision.by}:
        announce(OVERTURNED, insight, by=decision.by, to=decided_before)


def announce(kind: str, insight: Insight, *, by: str, notes: str = "", to: Iterable[str]) -> None:
    """Notify extensions of a review event.

    `by` is the e-mail address of the person who acted. `to` are the addresses of the people concerned; empty
    addresses and `by` are left out.
    """
    people = sorted({email for email in to if email and email != by})
    extensions.insight_reviewed(kind, insight, by=by, notes=notes, people=people)


def announce_changeset(changeset: Changeset, kind: str, *, by: str) -> None:
    """Notify extensions that a changeset waits for a second approval, or that a curator has decided about it."""
    extensions.changeset_decided(changeset, kind, by=by)

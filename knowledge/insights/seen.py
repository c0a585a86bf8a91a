"""The state of an insight as its reviewer saw it.

A page or a tool hands out a token with each insight, and a decision carries it back. If the insight has changed
meanwhile, the decision is refused with the names of those who changed it. A token reads for example
`approved.31.9f2c1a7b04.61d0b7e2aa.0`: the state, the number of the last decision, and digests of the text, of the
suggested changes and of the pending edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from django.db.models import Max
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid
from foundation.people.caller import Caller
from knowledge.models import Decision, DecisionKind, Insight, InsightState
from memories.operations import EDITABLE
from memories.portability import to_json

REVISIONS_READ = 20
SHOWN = 3  # maximum number of decisions that a refusal names
TOKEN = re.compile(r"([a-z]{1,12})\.(\d{1,18})\.([0-9a-f]{10})\.([0-9a-f]{10})\.(0|[0-9a-f]{10})")
NO_EDIT = "0"
PROPOSAL_EDITED = "proposal_edited"
# What a curator reads and decides on. The visibility is a matter of the owner, and part of the proposal.
TEXT_FIELDS = tuple(name for name in EDITABLE if name not in ("visibility", "language"))
VERBS = {
    DecisionKind.APPROVED: "approved it",
    DecisionKind.REJECTED: "rejected it",
    DecisionKind.TAKEN_BACK: "returned it to review",
    DecisionKind.APPEALED: "appealed its rejection",
    DecisionKind.EDIT_APPROVED: "approved its edit",
    DecisionKind.EDIT_REJECTED: "rejected its edit",
    DecisionKind.NEEDS_MORE: "asked its author a question",
    DecisionKind.ANSWERED: "answered the question",
    DecisionKind.HANDED_OVER: "handed it over",
    DecisionKind.SNOOZED: "snoozed it",
    "applied": "applied it",
    "rolled_back": "rolled its changeset back",
    "edited": "edited it",
    "edited_again": "wrote another edit",
}
AS_IT_IS = "a decision on what it is now, with the `seen` of review"


@dataclass(frozen=True)
class DecisionStep:
    """Act on an insight: a key of VERBS, or PROPOSAL_EDITED, whose author is not known."""

    kind: str
    by: str = ""
    at: datetime | None = None

    def __str__(self) -> str:
        if self.kind == PROPOSAL_EDITED:
            return "its suggested changes, its visibility or the memory that it replaces were edited"
        on = f" on {self.at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC" if self.at else ""
        return f"{self.by or 'somebody'} {VERBS.get(self.kind, 'decided on it')}{on}"


class ChangedMeanwhile(Conflict):
    """Another person has decided on the insight, or changed it, since the reviewer saw it.

    `is_about_other` is set if an edit has appeared or is gone, so that the same decision would now mean something else.
    """

    is_about_other = False
    steps: Sequence[DecisionStep] = ()  # what has happened since, oldest first


@dataclass(frozen=True)
class InsightVersion:
    state: str
    decision: int  # number of the last decision, 0 if there is none
    text: str
    proposal: str  # suggested changes, visibility, and the memory that the insight replaces
    edit: str  # NO_EDIT if no edit is pending

    @classmethod
    def parse(cls, token: str) -> Self:
        match = TOKEN.fullmatch(token)
        if match is None:
            raise Invalid(
                gettext("%(token)r is not a state of an insight") % {"token": token[:80]},
                field="seen",
                allowed=gettext("`seen` of the review"),
            )
        return cls(match[1], int(match[2]), match[3], match[4], match[5])

    def __str__(self) -> str:
        return f"{self.state}.{self.decision}.{self.text}.{self.proposal}.{self.edit}"


def version_of(insight: Insight) -> str:
    return versions_of([insight])[insight.pk]


def versions_of(insights: Collection[Insight], known: Mapping[UUID, int] | None = None) -> dict[UUID, str]:
    """Return the token of each insight, in one query. The insights' records must be loaded.

    `known` has the numbers of last decisions that the caller has loaded already.
    """
    last = dict(known or {})
    if unknown := [insight.pk for insight in insights if insight.pk not in last]:
        rows = Decision.objects.filter(insight__in=unknown).order_by()
        last |= dict(rows.values_list("insight").annotate(Max("pk")))
    return {insight.pk: str(_version(insight, last.get(insight.pk, 0))) for insight in insights}


def _version(insight: Insight, decision: int) -> InsightVersion:
    text = [to_json(getattr(insight.record, name)) for name in TEXT_FIELDS]
    proposal = [insight.suggested_actions, insight.wanted_visibility, str(insight.replaces_id or "")]
    edit = _digest([insight.pending_edit, insight.edit_by]) if insight.pending_edit else NO_EDIT
    return InsightVersion(insight.state, decision, _digest(text), _digest(proposal), edit)


def _digest(value: Any) -> str:
    # Keyed, because batches keep tokens: without the key, nobody can check whether an erased text was theirs.
    return salted_hmac("insight", json.dumps(value, sort_keys=True), algorithm="sha256").hexdigest()[:10]


def require_unchanged(insight: Insight, seen: str, override: bool) -> None:
    """Raise ChangedMeanwhile if the locked insight is no longer in the state of the token `seen`.

    An empty token is not compared. With `override`, only a pending edit that has appeared or is gone is refused,
    because the decision would then be about something else.
    """
    if not seen:
        return
    before = InsightVersion.parse(seen)
    now = InsightVersion.parse(version_of(insight))
    is_about_other = (before.edit == NO_EDIT) != (now.edit == NO_EDIT)
    if before == now or (override and not is_about_other):
        return
    steps = _steps(insight, before, now)
    changes = "; ".join(map(str, steps)) or "its text was edited"
    error = ChangedMeanwhile(
        f"has changed since you saw it: {changes}. It is {insight.state} now", field="insight_id", allowed=AS_IT_IS
    )
    error.is_about_other = is_about_other
    error.steps = steps
    raise error


def require_own_or_seen(caller: Caller, insight: Insight, decided_by: str, *, seen: str, override: bool) -> None:
    """Raise ChangedMeanwhile if a decision would overturn another curator's decision that the caller hasn't seen."""
    if seen or override or decided_by in ("", caller.email):
        return
    decision = Decision.objects.filter(insight=insight, by=decided_by).order_by("-pk").first()
    step = step_of(decision) if decision else DecisionStep("", decided_by)
    error = ChangedMeanwhile(f"was decided by somebody else: {step}", field="insight_id", allowed=AS_IT_IS)
    error.steps = [step]
    raise error


def overridden(caller: Caller, insight: Insight, seen: str) -> list[str]:
    """Return the people who decided on the insight since the caller saw it."""
    if not seen:
        return []
    since = Decision.objects.filter(insight=insight, pk__gt=InsightVersion.parse(seen).decision)
    kinds = set(DecisionKind) - {DecisionKind.ANSWERED, DecisionKind.APPEALED}
    return sorted(set(since.filter(kind__in=kinds).exclude(by=caller.email).values_list("by", flat=True)))


def repeats(caller: Caller, insight: Insight, seen: str, kind: DecisionKind, notes: str) -> bool:
    """Return whether the caller's last decision is this very one, and nobody else did anything since `seen`.

    A form that was sent twice, for example by a double click, asks for a decision that has been made.
    """
    if not seen:
        return False
    newer = list(
        Decision.objects.filter(insight=insight, pk__gt=InsightVersion.parse(seen).decision).order_by("pk")[:2]
    )
    return [(row.by, row.kind, row.notes) for row in newer] == [(caller.email, kind, notes.strip())]


def step_of(decision: Decision) -> DecisionStep:
    return DecisionStep(decision.kind, decision.by, decision.at)


def _steps(insight: Insight, before: InsightVersion, now: InsightVersion) -> list[DecisionStep]:
    newer = Decision.objects.filter(insight=insight, pk__gt=before.decision).order_by("-pk")[:SHOWN]
    steps = [step_of(decision) for decision in reversed(newer)]
    if now.state == InsightState.APPLIED != before.state and insight.applied_at:
        steps.append(DecisionStep("applied", insight.applied_by, insight.applied_at))
    elif before.state == InsightState.APPLIED != now.state:
        steps.append(_rollback(insight))
    if before.text != now.text and (edited := _last_edit(insight)):
        steps.append(edited)
    if before.proposal != now.proposal:
        steps.append(DecisionStep(PROPOSAL_EDITED))
    if now.edit not in (before.edit, NO_EDIT) and insight.edit_at:
        steps.append(DecisionStep("edited_again", insight.edit_by, insight.edit_at))
    return steps


def _rollback(insight: Insight) -> DecisionStep:
    """Return who rolled the changeset of the insight back, and when, as its memory's revisions tell."""
    revision = insight.record.revisions.filter(change="roll_back").order_by("-valid_to").first()
    return (
        DecisionStep("rolled_back", revision.changed_by, revision.valid_to) if revision else DecisionStep("rolled_back")
    )


def _last_edit(insight: Insight) -> DecisionStep | None:
    """Return who changed the text last, and when, if its revisions tell."""
    for revision in insight.record.revisions.all()[:REVISIONS_READ]:  # newest first
        if revision.content != insight.record.content or set(TEXT_FIELDS) & set(revision.details):
            return DecisionStep("edited", revision.changed_by, revision.valid_to)
    return None

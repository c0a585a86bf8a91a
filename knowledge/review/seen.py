"""The state of an insight as its reviewer saw it.

A page or a tool hands out a token with each insight, and a decision carries it back. If the insight has changed
meanwhile, the decision is refused with the names of those who changed it. A token reads for example
`approved.31.9f2c1a7b04.61d0b7e2aa.0`: the state, the number of the last decision, and digests of the text, of the
suggested changes and of the pending edit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from django.db.models import Max
from django.utils.crypto import salted_hmac

from knowledge.models import Decision, DecisionKind, Insight, InsightState
from memories.contract.errors import Conflict, Invalid
from memories.identity.caller import Caller

REVISIONS_READ = 20
SHOWN = 3  # maximum number of decisions that a refusal names
TOKEN = re.compile(r"([a-z]{1,12})\.(\d{1,18})\.([0-9a-f]{10})\.([0-9a-f]{10})\.(0|[0-9a-f]{10})")
NO_EDIT = "0"
TEXT_FIELDS = (
    "content", "summary", "tags", "dimension", "category", "confidence", "entity_urns", "related_columns",
)  # fmt: skip
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
}


class ChangedMeanwhile(Conflict):
    """Another person has decided on the insight, or changed it, since the reviewer saw it.

    `is_about_other` is set if an edit has appeared or is gone, so that the same decision would now mean something else.
    """

    is_about_other = False


@dataclass(frozen=True)
class Version:
    state: str
    decision: int  # number of the last decision, 0 if there is none
    text: str
    proposal: str  # suggested changes, visibility, and the memory that the insight replaces
    edit: str  # NO_EDIT if no edit is pending

    @classmethod
    def parse(cls, token: str) -> Self:
        match = TOKEN.fullmatch(token)
        if match is None:
            raise Invalid(f"{token[:80]!r} is not a state of an insight", field="seen", allowed="`seen` of the review")
        return cls(match[1], int(match[2]), match[3], match[4], match[5])

    def __str__(self) -> str:
        return f"{self.state}.{self.decision}.{self.text}.{self.proposal}.{self.edit}"


def version_of(insight: Insight) -> str:
    return versions_of([insight])[insight.pk]


def versions_of(insights: Collection[Insight]) -> dict[UUID, str]:
    """Return the token of each insight, in one query. The insights' records must be loaded."""
    rows = Decision.objects.filter(insight__in=[insight.pk for insight in insights]).order_by()
    last = dict(rows.values_list("insight").annotate(Max("pk")))
    return {insight.pk: str(_version(insight, last.get(insight.pk, 0))) for insight in insights}


def _version(insight: Insight, decision: int) -> Version:
    text = [getattr(insight.record, name) for name in TEXT_FIELDS]
    proposal = [insight.suggested_actions, insight.wanted_visibility, str(insight.replaces_id or "")]
    edit = _digest([insight.pending_edit, insight.edit_by]) if insight.pending_edit else NO_EDIT
    return Version(insight.state, decision, _digest(text), _digest(proposal), edit)


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
    before, now = Version.parse(seen), Version.parse(version_of(insight))
    is_about_other = (before.edit == NO_EDIT) != (now.edit == NO_EDIT)
    if before == now or (override and not is_about_other):
        return
    changes = "; ".join(_changes(insight, before, now)) or "its text was edited"
    hint = "a decision on what it is now" if is_about_other else "the new `seen`, or override=true"
    error = ChangedMeanwhile(
        f"has changed since you saw it: {changes}. It is {insight.state} now", field="insight_id", allowed=hint
    )
    error.is_about_other = is_about_other
    raise error


def require_own_or_seen(caller: Caller, insight: Insight, decided_by: str, *, seen: str, override: bool) -> None:
    """Raise ChangedMeanwhile if a decision would overturn another curator's decision that the caller hasn't seen."""
    if seen or override or decided_by in ("", caller.email):
        return
    decision = Decision.objects.filter(insight=insight, by=decided_by).order_by("-pk").first()
    what = said(decision) if decision else f"{decided_by} decided on it"
    raise ChangedMeanwhile(
        f"was decided by somebody else: {what}", field="insight_id", allowed="the new `seen`, or override=true"
    )


def overridden(caller: Caller, insight: Insight, seen: str) -> list[str]:
    """Return the people who decided on the insight since the caller saw it."""
    if not seen:
        return []
    since = Decision.objects.filter(insight=insight, pk__gt=Version.parse(seen).decision)
    kinds = set(DecisionKind) - {DecisionKind.ANSWERED, DecisionKind.APPEALED}
    return sorted(set(since.filter(kind__in=kinds).exclude(by=caller.email).values_list("by", flat=True)))


def said(decision: Decision) -> str:
    return f"{decision.by} {VERBS[DecisionKind(decision.kind)]} {_on(decision.at)}"


def _changes(insight: Insight, before: Version, now: Version) -> list[str]:
    newer = Decision.objects.filter(insight=insight, pk__gt=before.decision).order_by("-pk")[:SHOWN]
    changes = [said(decision) for decision in reversed(newer)]
    if now.state == InsightState.APPLIED != before.state and insight.applied_at:
        changes.append(f"{insight.applied_by} applied it {_on(insight.applied_at)}")
    elif before.state == InsightState.APPLIED != now.state:
        changes.append("its changeset was rolled back")
    if before.text != now.text and (edited := _last_edit(insight)):
        changes.append(edited)
    if before.proposal != now.proposal:
        changes.append("its suggested changes, its visibility or the memory that it replaces were edited")
    if now.edit not in (before.edit, NO_EDIT) and insight.edit_at:
        changes.append(f"{insight.edit_by} wrote another edit {_on(insight.edit_at)}")
    return changes


def _last_edit(insight: Insight) -> str:
    """Return who changed the text last, and when; empty if its revisions don't tell."""
    for revision in insight.record.revisions.all()[:REVISIONS_READ]:  # newest first
        if revision.content != insight.record.content or set(TEXT_FIELDS) & set(revision.details):
            return f"{revision.changed_by} edited it {_on(revision.valid_to)}"
    return ""


def _on(moment: datetime) -> str:
    return f"on {moment.astimezone(UTC):%Y-%m-%d at %H:%M} UTC"

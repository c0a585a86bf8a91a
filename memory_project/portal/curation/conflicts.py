"""Pages for decisions that were refused because the insight has changed since the curator saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from foundation.people.caller import Caller
from knowledge.insights.seen import PROPOSAL_EDITED, ChangedMeanwhile, DecisionStep, version_of
from knowledge.models import Insight, InsightState
from knowledge.review.queue import Queue
from knowledge.review.review_page import QUESTIONS, REASONS
from memory_project.accounts.names import name_of

# The states in which a decision can be repeated after its curator has seen what colleagues did meanwhile.
REPEATABLE = {
    "approve": (gettext_lazy("Approve anyway"), {InsightState.PENDING, InsightState.REJECTED}),
    "reject": (gettext_lazy("Reject anyway"), {InsightState.PENDING, InsightState.APPROVED}),
    "needs-more": (
        gettext_lazy("Ask anyway"),
        {InsightState.PENDING, InsightState.APPROVED, InsightState.REJECTED},
    ),
    "hand-over": (gettext_lazy("Hand over anyway"), {InsightState.PENDING}),
    "snooze": (gettext_lazy("Snooze anyway"), {InsightState.PENDING}),
    "apply": (gettext_lazy("Apply anyway"), {InsightState.PENDING, InsightState.APPROVED}),
    "undo": (
        gettext_lazy("Return to queue anyway"),
        {InsightState.PENDING, InsightState.APPROVED, InsightState.REJECTED},
    ),
}
OF_EDIT = {"approve": gettext_lazy("Approve the edit anyway"), "reject": gettext_lazy("Reject the edit anyway")}
# What somebody did, before the time; by kind of step: by a colleague, and by the curator in another tab.
SENTENCES = {
    "approved": (gettext_lazy("%(name)s approved it on"), gettext_lazy("You approved it on")),
    "rejected": (gettext_lazy("%(name)s rejected it on"), gettext_lazy("You rejected it on")),
    "taken_back": (gettext_lazy("%(name)s returned it to review on"), gettext_lazy("You returned it to review on")),
    "appealed": (gettext_lazy("%(name)s appealed its rejection on"), gettext_lazy("You appealed its rejection on")),
    "edit_approved": (gettext_lazy("%(name)s approved its edit on"), gettext_lazy("You approved its edit on")),
    "edit_rejected": (gettext_lazy("%(name)s rejected its edit on"), gettext_lazy("You rejected its edit on")),
    "needs_more": (
        gettext_lazy("%(name)s asked its author a question on"),
        gettext_lazy("You asked its author a question on"),
    ),
    "answered": (gettext_lazy("%(name)s answered the question on"), gettext_lazy("You answered the question on")),
    "handed_over": (gettext_lazy("%(name)s handed it over on"), gettext_lazy("You handed it over on")),
    "snoozed": (gettext_lazy("%(name)s snoozed it on"), gettext_lazy("You snoozed it on")),
    "applied": (gettext_lazy("%(name)s applied it on"), gettext_lazy("You applied it on")),
    "rolled_back": (
        gettext_lazy("%(name)s rolled its changeset back on"),
        gettext_lazy("You rolled its changeset back on"),
    ),
    "edited": (gettext_lazy("%(name)s edited it on"), gettext_lazy("You edited it on")),
    "edited_again": (gettext_lazy("%(name)s wrote another edit on"), gettext_lazy("You wrote another edit on")),
}
STATES = {
    InsightState.PENDING: gettext_lazy("It is pending now."),
    InsightState.APPROVED: gettext_lazy("It is approved now."),
    InsightState.APPLIED: gettext_lazy("It is applied now."),
    InsightState.REJECTED: gettext_lazy("It is rejected now."),
    InsightState.SUPERSEDED: gettext_lazy("A newer insight has replaced it."),
}


@dataclass(frozen=True)
class Happened:
    text: str
    at: datetime | None


def steps_for(caller: Caller, error: ChangedMeanwhile) -> list[Happened]:
    """Return what happened since the curator saw the insight, as sentences for a page."""
    return [_happened(caller, step) for step in error.steps]


def _happened(caller: Caller, step: DecisionStep) -> Happened:
    if step.kind == PROPOSAL_EDITED:
        text = gettext("Its suggested changes, its readers or the memory that it replaces were edited.")
        return Happened(text, None)
    by_colleague, by_oneself = SENTENCES.get(step.kind, SENTENCES["edited"])
    if step.by == caller.email:
        return Happened(str(by_oneself), step.at)
    return Happened(by_colleague % {"name": name_of(step.by) if step.by else gettext("Somebody")}, step.at)


def conflict_of(
    request: HttpRequest, caller: Caller, insight: Insight, act: str, error: ChangedMeanwhile, queue: Queue
) -> Mapping[str, Any]:
    """Return what the page needs to explain the refusal, and to repeat the decision with what the curator entered."""
    label, states = REPEATABLE[act]
    if insight.pending_edit:
        label = OF_EDIT.get(act, label)
        states = set(InsightState) if act in OF_EDIT else set()
    view = reverse("review-undo", args=[insight.pk]) if act == "undo" else ""
    view = view or reverse("review-decide", args=[insight.pk, act])
    also = request.POST.getlist("also")
    fields = [(name, request.POST.get(name, "")) for name in ("reason", "to", "until", "date")]
    fields += [(f"seen-{pk}", request.POST.get(f"seen-{pk}", "")) for pk in also]
    reason = request.POST.get("reason", "")
    is_being_applied = insight.state == InsightState.APPROVED and insight.changeset_id is not None
    return {
        "steps": steps_for(caller, error),
        "state": STATES[InsightState(insight.state)],
        "is_own_tab": bool(error.steps) and {step.by for step in error.steps} == {caller.email},
        "label": label,
        "address": view + queue.query_string,
        "is_possible": insight.state in states and not error.is_about_other and not is_being_applied,
        "note": typed_note(request),
        "reason": str(REASONS.get(reason) or QUESTIONS.get(reason) or reason),
        "version": version_of(insight),
        "fields": [*(field for field in fields if field[1]), *(("also", pk) for pk in also)],
    }


def typed_note(request: HttpRequest) -> str:
    """Return the note of a decision. Its panels repeat the field; without scripts, only one of them is filled in."""
    return next((text for note in request.POST.getlist("note") if (text := note.strip())), "")

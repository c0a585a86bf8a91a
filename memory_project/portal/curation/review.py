"""Pages of the review queue that show one insight at a time, with keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe
from django_htmx.middleware import HtmxDetails

from analysis.checks import running
from analysis.checks.queries import CheckView, views_of
from foundation.operations.errors import Conflict, DomainError, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.insights import queries
from knowledge.insights.lifecycle import edit as edit_insight
from knowledge.insights.lifecycle import require_curator, set_replaced
from knowledge.insights.seen import ChangedMeanwhile, repeats, version_of, versions_of
from knowledge.models import ChangesetState, DecisionKind, Insight, InsightState
from knowledge.operations import Edit
from knowledge.review import clarifications, decisions, snooze, suggested
from knowledge.review.queue import Queue, QueuePosition
from knowledge.review.review_page import MAX_ALIKE, QUESTIONS, REASONS, also_waiting, build_case, decided_today
from memories.models import MemoryRecord
from memory_project.accounts.names import name_of
from memory_project.portal.curation.conflicts import conflict_of, steps_for, typed_note
from memory_project.portal.proposal_forms import InsightForm
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label
from memory_project.web.last_decision import LastDecision

APPROVED_SHOWN = 20  # maximum number of approved insights listed when the queue is empty
MAX_OVERTURNED = 5  # maximum number of the caller's overturned decisions listed when the queue is empty
LAST = LastDecision("last_decision")
MAX_RESULT_AGE = timedelta(hours=1)  # of a check's result; an older check is run when its insight is opened
SNOOZES = {"1": gettext_lazy("Until tomorrow"), "7": gettext_lazy("For a week"), "30": gettext_lazy("For 30 days")}


@require_safe
@login_required
def next_in_queue(request: HttpRequest) -> HttpResponse:
    """Redirect to the first insight of the queue, or show a summary if the queue is empty."""
    caller = curator(request)
    review_queue = _queue(caller, request)
    position = review_queue.locate()
    if position.next_id:
        return redirect(_address(position.next_id, review_queue))
    context = {
        "queue": review_queue,
        "against": list(decisions.overturned_decisions(caller)[:MAX_OVERTURNED]),
        "approved": list(queries.backlog(caller).order_by("record__created_at")[:APPROVED_SHOWN]),
        "decided": decided_today(caller).count(),
        "last": LAST.offered(request),
    }
    return render(request, "review/empty.html", context)


@require_safe
@login_required
def review_detail(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    return _show(request, curator(request), insight_id)


def _show(
    request: HttpRequest, caller: Caller, insight_id: UUID, conflict: Mapping[str, object] | None = None
) -> HttpResponse:
    """Show the insight. With `conflict`, explain why the decision was refused, and keep what the curator entered."""
    review_queue = _queue(caller, request)
    insight = _with_due_time(caller, insight_id)
    place = review_queue.locate(insight, decided=decided_today(caller), also=also_waiting(caller, insight))
    past_decisions = list(insight.decisions.all())
    last_decision = {insight.pk: max((decision.pk for decision in past_decisions), default=0)}
    case = build_case(caller, insight)
    context = {
        "case": case,
        "seen": [(pk.hex, token) for pk, token in versions_of([insight, *case.alike], last_decision).items()],
        "conflict": conflict,
        "insight": insight,
        "record": insight.record,
        "queue": review_queue,
        "place": place,
        "reasons": REASONS,
        "questions": QUESTIONS,
        "snoozes": SNOOZES,
        "dates": snooze_dates(),
        "talk": clarifications.conversation(past_decisions),
        "may_replace": insight.state in (InsightState.PENDING, InsightState.APPROVED) and not insight.changeset_id,
        "is_own": insight.record.created_by == caller.email and not caller.is_admin,
        "is_snoozed": bool(insight.snoozed_until and insight.snoozed_until > timezone.now()),
        "is_overdue": insight.state == InsightState.PENDING and insight.due_at < timezone.now(),
        "last": LAST.offered(request),
        "checks": _checks(caller, insight.record),
        **place.counts,
    }
    htmx: HtmxDetails = request.htmx  # type: ignore[attr-defined]
    is_part = htmx.target == "review" and not htmx.history_restore_request
    return render(
        request, "review/_desk.html" if is_part else "review/one.html", context, status=409 if conflict else 200
    )


def _checks(caller: Caller, record: MemoryRecord) -> list[CheckView]:
    """Return the claim's checks with their last results. A worker runs the old ones, so the page doesn't wait."""
    views = views_of(caller, record)
    if views:
        running.request_runs([record.pk], older_than=MAX_RESULT_AGE)
    return views


def _with_due_time(caller: Caller, insight_id: UUID) -> Any:
    rows = queries.with_due_time(queries.by_ids(caller, [insight_id])).defer("record__search")
    insight = rows.first()
    if insight is None:
        raise NotFound(gettext("no such insight"), field="insight_id")
    return insight


def _show_conflict(
    request: HttpRequest, caller: Caller, insight_id: UUID, act: str, error: ChangedMeanwhile
) -> HttpResponse:
    insight = queries.insight(caller, insight_id)
    conflict = conflict_of(request, caller, insight, act, error, _queue(caller, request))
    return _show(request, caller, insight_id, conflict)


@require_POST
@login_required
def decide(request: HttpRequest, insight_id: UUID, act: str) -> HttpResponse:
    caller = curator(request)
    if act not in DECISIONS:
        raise NotFound(gettext("%(act)r is not a known decision") % {"act": act})
    review_queue = _queue(caller, request)
    insight = queries.insight(caller, insight_id)
    duplicates = [pk for pk in request.POST.getlist("also") if pk != insight.pk.hex]
    position = review_queue.locate(insight)
    following = _following(review_queue, position, duplicates)
    address = _address(following, review_queue) if following else reverse("review") + review_queue.query_string
    try:
        outcome, extra = DECISIONS[act](caller, insight_id, _note(request), _seen(request, insight_id), request.POST)
    except ChangedMeanwhile as error:
        if _is_repetition(request, caller, insight, act):
            return redirect(address)
        return _show_conflict(request, caller, insight_id, act, error)
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect(_address(insight_id, review_queue))
    decided_too = _decide_alike(request, caller, act, duplicates)
    # The session keeps only ids, because a text in it would not be erased together with the memory.
    LAST.keep(request, outcome, id=str(insight_id), also=decided_too, **extra)
    return redirect(address)


def _is_repetition(request: HttpRequest, caller: Caller, insight: Insight, act: str) -> bool:
    """Return whether the same form was sent before, for example by a double click."""
    kind = KINDS.get(act)
    return kind is not None and repeats(caller, insight, _seen(request, insight.pk), kind, _note(request))


def _following(review_queue: Queue, position: QueuePosition, decided: list[str]) -> UUID | None:
    """Return the insight to show after a decision: the next in the queue that is not decided with this one."""
    skipped = {*decided}
    candidates = [pk for pk in position.following if pk.hex not in skipped]
    return candidates[0] if candidates else None


def _decide_alike(request: HttpRequest, caller: Caller, act: str, duplicates: list[str]) -> list[str]:
    """Make the same decision on at most MAX_ALIKE near-duplicates. Returns the ids of the decided ones.

    They are approved and not applied, because the page does not show the catalog changes that they suggest.
    """
    act = "approve" if act == "apply" else act
    decided_ids = []
    for pk in duplicates[:MAX_ALIKE]:
        try:
            DECISIONS[act](caller, UUID(pk), _note(request), _seen(request, UUID(pk)), request.POST)
            decided_ids.append(pk)
        except (DomainError, ValueError) as error:
            messages.error(
                request,
                message_with_label(error) if isinstance(error, DomainError) else gettext("There is no such insight."),
            )
    return decided_ids


def _note(request: HttpRequest) -> str:
    """Return the note to the author: the chosen reason followed by the typed text."""
    parts = (request.POST.get("reason", ""), typed_note(request))
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())


def _seen(request: HttpRequest, insight_id: UUID) -> str:
    """Return the token of the insight's state when the page was shown."""
    return request.POST.get(f"seen-{insight_id.hex}", "")


Outcome = tuple[str, dict[str, str]]


def _approve(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    decisions.approve(caller, insight_id=insight_id, notes=note, seen=seen)
    return gettext("Approved."), {"undo": "yes"}


def _reject(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    if not note:
        raise Invalid(gettext("is missing: the author needs to know why"), field="reason")
    decisions.reject(caller, insight_id=insight_id, notes=note, seen=seen)
    return gettext("Rejected."), {"undo": "yes"}


def _need_more(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    clarifications.request_changes(caller, insight_id=insight_id, notes=note, seen=seen)
    return gettext("Sent back with your question."), {"undo": "yes"}


def _hand_over(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    to = data.get("to", "")
    insight = clarifications.reassign(caller, insight_id=insight_id, to=to, notes=note, seen=seen)
    return gettext("Handed over to %(name)s.") % {"name": name_of(insight.assignee)}, {"undo": "yes"}


def _snooze(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    until = snooze_end(data)
    snooze.snooze(caller, insight_id=insight_id, until=until, notes=note, seen=seen)
    return gettext("Snoozed until %(day)s.") % {"day": locale.day(until)}, {"undo": "yes"}


def _apply(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    """Approve the insight if it is pending, then write the changes that it suggests to the catalog."""
    insight = queries.insight(caller, insight_id)
    if insight.state == InsightState.PENDING:
        seen = version_of(decisions.approve(caller, insight_id=insight_id, notes=note, seen=seen))
    changeset = suggested.apply(caller, insight_id=insight_id, seen=seen)
    is_waiting = changeset.state == ChangesetState.WAITING
    outcome = gettext("Waits for a second approval.") if is_waiting else gettext("Applied.")
    return outcome, {"changeset": str(changeset.pk)}


DECISIONS: dict[str, Callable[[Caller, UUID, str, str, Mapping[str, str]], Outcome]] = {
    "approve": _approve,
    "reject": _reject,
    "needs-more": _need_more,
    "hand-over": _hand_over,
    "snooze": _snooze,
    "apply": _apply,
}
# What a decision is recorded as, for those that a form sent twice would repeat.
KINDS = {
    "approve": DecisionKind.APPROVED,
    "reject": DecisionKind.REJECTED,
    "needs-more": DecisionKind.NEEDS_MORE,
}


def snooze_end(data: Mapping[str, str]) -> datetime:
    """Return the midnight at which the chosen day begins: a date, or a number of days from today."""
    days = data.get("until", "")
    day = timezone.localdate()
    try:
        day = day + timedelta(days=int(days)) if days in SNOOZES else date.fromisoformat(data.get("date", ""))
    except ValueError:
        raise Invalid(gettext("is missing or not a date"), field="until") from None
    return timezone.make_aware(datetime.combine(day, datetime.min.time()))


def snooze_dates() -> dict[str, date]:
    """Return the first and the last day until which an insight can be snoozed."""
    today = timezone.localdate()
    return {"first": today + timedelta(days=1), "last": today + timedelta(days=snooze.MAX_DAYS - 1)}


@require_POST
@login_required
def set_replaced_memory(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    caller = curator(request)
    try:
        insight = set_replaced(caller, insight_id=insight_id, record_id=request.POST.get("record") or None)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        chosen = gettext("When it is applied, the insight corrects this memory: %(claim)s")
        none = gettext("The insight corrects no memory.")
        claim = Truncator(insight.replaces.content).chars(120) if insight.replaces else ""
        messages.success(request, chosen % {"claim": claim} if claim else none)
    return redirect(_address(insight_id, _queue(caller, request)))


@require_POST
@login_required
def undo(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Undo the decision on the insight, and on near-duplicates decided with it, and show the insight again."""
    caller = curator(request)
    last = LAST.stored(request)
    duplicates = last.get("also", []) if last.get("id") == str(insight_id) else []
    try:
        decisions.undo_review(caller, insight_id=insight_id, seen=_seen(request, insight_id))
    except ChangedMeanwhile as error:
        return _show_conflict(request, caller, insight_id, "undo", error)
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect(_address(insight_id, _queue(caller, request)))
    for pk in map(UUID, duplicates):
        try:
            decisions.undo_review(caller, insight_id=pk, seen=_seen(request, pk))
        except DomainError as error:
            messages.error(request, message_with_label(error))
    LAST.forget(request)
    messages.success(request, gettext("Undone. The insight is waiting for review again."))
    return redirect(_address(insight_id, _queue(caller, request)))


@require_safe
@login_required
def colleague_options(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Return the options of the field for a colleague: curators who can review this insight."""
    caller = curator(request)
    insight = queries.insight(caller, insight_id)
    people = clarifications.colleagues(caller, persona=insight.record.persona, author=insight.record.created_by)
    return render(request, "review/_colleagues.html", {"colleagues": people})


@login_required
def edit(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Edit the insight before deciding on it. “Save and approve” also approves it."""
    caller = curator(request)
    insight = queries.insight(caller, insight_id)
    form = InsightForm(request.POST or None, insight=insight)
    review_queue = _queue(caller, request)
    seen = _seen(request, insight_id) or version_of(insight)
    conflict = ""
    steps = []
    if request.method == "POST" and form.is_valid():
        try:
            edited = edit_insight(caller, Edit.read({"insight_id": insight_id, "seen": seen, **form.values()}))
            if "approve" in request.POST:
                decided = request.POST.copy()
                decided[f"seen-{insight_id.hex}"] = version_of(edited)
                request.POST = decided  # type: ignore[assignment]  # a QueryDict, too
                return decide(request, insight_id, "approve")
        except Invalid as error:
            form.refuse(error)
        except Conflict as error:  # what the curator typed stays in the form
            insight = queries.insight(caller, insight_id)
            seen = version_of(insight)
            conflict = error.fault
            steps = steps_for(caller, error) if isinstance(error, ChangedMeanwhile) else []
        else:
            messages.success(request, gettext("Saved."))
            return redirect(_address(insight_id, review_queue))
    context = {
        "form": form,
        "insight": insight,
        "record": insight.record,
        "back": _address(insight_id, review_queue),
        "seen": seen,
        "conflict": conflict,
        "steps": steps,
    }
    return render(request, "review/edit.html", context, status=409 if conflict else 200)


def curator(request: HttpRequest) -> Caller:
    """Return the caller. Raises Forbidden if they are not a curator."""
    caller = caller_from_request(request, channel="portal")
    require_curator(caller)
    return caller


def _queue(caller: Caller, request: HttpRequest) -> Queue:
    return Queue.of(caller, {**request.GET.dict(), "state": "pending"})


def _address(insight_id: UUID, review_queue: Queue) -> str:
    return reverse("review-one", args=[insight_id]) + review_queue.query_string

"""Pages of the review queue that show one insight at a time, with keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from knowledge.changesets import suggested
from knowledge.insights import queries
from knowledge.insights.lifecycle import edit as edit_insight
from knowledge.insights.lifecycle import require_curator, set_replaced
from knowledge.models import Insight, InsightState
from knowledge.operations import Edit
from knowledge.review import clarifications, decisions
from knowledge.review.cases import MAX_ALIKE, QUESTIONS, REASONS, also_waiting, build_case, decided_today
from knowledge.review.queue import Queue, QueuePosition
from knowledge.review.seen import ChangedMeanwhile, version_of, versions_of
from memories.contract.errors import Conflict, DomainError, Invalid, NotFound
from memories.identity.caller import Caller
from memories.identity.permissions import caller_from_request
from memories.queries import capped_counts
from memory_project.portal.error_labels import message_with_label
from memory_project.portal.proposal_forms import InsightForm
from memory_project.portal.search.autocomplete import colleagues

APPROVED_SHOWN = 20  # maximum number of approved insights listed when the queue is empty
MAX_OVERTURNED = 5  # maximum number of the caller's overturned decisions listed when the queue is empty
LAST = "last_decision"  # session key of the last decision, which the next page reports and may offer to undo


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
        "last": request.session.get(LAST),
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
    insight = queries.insight(caller, insight_id)
    counts = capped_counts(decided=decided_today(caller), also=also_waiting(caller, insight))
    past_decisions = list(insight.decisions.all())
    case = build_case(caller, insight)
    context = {
        "case": case,
        "seen": [(pk.hex, token) for pk, token in versions_of([insight, *case.alike]).items()],
        "conflict": conflict,
        "insight": insight,
        "record": insight.record,
        "queue": review_queue,
        "place": review_queue.locate(insight),
        "reasons": REASONS,
        "questions": QUESTIONS,
        "talk": clarifications.conversation(past_decisions),
        "colleagues": colleagues(caller),
        "may_replace": insight.state in (InsightState.PENDING, InsightState.APPROVED) and not insight.changeset_id,
        "is_own": insight.record.created_by == caller.email and not caller.is_admin,
        "last": request.session.get(LAST),
        **counts,
    }
    return render(request, "review/one.html", context, status=409 if conflict else 200)


# The states in which a decision can be repeated after its curator has seen what colleagues did meanwhile.
REPEATABLE = {
    "approve": ("Approve", {InsightState.PENDING, InsightState.REJECTED}),
    "reject": ("Reject", {InsightState.PENDING, InsightState.APPROVED}),
    "needs-more": ("Ask", {InsightState.PENDING, InsightState.APPROVED, InsightState.REJECTED}),
    "hand-over": ("Hand over", {InsightState.PENDING}),
    "apply": ("Apply", {InsightState.PENDING, InsightState.APPROVED}),
    "undo": ("Return to queue", {InsightState.APPROVED, InsightState.REJECTED}),
}


def _show_conflict(
    request: HttpRequest, caller: Caller, insight_id: UUID, act: str, error: ChangedMeanwhile
) -> HttpResponse:
    insight = queries.insight(caller, insight_id)
    label, states = REPEATABLE[act]
    view = (
        reverse("review-undo", args=[insight_id]) if act == "undo" else reverse("review-decide", args=[insight_id, act])
    )
    also = request.POST.getlist("also")
    fields = [("reason", request.POST.get("reason", "")), ("to", request.POST.get("to", ""))]
    fields += [(f"seen-{pk}", request.POST.get(f"seen-{pk}", "")) for pk in also]
    if insight.pending_edit:
        label, states = f"{label} the edit", set(InsightState) if act in ("approve", "reject") else set()
    conflict = {
        "fault": error.fault,
        "label": label,
        "address": view + _queue(caller, request).query_string,
        "is_possible": insight.state in states and not error.is_about_other and not _is_being_applied(insight),
        "note": request.POST.get("note", ""),
        "reason": request.POST.get("reason", ""),
        "version": version_of(insight),
        "fields": [*(field for field in fields if field[1]), *(("also", pk) for pk in also)],
    }
    return _show(request, caller, insight_id, conflict)


def _is_being_applied(insight: Insight) -> bool:
    return insight.state == InsightState.APPROVED and insight.changeset_id is not None


@require_POST
@login_required
def decide(request: HttpRequest, insight_id: UUID, act: str) -> HttpResponse:
    caller = curator(request)
    if act not in DECISIONS:
        raise NotFound(f"{act!r} is not a known decision")
    review_queue = _queue(caller, request)
    insight = queries.insight(caller, insight_id)
    duplicates = [pk for pk in request.POST.getlist("also") if pk != insight.pk.hex]
    position = review_queue.locate(insight)
    try:
        outcome, extra = DECISIONS[act](caller, insight_id, _note(request), _seen(request, insight_id), request.POST)
    except ChangedMeanwhile as error:
        return _show_conflict(request, caller, insight_id, act, error)
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect(_address(insight_id, review_queue))
    decided_too = _decide_alike(request, caller, act, duplicates)
    # The session keeps only ids, because a text in it would not be erased together with the memory.
    request.session[LAST] = {"id": str(insight_id), "also": decided_too, "message": outcome, **extra}
    following = _following(review_queue, position)
    return redirect(_address(following, review_queue) if following else reverse("review") + review_queue.query_string)


def _following(review_queue: Queue, position: QueuePosition) -> UUID | None:
    ids = review_queue.ids()  # read the queue again, because near-duplicates may have been decided too
    if position.next_id in ids:
        return position.next_id
    return ids[min(max(position.number - 1, 0), len(ids) - 1)] if ids else None


def _decide_alike(request: HttpRequest, caller: Caller, act: str, duplicates: list[str]) -> list[str]:
    """Make the same decision on at most MAX_ALIKE near-duplicates. Returns the ids of the decided ones."""
    decided_ids = []
    for pk in duplicates[:MAX_ALIKE]:
        try:
            DECISIONS[act](caller, UUID(pk), _note(request), _seen(request, UUID(pk)), request.POST)
            decided_ids.append(pk)
        except (DomainError, ValueError) as error:
            messages.error(
                request, message_with_label(error) if isinstance(error, DomainError) else "There is no such insight."
            )
    return decided_ids


def _note(request: HttpRequest) -> str:
    """Return the note to the author: the chosen reason followed by the typed text."""
    parts = (request.POST.get("reason", ""), request.POST.get("note", ""))
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())


def _seen(request: HttpRequest, insight_id: UUID) -> str:
    """Return the token of the insight's state when the page was shown."""
    return request.POST.get(f"seen-{insight_id.hex}", "")


Outcome = tuple[str, dict[str, str]]


def _approve(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    decisions.approve(caller=caller, insight_id=insight_id, notes=note, seen=seen)
    return "Approved", {"undo": "yes"}


def _reject(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    if not note:
        raise Invalid("is missing: the author needs to know why", field="reason")
    decisions.reject(caller=caller, insight_id=insight_id, notes=note, seen=seen)
    return "Rejected", {"undo": "yes"}


def _need_more(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    clarifications.request_changes(caller=caller, insight_id=insight_id, notes=note, seen=seen)
    return "Sent back with your question", {}


def _hand_over(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    insight = clarifications.reassign(
        caller=caller, insight_id=insight_id, to=data.get("to", ""), notes=note, seen=seen
    )
    return f"Handed to {insight.assignee}", {}


def _apply(caller: Caller, insight_id: UUID, note: str, seen: str, data: Mapping[str, str]) -> Outcome:
    """Approve the insight if it is pending, then write the changes that it suggests to the catalog."""
    insight = queries.insight(caller, insight_id)
    if insight.state == InsightState.PENDING:
        seen = version_of(decisions.approve(caller=caller, insight_id=insight_id, notes=note, seen=seen))
    changeset = suggested.apply(caller=caller, insight_id=insight_id, seen=seen)
    return "Applied", {"changeset": str(changeset.pk)}


DECISIONS: dict[str, Callable[[Caller, UUID, str, str, Mapping[str, str]], Outcome]] = {
    "approve": _approve,
    "reject": _reject,
    "needs-more": _need_more,
    "hand-over": _hand_over,
    "apply": _apply,
}


@require_POST
@login_required
def set_replaced_memory(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    caller = curator(request)
    try:
        set_replaced(caller=caller, insight_id=insight_id, record_id=request.POST.get("record") or None)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    return redirect(_address(insight_id, _queue(caller, request)))


@require_POST
@login_required
def undo(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Undo the decision on the insight, and on near-duplicates decided with it, and show the insight again."""
    caller = curator(request)
    last = request.session.get(LAST) or {}
    duplicates = last.get("also", []) if last.get("id") == str(insight_id) else []
    try:
        for pk in [insight_id, *map(UUID, duplicates)]:
            decisions.undo_review(caller=caller, insight_id=pk, seen=_seen(request, pk))
    except ChangedMeanwhile as error:
        return _show_conflict(request, caller, insight_id, "undo", error)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        request.session.pop(LAST, None)
        messages.success(request, "Undone. The insight is waiting for review again.")
    return redirect(_address(insight_id, _queue(caller, request)))


@login_required
def edit(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Edit the insight before deciding on it. “Save and approve” also approves it."""
    caller = curator(request)
    insight = queries.insight(caller, insight_id)
    form = InsightForm(request.POST or None, insight=insight)
    review_queue = _queue(caller, request)
    seen, conflict = _seen(request, insight_id) or version_of(insight), ""
    if request.method == "POST" and form.is_valid():
        try:
            edited = edit_insight(Edit.read({"insight_id": insight_id, "seen": seen, **form.values()}), caller=caller)
            if "approve" in request.POST:
                decided = request.POST.copy()
                decided[f"seen-{insight_id.hex}"] = version_of(edited)
                request.POST = decided  # type: ignore[assignment]  # a QueryDict, too
                return decide(request, insight_id, "approve")
        except Invalid as error:
            form.refuse(error)
        except Conflict as error:  # what the curator typed stays in the form
            insight = queries.insight(caller, insight_id)
            seen, conflict = version_of(insight), error.fault
        else:
            messages.success(request, "Saved.")
            return redirect(_address(insight_id, review_queue))
    context = {
        "form": form,
        "insight": insight,
        "record": insight.record,
        "back": _address(insight_id, review_queue),
        "seen": seen,
        "conflict": conflict,
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

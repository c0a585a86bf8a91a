"""The review queue: one insight at a time, decided from the keyboard; the list, for equal cases at once."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from knowledge import decisions, insights, queries, review
from knowledge.changes import changesets
from knowledge.models import InsightState
from memories.access import Caller, caller_of
from memories.contract.errors import DomainError, Invalid, NotFound
from memories.contract.fields import UNSTORABLE
from memories.contract.paging import page
from memories.models import Category
from memories.queries import capped_counts
from memory_project.portal.forms import InsightForm
from memory_project.portal.wording import for_people

AGAINST = 5  # decisions of others against one's own, shown where the queue is empty
LAST = "last_decision"  # in the session: what “Undo” takes back


@require_safe
@login_required
def queue(request: HttpRequest) -> HttpResponse:
    """Goes to the first waiting insight; with none, says what was done."""
    caller = curator(request)
    review_queue = _queue(caller, request)
    position = review_queue.locate()
    if position.next_id:
        return redirect(_address(position.next_id, review_queue))
    approved = queries.in_state(caller, InsightState.APPROVED)
    context = {
        "queue": review_queue,
        "against": list(decisions.against(caller)[:AGAINST]),
        "approved": page(approved, by="record__created_at", newest=False).rows,
        "decided": review.decided_today(caller).count(),
        "last": request.session.get(LAST),
    }
    return render(request, "review/empty.html", context)


@require_safe
@login_required
def detail(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    caller = curator(request)
    review_queue = _queue(caller, request)
    insight = queries.insight(caller, insight_id)
    counts = capped_counts(decided=review.decided_today(caller), also=review.also_waiting(caller, insight))
    context = {
        "case": review.case(caller, insight),
        "insight": insight,
        "record": insight.record,
        "decisions": list(insight.decisions.all()),
        "queue": review_queue,
        "place": review_queue.locate(insight),
        "reasons": review.REASONS,
        "is_own": insight.record.created_by == caller.email and not caller.is_admin,
        "last": request.session.get(LAST),
        **counts,
    }
    return render(request, "review/one.html", context)


@require_POST
@login_required
def decide(request: HttpRequest, insight_id: UUID, act: str) -> HttpResponse:
    """Carries out one decision and goes on to the next insight."""
    caller = curator(request)
    if act not in DECISIONS:
        raise NotFound(f"there is nothing called {act!r} to decide")
    review_queue = _queue(caller, request)
    insight = queries.insight(caller, insight_id)
    following = review_queue.locate(insight).next_id
    try:
        outcome, extra = DECISIONS[act](caller, insight_id, _note(request))
    except DomainError as error:
        messages.error(request, for_people(error))
        return redirect(_address(insight_id, review_queue))
    request.session[LAST] = {"id": str(insight_id), "says": outcome, **extra}  # no text: it may be erased meanwhile
    return redirect(_address(following, review_queue) if following else reverse("review") + review_queue.query_string)


def _note(request: HttpRequest) -> str:
    """What the author reads: the reason that was chosen, and what was typed."""
    parts = (request.POST.get("reason", ""), request.POST.get("note", ""))
    return ". ".join(part.strip().rstrip(".") for part in parts if part.strip())


def _approve(caller: Caller, insight_id: UUID, note: str) -> tuple[str, dict[str, str]]:
    decisions.approve(caller=caller, insight_id=insight_id, notes=note)
    return "Approved", {"undo": "yes"}


def _reject(caller: Caller, insight_id: UUID, note: str) -> tuple[str, dict[str, str]]:
    if not note:
        raise Invalid("is missing: the author needs to know why", field="reason")
    decisions.reject(caller=caller, insight_id=insight_id, notes=note)
    return "Rejected", {"undo": "yes"}


def _apply(caller: Caller, insight_id: UUID, note: str) -> tuple[str, dict[str, str]]:
    """Approves where that is still to be done, and writes the suggested actions to the catalog."""
    if queries.insight(caller, insight_id).state == InsightState.PENDING:
        decisions.approve(caller=caller, insight_id=insight_id, notes=note)
    insight = queries.insight(caller, insight_id)
    answer = changesets.apply(
        caller=caller,
        insight_ids=[insight.pk.hex],
        changes=queries.proposals([insight]),
        entity_urn=next(iter(insight.record.entity_urns), ""),
    )
    outcome = "Applied" if answer.changeset.state == "applied" else f"Applied in part ({answer.changeset.error})"
    return outcome, {"changeset": str(answer.changeset.pk)}


DECISIONS: dict[str, Callable[[Caller, UUID, str], tuple[str, dict[str, str]]]] = {
    "approve": _approve,
    "reject": _reject,
    "apply": _apply,
}


@require_POST
@login_required
def undo(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Takes a decision back and shows the insight again."""
    caller = curator(request)
    try:
        decisions.undo_review(caller=caller, insight_id=insight_id)
    except DomainError as error:
        messages.error(request, for_people(error))
    else:
        request.session.pop(LAST, None)
        messages.success(request, "Undone: it is waiting for review again.")
    return redirect(_address(insight_id, _queue(caller, request)))


@login_required
def edit(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Mends text and actions before deciding; “Save and approve” does both."""
    caller = curator(request)
    insight = queries.insight(caller, insight_id)
    form = InsightForm(request.POST or None, insight=insight)
    review_queue = _queue(caller, request)
    if request.method == "POST" and form.is_valid():
        try:
            insights.edit(caller=caller, insight_id=insight_id, **form.values())
            if "approve" in request.POST:
                return decide(request, insight_id, "approve")
        except Invalid as error:
            form.refuse(error)
        else:
            messages.success(request, "Saved.")
            return redirect(_address(insight_id, review_queue))
    context = {"form": form, "insight": insight, "record": insight.record, "back": _address(insight_id, review_queue)}
    return render(request, "review/edit.html", context)


@require_safe
@login_required
def listing(request: HttpRequest) -> HttpResponse:
    """All insights in one state, to be chosen together; filters are in the address."""
    caller = curator(request)
    review_queue = _queue(caller, request)
    state = request.GET.get("state", InsightState.PENDING)
    state = state if state in InsightState.values else InsightState.PENDING.value
    rows = review_queue.rows if state == InsightState.PENDING else queries.in_state(caller, state)
    if state != InsightState.PENDING:
        rows = review_queue.narrowed(rows)
    current_page = page(
        rows, request.GET.get("after", ""), by="record__created_at", newest=state != InsightState.PENDING, size=50
    )
    query = {"state": state, "entity": review_queue.entity, "category": review_queue.category}
    context = {
        "page": current_page,
        "state": state,
        "states": [s for s in InsightState if s != InsightState.SUPERSEDED],
        "categories": Category,
        "queue": review_queue,
        "reasons": review.REASONS,
        "next_page": "?" + urlencode({**{k: v for k, v in query.items() if v}, "after": current_page.after}),
    }
    return render(request, "review/list.html", context)


def curator(request: HttpRequest) -> Caller:
    """The caller, if a curator; others are told whom to ask."""
    caller = caller_of(request, door="portal")
    insights.require_curator(caller)
    return caller


def _queue(caller: Caller, request: HttpRequest) -> review.Queue:
    def read(name: str) -> str:
        return UNSTORABLE.sub("", request.GET.get(name, ""))[:500]

    category = read("category")
    return review.Queue(caller, read("entity"), category if category in Category.values else "")


def _address(insight_id: UUID, review_queue: review.Queue) -> str:
    return reverse("review-one", args=[insight_id]) + review_queue.query_string

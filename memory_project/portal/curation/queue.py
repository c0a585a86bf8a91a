"""The queue as a list: narrowed, sorted, near-duplicates together, each beside what is known already; decided, applied
or handed over many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from knowledge.changesets import suggested
from knowledge.insights.similar_claims import ClosestMemory, closest_memories
from knowledge.models import Insight
from knowledge.review import queue as queues
from knowledge.review.cases import QUESTIONS, REASONS
from knowledge.review.queue import Queue
from memories.contract.errors import DomainError
from memories.identity.caller import Caller
from memories.models import Category, Confidence
from memories.queries import capped_counts
from memories.writing import bulk_actions
from memory_project.portal.curation.review import curator
from memory_project.portal.error_labels import for_people
from memory_project.portal.search.autocomplete import colleagues
from memory_project.portal.views.redirects import local_page

SIZE = 30  # groups on a page
ACTS = ("approve", "reject", "undo_review", "needs_more", "hand_over", "apply")
NEEDS_WORDS = {"reject": "Say why: the authors learn from it.", "needs_more": "Say what you need to know."}


@dataclass(frozen=True)
class Row:
    """One insight of the list; the others of its group of near-duplicates follow it."""

    insight: Insight
    claim: ClosestMemory | None
    group: str  # the id of its group's first
    alike: int  # how many follow


@require_safe
@login_required
def queue_list(request: HttpRequest) -> HttpResponse:
    """Insights in one state under filters, all of which are in the address."""
    caller = curator(request)
    queue = Queue.of(caller, request.GET)
    groups = queue.groups()
    number = _page_number(request, len(groups))
    shown_groups = groups[(number - 1) * SIZE : number * SIZE]
    query = queue.query_string or "?"
    context = {
        "queue": queue,
        "rows": _rows(caller, shown_groups),
        "total": sum(map(len, groups)),
        "states": _states(caller, queue),
        "categories": Category,
        "confidences": Confidence,
        "ages": queues.AGES,
        "sorts": {name: title for name, (title, _) in queues.SORTS.items()},
        "reasons": REASONS,
        "questions": QUESTIONS,
        "colleagues": colleagues(caller),
        "previous_page": f"{query}&{urlencode({'page': number - 1})}" if number > 1 else "",
        "next_page": f"{query}&{urlencode({'page': number + 1})}" if number * SIZE < len(groups) else "",
        "most": bulk_actions.MAX_UNITS,
    }
    return render(request, "review/list.html", context)


def _page_number(request: HttpRequest, group_count: int) -> int:
    text = request.GET.get("page", "")
    number = int(text) if text.isdecimal() and len(text) < 6 else 1
    return max(1, min(number, -(-group_count // SIZE)))


def _states(caller: Caller, queue: Queue) -> list[tuple[str, str, int, str]]:
    """Each state with its title, its count under the same filters, and its address."""
    numbers = capped_counts(**{state: queue.in_state(state).rows for state in queues.STATES})
    return [
        (state, title, numbers[state], queue.in_state(state).query_string or "?")
        for state, (title, _) in queues.STATES.items()
    ]


def _rows(caller: Caller, groups: Sequence[Sequence[UUID]]) -> list[Row]:
    insights = Insight.objects.visible_to(caller).select_related("record")
    by_id = insights.defer("record__search").in_bulk([pk for group in groups for pk in group])
    claims = closest_memories(caller, list(by_id.values()))
    return [
        Row(by_id[pk], claims.get(pk), group[0].hex, len(group) - 1 if pk == group[0] else 0)
        for group in groups
        for pk in group
        if pk in by_id
    ]


@require_POST
@login_required
def bulk_decide(request: HttpRequest) -> HttpResponse:
    """One act on what is chosen, or on all that the filters match; applying shows first what it would change."""
    caller = curator(request)
    name = request.POST.get("act", "")
    back = local_page(request.POST.get("back_to", "")) or reverse("review-list")
    ids = _chosen_ids(caller, request)
    note = ". ".join(filter(None, (request.POST.get(field, "").strip().rstrip(".") for field in ("reason", "note"))))
    fault = "Choose at least one first." if not ids else NEEDS_WORDS.get(name, "") if not note else ""
    if name not in ACTS or fault:
        messages.error(request, fault or "There is nothing of this name to do.")
        return HttpResponseRedirect(back)
    if name == "apply" and "confirm" not in request.POST:
        return _apply_preview(request, caller, ids, back)
    try:
        batch = bulk_actions.start(
            caller=caller, act=name, unit_ids=ids, note=note, choice=request.POST.get("to", ""), back_to=back
        )
    except DomainError as error:
        messages.error(request, for_people(error))
        return HttpResponseRedirect(back)
    return redirect("batch", batch_id=batch.pk)


def _chosen_ids(caller: Caller, request: HttpRequest) -> list[str]:
    if request.POST.get("all") != "1":
        return request.POST.getlist("ids")
    queue = Queue.of(caller, {name: request.POST.get(f"f-{name}", "") for name in queues.FILTERS})
    return [pk.hex for pk in queue.ids(bulk_actions.MAX_UNITS)]


def _apply_preview(request: HttpRequest, caller: Caller, ids: Sequence[str], back: str) -> HttpResponse:
    approved = queues.STATES["approved"][1](caller).filter(pk__in=[UUID(pk) for pk in ids])
    insights = list(approved.order_by("record__created_at", "pk")[: suggested.MAX_PREVIEWED + 1])
    shown_insights = insights[: suggested.MAX_PREVIEWED]
    context = {
        "preview": suggested.preview(shown_insights),
        "is_cut": len(insights) > len(shown_insights),
        "most": suggested.MAX_PREVIEWED,
        "left_out": len(ids) - len(insights),
        "back": back,
    }
    return render(request, "review/apply.html", context)

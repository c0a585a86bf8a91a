"""The review queue as a list: filter, sort, and decide, apply or hand over many insights at once.

Near-duplicates are grouped, and each insight is shown with the closest existing memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe
from django_stubs_ext import StrOrPromise

from foundation.downloads.list_export import list_export
from foundation.operations.errors import DomainError
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.insights import queries
from knowledge.insights.seen import versions_of
from knowledge.insights.similar_claims import ClosestMemory, closest_memories
from knowledge.models import Insight, InsightState
from knowledge.portable_kinds import INSIGHT_COLUMNS
from knowledge.review import queue as queues
from knowledge.review import suggested
from knowledge.review.bulk_actions import INSIGHT_ACTIONS
from knowledge.review.queue import Queue
from knowledge.review.review_page import QUESTIONS, REASONS
from memories.models import Batch, Category, Confidence
from memories.queries import capped_counts
from memories.writing import bulk_actions
from memory_project.portal.curation.review import curator, snooze_dates, snooze_end
from memory_project.portal.memory_list import format_count, up_to
from memory_project.portal.redirects import local_page
from memory_project.portal.search.autocomplete import colleagues
from memory_project.web.error_labels import message_with_label

GROUPS_PER_PAGE = 30
MAX_OTHER = 999  # maximum number of insights that are counted in a state that isn't shown
REPEATED_S = 30  # seconds within which the same bulk action on the same insights is a form that was sent twice


@dataclass(frozen=True)
class QueueRow:
    """One insight of the list. The first insight of a group is followed by its near-duplicates."""

    insight: Insight
    claim: ClosestMemory | None
    group: str  # id of the first insight of the group
    seen: str  # token of the insight's state, which a decision carries back
    alike: int  # number of near-duplicates that follow the first insight of the group; 0 for every other insight
    is_overdue: bool


@require_safe
@login_required
def queue_list(request: HttpRequest) -> HttpResponseBase:
    caller = curator(request)
    queue = Queue.of(caller, request.GET)
    if download := list_export(request, caller, queue.rows, INSIGHT_COLUMNS, name="insights"):
        return download
    groups = queue.groups()
    number = _page_number(request, len(groups))
    shown_groups = groups[(number - 1) * GROUPS_PER_PAGE : number * GROUPS_PER_PAGE]
    query = queue.query_string or "?"
    context = {
        "queue": queue,
        "rows": _rows(caller, shown_groups),
        "total": sum(map(len, groups)),
        "states": _states(queue, sum(map(len, groups))),
        "categories": Category,
        "confidences": Confidence,
        "ages": queues.AGES,
        "assignees": {"me": gettext("Me"), "nobody": gettext("Unassigned")},
        "sorts": {name: title for name, (title, _) in queues.SORTS.items()},
        "reasons": REASONS,
        "questions": QUESTIONS,
        "colleagues": colleagues(caller) if queue.state == "pending" else [],
        "dates": snooze_dates(),
        "previous_page": f"{query}&{urlencode({'page': number - 1})}" if number > 1 else "",
        "next_page": f"{query}&{urlencode({'page': number + 1})}" if number * GROUPS_PER_PAGE < len(groups) else "",
        "most": bulk_actions.MAX_UNITS,
    }
    return render(request, "review/list.html", context)


def _page_number(request: HttpRequest, group_count: int) -> int:
    text = request.GET.get("page", "")
    number = int(text) if text.isdecimal() and len(text) < 6 else 1
    return max(1, min(number, -(-group_count // GROUPS_PER_PAGE)))


def _states(queue: Queue, total: int) -> list[tuple[str, StrOrPromise, str, str]]:
    """Return (state, title, count under the current filters, address) for each state.

    `total` is the number of insights in the state that is shown. Those in other states are counted up to MAX_OTHER.
    """
    others = {state: queue.in_state(state).rows for state in queues.STATES if state != queue.state}
    counts = capped_counts(dict.fromkeys(others, MAX_OTHER), **others)
    shown = {state: up_to(MAX_OTHER, count) for state, count in counts.items()} | {queue.state: format_count(total)}
    return [
        (state, title, shown[state], queue.in_state(state).query_string or "?")
        for state, (title, _) in queues.STATES.items()
    ]


def _rows(caller: Caller, groups: Sequence[Sequence[UUID]]) -> list[QueueRow]:
    insights: Any = queries.with_due_time(Insight.objects.visible_to(caller).select_related("record"))
    by_id = insights.defer("record__search").in_bulk([pk for group in groups for pk in group])
    claims = closest_memories(caller, list(by_id.values()))
    versions = versions_of(by_id.values())
    now = timezone.now()
    return [
        QueueRow(
            by_id[pk],
            claims.get(pk),
            group[0].hex,
            versions[pk],
            len(group) - 1 if pk == group[0] else 0,
            by_id[pk].state == InsightState.PENDING and by_id[pk].due_at < now,
        )
        for group in groups
        for pk in group
        if pk in by_id
    ]


@require_POST
@login_required
def bulk_decide(request: HttpRequest) -> HttpResponse:
    """Start a bulk action on the selected insights, or on the first MAX_UNITS insights that match the filters.

    Before insights are applied, a preview is shown.
    """
    caller = curator(request)
    name = request.POST.get("act", "")
    back = local_page(request.POST.get("back_to", "")) or reverse("review-list")
    ids = _chosen_ids(caller, request)
    note = ". ".join(filter(None, (request.POST.get(field, "").strip().rstrip(".") for field in ("reason", "note"))))
    if not ids:
        messages.error(request, gettext("Select at least one insight first."))
        return HttpResponseRedirect(back)
    if name not in INSIGHT_ACTIONS:
        messages.error(request, gettext("Unknown action."))
        return HttpResponseRedirect(back)
    if name == "apply" and "confirm" not in request.POST:
        return _apply_preview(request, caller, ids, back)
    try:
        choice = snooze_end(request.POST).isoformat() if name == "snooze" else request.POST.get("to", "")
        if sent_before := _sent_before(caller, name, ids, note, choice):
            return redirect("batch", batch_id=sent_before.pk)
        batch = bulk_actions.start(
            caller,
            act=name,
            unit_ids=ids,
            note=note,
            choice=choice,
            back_to=back,
            seen=_seen(caller, request, ids),
        )
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return HttpResponseRedirect(back)
    return redirect("batch", batch_id=batch.pk)


def _sent_before(caller: Caller, act: str, ids: Sequence[str], note: str, choice: str) -> Batch | None:
    """Return the batch of the same form, if it was sent twice, for example by a double click."""
    since = timezone.now() - timedelta(seconds=REPEATED_S)
    rows = bulk_actions.owned_by(caller).filter(act=act, note=note, choice=choice, created_at__gte=since)
    unit_ids = sorted({validate(Id, pk, "ids") for pk in ids})
    undone = Batch.objects.filter(undoes=OuterRef("pk"))
    return rows.filter(unit_ids=unit_ids, undoes=None).exclude(Exists(undone)).first()


def _chosen_ids(caller: Caller, request: HttpRequest) -> list[str]:
    if request.POST.get("all") != "1":
        return request.POST.getlist("ids")
    queue = Queue.of(caller, {name: request.POST.get(f"f-{name}", "") for name in queues.FILTERS})
    return [pk.hex for pk in queue.ids(bulk_actions.MAX_UNITS)]


def _seen(caller: Caller, request: HttpRequest, ids: Sequence[str]) -> dict[UUID, str]:
    """Return the token of each chosen insight: as the page showed it, or as it is now if the page did not show it."""
    shown = {validate(Id, pk, "ids"): request.POST.get(f"seen-{pk}", "") for pk in ids}
    shown = {pk: token for pk, token in shown.items() if token}
    if request.POST.get("all") != "1":
        return shown
    chosen = [UUID(pk) for pk in ids]
    unseen = Insight.objects.visible_to(caller).filter(pk__in=chosen).exclude(pk__in=shown).select_related("record")
    return {**versions_of(list(unseen.defer("record__search"))), **shown}


def _apply_preview(request: HttpRequest, caller: Caller, ids: Sequence[str], back: str) -> HttpResponse:
    approved = queues.STATES["approved"][1](caller).filter(pk__in=[UUID(pk) for pk in ids])
    insights = list(approved.order_by("record__created_at", "pk")[: suggested.MAX_PREVIEWED + 1])
    shown_insights = insights[: suggested.MAX_PREVIEWED]
    context = {
        "preview": suggested.preview(shown_insights),
        "seen": [(pk.hex, token) for pk, token in versions_of(shown_insights).items()],
        "is_cut": len(insights) > len(shown_insights),
        "most": suggested.MAX_PREVIEWED,
        "left_out": len(ids) - len(insights),
        "back": back,
    }
    return render(request, "review/apply.html", context)

"""Pages of bulk actions: starting one from a list, following its progress, and undoing it as a whole."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.errors import DomainError
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.graph.models import UpkeepProposal
from knowledge.insights.seen import versions_of
from knowledge.models import Insight
from memories import queries
from memories.models import Batch, MemoryRecord, SameWords
from memories.writing import bulk_actions
from memory_project.portal.redirects import local_page
from memory_project.web.error_labels import message_with_label

SHOWN = 200  # maximum number of outcomes shown, refusals first


@login_required
def batch_list(request: HttpRequest) -> HttpResponseBase:
    if request.method == "POST":
        return start_batch(request)
    caller = caller_from_request(request, channel="portal")
    batches = bulk_actions.owned_by(caller)
    columns = {name: name for name in ("id", "act", "note", "created_at", "finished_at", "unit_ids", "outcomes")}
    if download := list_export(request, caller, batches, columns, name="bulk-actions"):
        return download
    current_page = page(bulk_actions.with_counts(batches), request.GET.get("after", ""))
    rows = [
        (batch, bulk_actions.BULK_ACTIONS[batch.act].done, batch.processed - batch.refused)
        for batch in current_page.rows
    ]
    return render(request, "portal/batches.html", {"rows": rows, "after": current_page.after})


def start_batch(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    ids = request.POST.get("selection", "").split(",") if request.POST.get("selection") else request.POST.getlist("ids")
    if cause := request.POST.get("cause"):  # all memories that are stale for this reason, also those on other pages
        rows = queries.reviewable_stale(caller).filter(stale_reason=cause)
        ids = [pk.hex for pk in rows.values_list("pk", flat=True)[: bulk_actions.MAX_UNITS]]
    back = local_page(request.POST.get("back_to", ""))
    if not ids:
        messages.error(request, gettext("Select at least one item first."))
        return HttpResponseRedirect(back or reverse("my-knowledge"))
    try:
        batch = bulk_actions.start(
            caller,
            act=request.POST.get("act", ""),
            unit_ids=ids,
            note=request.POST.get("note", ""),
            choice=request.POST.get("choice", ""),
            back_to=back,
        )
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return HttpResponseRedirect(back or reverse("my-knowledge"))
    return redirect("batch", batch_id=batch.pk)


@require_safe
@login_required
def batch_detail(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    return render(request, "portal/batch.html", _context(caller, bulk_actions.get_batch(caller, batch_id=batch_id)))


@require_POST
@login_required
def resume_batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    """Process the next slice of the bulk action. The page repeats this request until all rows are processed."""
    caller = caller_from_request(request, channel="portal")
    batch = bulk_actions.resume(caller, batch_id=batch_id)
    if not request.htmx:  # type: ignore[attr-defined]
        return redirect("batch", batch_id=batch.pk)
    return render(request, "portal/_batch.html", _context(caller, batch))


@require_POST
@login_required
def repeat_batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    """Repeat the action on insights that had changed meanwhile, in the state in which the page showed them."""
    caller = caller_from_request(request, channel="portal")
    batch = bulk_actions.get_batch(caller, batch_id=batch_id)
    ids = request.POST.getlist("ids")
    if not ids:
        messages.error(request, gettext("Select at least one item first."))
        return redirect("batch", batch_id=batch.pk)
    repeated = bulk_actions.start(
        caller,
        act=batch.act,
        unit_ids=ids,
        note=batch.note,
        choice=batch.choice,
        back_to=batch.back_to,
        seen={unit: request.POST.get(f"seen-{unit.hex}", "") for unit in batch.unit_ids},
    )
    return redirect("batch", batch_id=repeated.pk)


@require_POST
@login_required
def cancel_batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    bulk_actions.cancel(caller_from_request(request, channel="portal"), batch_id=batch_id)
    return redirect("batch", batch_id=batch_id)


@require_POST
@login_required
def undo_batch(request: HttpRequest, batch_id: UUID) -> HttpResponse:
    batch = bulk_actions.undo(caller_from_request(request, channel="portal"), batch_id=batch_id)
    return redirect("batch", batch_id=batch.pk)


def _texts(caller: Caller, kind: str, units: list[UUID]) -> dict[UUID, str]:
    if kind == "insight":
        # Curators may read the insights of their personas even if they can't read the insights' memories otherwise.
        return dict(Insight.objects.visible_to(caller).filter(pk__in=units).values_list("pk", "record__content"))
    if kind == "upkeep":
        rows = UpkeepProposal.objects.filter(pk__in=units).select_related("entity", "ends", "stays")
        return {row.pk: str(row) for row in rows} if caller.is_admin else {}
    if kind == "text":
        entries = SameWords.objects.filter(pk__in=units).select_related("tombstone")
        return {entry.pk: f"{entry.place}, {entry.decision}" for entry in entries} if caller.is_admin else {}
    return dict(MemoryRecord.objects.visible_to(caller).filter(pk__in=units).values_list("pk", "content"))


def _changed(caller: Caller, batch: Batch, units: list[UUID]) -> list[tuple[Insight, str]]:
    """Return the refused insights that changed after the caller had selected them, with the tokens of their states."""
    known = [unit for unit in units if unit.hex in batch.seen]
    insights = list(Insight.objects.visible_to(caller).filter(pk__in=known).select_related("record"))
    versions = versions_of(insights)
    return [(row, versions[row.pk]) for row in insights if versions[row.pk] != batch.seen[row.pk.hex]]


def _context(caller: Caller, batch: Batch) -> dict[str, object]:
    bulk_action = bulk_actions.BULK_ACTIONS[batch.act]
    outcomes = list(zip(batch.unit_ids, batch.outcomes, strict=False))
    untouched = (bulk_actions.UNCHANGED, bulk_actions.CANCELED)
    outcomes.sort(key=lambda row: (not row[1], row[1] in untouched))  # refusals first
    shown_outcomes = outcomes[:SHOWN]
    texts = _texts(caller, bulk_action.kind, [unit for unit, _ in shown_outcomes])
    refused_units = [unit for unit, outcome in shown_outcomes if outcome]
    unchanged = batch.outcomes.count(bulk_actions.UNCHANGED)
    canceled = batch.outcomes.count(bulk_actions.CANCELED)
    done = batch.outcomes.count("")
    return {
        "batch": batch,
        "label": bulk_action.done,
        "kind": bulk_action.kind,
        "rows": [
            (unit, texts.get(unit, gettext("you may no longer read it")), outcome) for unit, outcome in shown_outcomes
        ],
        "unchanged_outcome": bulk_actions.UNCHANGED,
        "changed": _changed(caller, batch, refused_units) if batch.finished_at and batch.seen else [],
        "handled": len(batch.outcomes),
        "total": len(batch.unit_ids),
        "refused": len(batch.outcomes) - done - unchanged - canceled,
        "unchanged": unchanged,
        "canceled": canceled,
        "canceled_outcome": bulk_actions.CANCELED,
        "success_count": done,
        "hidden_count": len(outcomes) - len(shown_outcomes),
        "may_undo": bool(bulk_action.inverse) and batch.finished_at and not hasattr(batch, "undone_by"),
    }

"""Pages of imports: uploading a file, the report by row, progress, and undo."""

from __future__ import annotations

from typing import Any, BinaryIO, cast
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError, Invalid
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories import queries
from memory_project.exchange.imports import jobs, report, staging, taking_over
from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.models import Import, ImportRow, ImportState, RowOutcome
from memory_project.portal.labels import READERS
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label


@login_required
def import_memories(request: HttpRequest) -> HttpResponse:
    """List the person's imports, with a form to start one."""
    caller = caller_from_request(request, channel="portal")
    context: dict[str, Any] = {"formats": FORMATS.values(), "most_mb": settings.IMPORT_MAX_BYTES // 1_000_000}
    if request.method == "POST":
        try:
            return redirect("import", import_id=_start(caller, request).pk)
        except DomainError as error:
            context["error"] = message_with_label(error)
    found = page(Import.objects.filter(created_by=caller.email), request.GET.get("after", ""))
    context |= {"imports": found.rows, "after": found.after}
    return render(request, "portal/imports.html", context, status=400 if "error" in context else 200)


def _start(caller: Caller, request: HttpRequest) -> Import:
    file = request.FILES.get("file")
    if file is None or file.name is None:
        raise Invalid(gettext("is missing: choose a file"), field="file")
    staged = staging.start(
        caller, file=cast(BinaryIO, file.file), name=file.name, format=request.POST.get("format", "")
    )
    jobs.queue(staged)
    return staged


@require_safe
@login_required
def import_detail(request: HttpRequest, import_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    staged = staging.get(caller, import_id)
    if "part" in request.GET:  # htmx asks for the progress
        response = render(request, "portal/_import_progress.html", _progress(staged))
        if not staged.is_working:
            response["HX-Refresh"] = "true"  # the page has other buttons now
        return response
    outcome = request.GET.get("outcome", "")
    text = request.GET.get("q", "").replace("\0", "")
    after = request.GET.get("after", "0")
    rows, next_number = report.page(
        report.rows_of(staged, outcome if outcome in RowOutcome.values else "", text),
        int(after) if after.isascii() and after.isdigit() and len(after) < 10 else 0,
    )
    _add_texts(caller, rows)
    context = _progress(staged) | {
        "rows": rows,
        "next": next_number,
        "outcome": outcome,
        "q": text,
        "visibilities": READERS,
        "is_choosable": staged.state == ImportState.PARSED,
        "without_entities": report.without_entities(staged) if staged.state == ImportState.PARSED else 0,
    }
    return render(request, "portal/import.html", context)


def _add_texts(caller: Caller, rows: list[ImportRow]) -> None:
    """Set `stored` of the rows that became memories to the memory's text, because the rows have none any more."""
    kept = {row.number: UUID(row.reference) for row in rows if row.reference and not row.text}
    records = queries.by_id(caller, kept.values())
    for row in rows:
        if record := records.get(kept.get(row.number, UUID(int=0))):
            row.stored = record.content  # type: ignore[attr-defined]  # for the template


def _progress(staged: Import) -> dict[str, Any]:
    counts = report.counts(staged)
    by_outcome = {count.outcome: count for count in counts}
    waiting = sum(by_outcome[name].chosen for name in report.CHOOSABLE if name in by_outcome)
    kept = by_outcome[RowOutcome.KEPT].rows if RowOutcome.KEPT in by_outcome else 0
    undone = by_outcome[RowOutcome.UNDONE].rows if RowOutcome.UNDONE in by_outcome else 0
    total = {ImportState.TAKING_OVER: kept + waiting, ImportState.UNDOING: kept + undone}.get(
        ImportState(staged.state), 0
    )
    done = undone if staged.state == ImportState.UNDOING else kept
    return {"staged": staged, "counts": counts, "waiting": waiting, "kept": kept, "done": done, "total": total}


@require_POST
@login_required
def choose_import_rows(request: HttpRequest, import_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    numbers = [int(text) for text in request.POST.getlist("numbers") if text.isascii() and text.isdigit()]
    if not numbers and "all" not in request.POST:
        messages.warning(request, gettext("Select at least one row first."))
        return redirect("import", import_id=import_id)
    chosen = request.POST.get("chosen") == "1"
    count = report.choose_rows(
        caller,
        import_id=import_id,
        chosen=chosen,
        outcome=request.POST.get("outcome", ""),
        text=request.POST.get("q", ""),
        numbers=numbers if "all" not in request.POST else (),
    )
    text = (
        ngettext("%(count)s row will be imported.", "%(count)s rows will be imported.", count)
        if chosen
        else ngettext("%(count)s row will be skipped.", "%(count)s rows will be skipped.", count)
    )
    messages.success(request, text % {"count": locale.number(count)})
    return redirect("import", import_id=import_id)


@require_POST
@login_required
def take_import(request: HttpRequest, import_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    staged = taking_over.start(
        caller,
        import_id=import_id,
        visibility=request.POST.get("visibility", ""),
        applies_to_all="applies_to_all" in request.POST,
    )
    jobs.queue(staged)
    return redirect("import", import_id=staged.pk)


@require_POST
@login_required
def cancel_import(request: HttpRequest, import_id: UUID) -> HttpResponse:
    taking_over.cancel(caller_from_request(request, channel="portal"), import_id=import_id)
    return redirect("import", import_id=import_id)


@require_POST
@login_required
def undo_import(request: HttpRequest, import_id: UUID) -> HttpResponse:
    staged = taking_over.start_undo(caller_from_request(request, channel="portal"), import_id=import_id)
    jobs.queue(staged)
    return redirect("import", import_id=staged.pk)


@require_safe
@login_required
def import_report(request: HttpRequest, import_id: UUID) -> StreamingHttpResponse:
    staged = staging.get(caller_from_request(request, channel="portal"), import_id)
    response = StreamingHttpResponse(report.as_csv(staged), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="import-report.csv"'
    return response

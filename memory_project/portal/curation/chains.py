"""Correction chains: how a memory was corrected, and its text at any earlier time."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.paging import page
from foundation.people.permissions import caller_from_request
from memories import queries
from memories.history import chain, history, states_at
from memories.portable_kinds import MEMORY_COLUMNS


@require_safe
@login_required
def chain_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    rows = queries.corrections(caller)
    columns = MEMORY_COLUMNS | {"supersedes": "supersedes_id"}
    if download := list_export(request, caller, rows, columns, name="corrections"):
        return download
    current_page = page(rows, request.GET.get("after", ""))
    before = queries.by_id(caller, [record.supersedes_id for record in current_page.rows])
    context = {
        "rows": [(record, before.get(record.supersedes_id)) for record in current_page.rows],
        "after": current_page.after,
    }
    return render(request, "chains/list.html", context)


@require_safe
@login_required
def chain_detail(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Show the chain as it was after one of its changes.

    The query parameter `at` is an index into the times of the changes, oldest first. The default is the last index.
    """
    caller = caller_from_request(request, channel="portal")
    record = queries.get(caller, record_id)
    versions = chain(caller, record)
    changes = history(caller, record, versions)
    moments = sorted({change.at for change in changes})
    wanted = request.GET.get("at", "")
    last = len(moments) - 1
    at = min(int(wanted), last) if wanted.isdecimal() and len(wanted) < 6 else last
    states = states_at(caller, versions, moments[at])
    links = [(version, states.get(version.pk)) for version in versions]
    context = {
        "record": record,
        "links": links,
        "believed": next((state for _, state in reversed(links) if state and state.status == "active"), None),
        "at": at,
        "last": last,
        "moment": moments[at],
        "happened": [change for change in changes if change.at == moments[at]],
        "may_change": caller.can_edit_for(record.created_by),
    }
    is_fragment = request.htmx and not request.htmx.history_restore_request  # type: ignore[attr-defined]
    return render(request, "chains/_at.html" if is_fragment else "chains/one.html", context)

"""Stale review: memories whose catalog entities have changed, and memories that were marked wrong."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.fields import UNSTORABLE
from foundation.operations.paging import page
from foundation.people.permissions import caller_from_request
from knowledge.freshness import stale_review
from memories.portable_kinds import MEMORY_COLUMNS

MAX_TO_VERIFY = 20  # maximum number of active memories to verify that are listed; only the first page lists them


@require_safe
@login_required
def stale_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    cause = UNSTORABLE.sub("", request.GET.get("cause", ""))[:1000]
    everyone = request.GET.get("whose") == "all" and not caller.is_admin
    rows = stale_review.rows(caller, everyone=everyone, cause=cause)
    if download := list_export(request, caller, rows, MEMORY_COLUMNS, name="stale"):
        return download
    current_page = page(
        rows,
        request.GET.get("after", ""),
        by="stale_at",
        newest=False,
        size=10,
    )
    cases, note = stale_review.cases(caller, current_page.rows)
    query = {"cause": cause, "whose": "all" if everyone else "", "after": current_page.after}
    context = {
        "cases": cases,
        "note": note,
        "looks": stale_review.verification_requests(caller, MAX_TO_VERIFY)
        if not (cause or everyone or "after" in request.GET)
        else [],
        "cause": cause,
        "causes": [] if everyone else stale_review.causes(caller),
        "everyone": everyone,
        "after": current_page.after,
        "next_page": "?" + urlencode({name: value for name, value in query.items() if value}),
    }
    return render(request, "stale/list.html", context)

"""Audited calls: a user's own calls (Activity) and, for admins, the calls of all users (Audit)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from memories.contract.csv import escape_formula
from memories.contract.paging import page
from memories.identity.permissions import caller_from_request
from memory_project.audit import statistics
from memory_project.audit.filters import SPANS, CallFilter
from memory_project.models import AuditEvent
from memory_project.portal.templatetags.charts import Point

MAX_EXPORT = 100_000
EXPORTED = (
    "at",
    "email",
    "persona",
    "channel",
    "tool",
    "outcome",
    "code",
    "duration_ms",
    "request_chars",
    "response_chars",
)


@require_safe
@login_required
def activity(request: HttpRequest) -> HttpResponse:
    call_filter = CallFilter.of(request.GET, person=caller_from_request(request, channel="portal").email)
    return render(request, "operate/activity.html", _context(request, call_filter))


@require_safe
def audit(request: HttpRequest, **admin: Any) -> HttpResponse:
    _admins_only(request)
    call_filter = CallFilter.of(request.GET)
    context = _context(request, call_filter)
    context["channels"] = ["mcp-http", "mcp-stdio", "portal", "admin", "mail"]
    return render(request, "operate/audit.html", {**admin, **context})


@require_safe
def export(request: HttpRequest) -> StreamingHttpResponse:
    _admins_only(request)
    rows = CallFilter.of(request.GET).rows().order_by("-at", "pk").values_list(*EXPORTED)[:MAX_EXPORT]
    response = StreamingHttpResponse(_lines(rows), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return response


class _Echo:
    """A file for csv.writer that returns each line instead of storing it."""

    def write(self, line: str) -> str:
        return line


def _lines(rows: Any) -> Iterator[str]:
    writer = csv.writer(_Echo())
    yield writer.writerow(EXPORTED)
    for row in rows.iterator(chunk_size=2000):
        yield writer.writerow([escape_formula(value) for value in row])


def _admins_only(request: HttpRequest) -> None:
    if not caller_from_request(request, channel="admin").is_admin:
        raise PermissionDenied


def _context(request: HttpRequest, call_filter: CallFilter) -> dict[str, Any]:
    current_page = page(call_filter.rows(), request.GET.get("after", ""), by="at", size=40)
    hourly = call_filter.span in ("hour", "day")
    points = [
        Point(f"{at:%H:%M}" if hourly else f"{at:%-d %b}", count, failed)
        for at, count, failed in statistics.timeline(call_filter)
    ]
    return {
        "call_filter": call_filter,
        "page": current_page,
        "tools": statistics.by_tool(call_filter.rows()),
        "overall": statistics.overall(call_filter.rows()),
        "points": points,
        "spans": list(SPANS),
        "outcomes": AuditEvent.Outcome,
        "query": urlencode(call_filter.params()),
        "next_page": "?" + urlencode({**call_filter.params(), "after": current_page.after}),
    }

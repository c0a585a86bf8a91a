"""Audited calls: a user's own calls (Activity) and, for admins, the calls of all users (Audit)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.paging import page
from foundation.people.permissions import caller_from_request
from memory_project.audit import statistics
from memory_project.audit.filters import SPANS, CallFilter
from memory_project.models import AuditEvent
from memory_project.portal.templatetags.charts import ChartPoint

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
    "trace_id",
)
SPAN_TITLES = {
    "hour": gettext_lazy("last hour"),
    "day": gettext_lazy("last day"),
    "week": gettext_lazy("last week"),
    "month": gettext_lazy("last month"),
}


@require_safe
@login_required
def activity(request: HttpRequest) -> HttpResponseBase:
    call_filter = CallFilter.of(request.GET, person=caller_from_request(request, channel="portal").email)
    if download := _download(request, call_filter, "activity"):
        return download
    return render(request, "operate/activity.html", _context(request, call_filter))


@require_safe
def audit(request: HttpRequest, **admin: Any) -> HttpResponseBase:
    _admins_only(request)
    call_filter = CallFilter.of(request.GET)
    if download := _download(request, call_filter, "audit"):
        return download
    context = _context(request, call_filter)
    context["channels"] = ["mcp-http", "mcp-stdio", "portal", "admin", "mail"]
    return render(request, "operate/audit.html", {**admin, **context})


def _download(request: HttpRequest, call_filter: CallFilter, name: str) -> HttpResponseBase | None:
    caller = caller_from_request(request, channel="portal")
    columns = {column: column for column in EXPORTED}
    return list_export(request, caller, call_filter.rows().order_by("-at", "pk"), columns, name=name)


def _admins_only(request: HttpRequest) -> None:
    if not caller_from_request(request, channel="admin").is_admin:
        raise PermissionDenied


def _context(request: HttpRequest, call_filter: CallFilter) -> dict[str, Any]:
    current_page = page(call_filter.rows(), request.GET.get("after", ""), by="at", size=40)
    hourly = call_filter.span in ("hour", "day")
    points = [
        ChartPoint(f"{at:%H:%M}" if hourly else f"{at:%-d %b}", count, failed)
        for at, count, failed in statistics.timeline(call_filter)
    ]
    return {
        "call_filter": call_filter,
        "page": current_page,
        "tools": statistics.by_tool(call_filter.rows()),
        "overall": statistics.overall(call_filter.rows()),
        "points": points,
        "spans": [(span, SPAN_TITLES[span]) for span in SPANS],
        "outcomes": AuditEvent.Outcome,
        "query": urlencode(call_filter.params()),
        "next_page": "?" + urlencode({**call_filter.params(), "after": current_page.after}),
    }

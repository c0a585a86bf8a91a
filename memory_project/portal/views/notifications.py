"""Notifications: list, open, and mark as read."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from memories.contract.list_export import list_export
from memories.contract.paging import page
from memories.identity.permissions import caller_from_request
from memory_project.notifications import inbox


@require_safe
@login_required
def notification_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    rows = inbox.notifications_for(caller)
    columns = {"kind": "kind", "memory": "record_id", "by": "by", "at": "at", "read_at": "read_at"}
    if download := list_export(request, caller, rows, columns, name="notifications"):
        return download
    current_page = page(rows, request.GET.get("after", ""), by="at")
    context = {"entries": inbox.entries_for(caller, current_page.rows), "after": current_page.after}
    return render(request, "portal/news.html", context)


@require_POST
@login_required
def open_notification(request: HttpRequest, notice_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    inbox.mark_read(caller=caller, notice_id=notice_id)
    row = inbox.notifications_for(caller).filter(pk=notice_id).first()
    entries = inbox.entries_for(caller, [row] if row else [])
    link = entries[0].link if entries else ""
    return HttpResponseRedirect(link) if link else redirect("news")


@require_POST
@login_required
def mark_all_read(request: HttpRequest) -> HttpResponse:
    count = inbox.mark_read(caller=caller_from_request(request, channel="portal"))
    messages.success(request, f"{count} notifications marked as read." if count else "No notification was unread.")
    return redirect("news")

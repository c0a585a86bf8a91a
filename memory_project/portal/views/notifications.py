"""Notifications: list, open, and mark as read."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.paging import page
from foundation.people.permissions import caller_from_request
from memory_project.notifications import inbox, kinds, lists
from memory_project.web import locale


@require_safe
@login_required
def notification_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    columns = {"kind": "kind", "memory": "record_id", "by": "by", "at": "at", "read_at": "read_at"}
    rows = inbox.notifications_for(caller)
    if download := list_export(request, caller, rows, columns, name="notifications"):
        return download
    context = {"page": lists.group_page(caller, request.GET.get("after", ""))}
    return render(request, "portal/news.html", context)


@require_safe
@login_required
def notification_group(request: HttpRequest, notice_id: int) -> HttpResponse:
    """List the notifications of a group, which its newest one identifies."""
    caller = caller_from_request(request, channel="portal")
    members = lists.group_of(caller, notice_id)
    if members is None:
        messages.info(request, gettext("This notification is no longer there: what it told has been undone."))
        return redirect("news")
    rows = inbox.notifications_for(caller).filter(members)
    current_page = page(rows, request.GET.get("after", ""), by="at")
    first = rows.order_by("-at", "-pk")[0]
    context = {
        "title": kinds.sentence(first.kind, first.by, rows.count()),
        "day": first.at,
        "notice_id": notice_id,
        "has_unread": rows.filter(read_at=None).exists(),
        "entries": lists.entries_for(caller, current_page.rows),
        "after": current_page.after,
    }
    return render(request, "portal/news_group.html", context)


@require_POST
@login_required
def open_notification(request: HttpRequest, notice_id: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    inbox.mark_read(caller, notice_id=notice_id)
    row = inbox.notifications_for(caller).filter(pk=notice_id).first()
    entries = lists.entries_for(caller, [row] if row else [])
    link = entries[0].link if entries else ""
    return HttpResponseRedirect(link) if link else redirect("news")


@require_POST
@login_required
def mark_all_read(request: HttpRequest) -> HttpResponse:
    """Mark all notifications as read, or those of the group whose newest one is `group`."""
    caller = caller_from_request(request, channel="portal")
    group = request.POST.get("group", "")
    if group:
        is_key = group.isascii() and group.isdecimal() and len(group) < 19
        members = lists.group_of(caller, int(group)) if is_key else None
        count = inbox.mark_read(caller, among=members) if members is not None else 0
    else:
        count = inbox.mark_read(caller)
    marked = ngettext("%(total)s notification marked as read.", "%(total)s notifications marked as read.", count)
    text = marked % {"total": locale.number(count)} if count else gettext("No notification was unread.")
    messages.success(request, text)
    return redirect("news")

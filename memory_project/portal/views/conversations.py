"""The user's conversations: turns, proposed merges, decisions and cached answers."""

from __future__ import annotations

from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.errors import DomainError
from foundation.people.permissions import caller_from_request
from memories.conversation import cache, deletion, queries, statistics, wipe
from memories.conversation.operations import DeleteMemories, InvalidateCache
from memories.portable_kinds import MEMORY_COLUMNS
from memory_project.web.error_labels import message_with_label

CONVERSATION_COLUMNS = {
    name: name for name in ("conversation_id", "thread_position", "tier", "role", "author", "expires_at")
}


@require_safe
@login_required
def conversation_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    columns = CONVERSATION_COLUMNS | MEMORY_COLUMNS
    if download := list_export(request, caller, queries.turns(caller), columns, name="conversations"):
        return download
    start = request.GET.get("from", "")
    offset = int(start) if start.isdecimal() and len(start) < 7 else 0
    threads, has_more = queries.threads(caller, offset)
    context = {"threads": threads, "older": offset + queries.THREADS_SHOWN if has_more else 0}
    return render(request, "conversations/list.html", context)


@require_safe
@login_required
def conversation_detail(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    conversation_id = request.GET.get("id", "")[:200]
    lines = queries.lines(caller, conversation_id)
    if not lines:
        raise Http404(gettext("you have no such conversation"))
    return render(request, "conversations/one.html", {"conversation_id": conversation_id, "lines": lines})


@require_POST
@login_required
def forget_turn(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Archive a turn or a long-term memory, together with its copies. Archived memories are purged later."""
    caller = caller_from_request(request, channel="portal")
    try:
        deletion.delete_memories(caller, DeleteMemories.read({"user_id": caller.email, "memory_id": record_id}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(
            request,
            gettext(
                "Forgotten, including all copies. You can restore a long-term memory in My Knowledge for some time."
            ),
        )
    conversation_id = request.POST.get("conversation", "")[:200]
    if queries.lines(caller, conversation_id):
        return redirect(f"{reverse('conversation')}?{urlencode({'id': conversation_id})}")
    return redirect("conversations")


@require_safe
@login_required
def decisions(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    rows = queries.decisions(caller)
    columns = {name: name for name in ("key", "value", "created_at", "updated_at", "expires_at")}
    if download := list_export(request, caller, rows, columns, name="decisions"):
        return download
    return render(request, "conversations/decisions.html", {"decisions": rows[: queries.SHOWN]})


@require_safe
@login_required
def cached(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    rows = queries.cached_answers(caller)
    columns = {name: name for name in ("query", "response", "entity_urns", "hits", "created_at", "expires_at")}
    if download := list_export(request, caller, rows, columns, name="cached-answers"):
        return download
    context = {"entries": rows[: queries.SHOWN], "rate": statistics.cache_rate(caller.email)}
    return render(request, "conversations/cache.html", context)


@require_POST
@login_required
def drop_cache(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    count = cache.invalidate_cache(caller, InvalidateCache.read({"user_id": caller.email, "invalidate_all": True}))
    text = ngettext("%(count)s cached answer was deleted.", "%(count)s cached answers were deleted.", count)
    messages.success(request, text % {"count": count})
    return redirect("cached-answers")


@login_required
def confirm_wipe(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """Confirm or withdraw a wipe of the user's data that an agent requested.

    To confirm it, the user types their e-mail address.
    """
    caller = caller_from_request(request, channel="portal")
    wipe_request = wipe.open_request(caller, request_id)
    if request.method == "POST" and "withdraw" in request.POST:
        wipe.withdraw(caller, request_id=request_id)
        messages.success(request, gettext("Request canceled. Nothing was deleted."))
        return redirect("my-knowledge")
    error = ""
    if request.method == "POST":
        if request.POST.get("email", "").strip().lower() == caller.email:
            outcome = wipe.confirm(caller, request_id=request_id)
            return render(request, "conversations/wiped.html", {"counts": sorted(outcome.counts.items())})
        error = gettext("Type %(email)s to confirm.") % {"email": caller.email}
    context = {"waiting": wipe_request, "counts": sorted(wipe_request.counts.items()), "fault": error}
    return render(request, "conversations/wipe.html", context)

"""Pages on which operators decide about tools of upstream servers that are new or have changed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.downloads.list_export import list_export
from foundation.operations.errors import Conflict, DomainError, NotFound
from foundation.operations.paging import page
from foundation.people.caller import Caller
from memory_project.admin.pages.people import operator_of
from memory_project.mcp.gateway import pins, tool_queue
from memory_project.mcp.gateway.models import PinDecision, PinnedTool
from memory_project.mcp.gateway.names import offered_name
from memory_project.web.error_labels import message_with_label, message_without_field
from memory_project.web.last_decision import LastDecision

LAST = LastDecision("last_tool_decision")
MAX_NOTE = 500
STATE_TITLES = {
    "waiting": gettext_lazy("Waiting"),
    "approved": gettext_lazy("Approved"),
    "refused": gettext_lazy("Refused"),
    "gone": gettext_lazy("Gone"),
    "all": gettext_lazy("All"),
}
COLORS = {"approved": "active", "new": "medium", "changed": "stale", "refused": "rejected", "gone": "archived"}
EXPORTED = {
    name: name
    for name in ("upstream", "tool", "state", "flags", "approved_hash", "offered_hash", "changed_at", "last_seen_at")
}


@require_safe
def tool_list(request: HttpRequest) -> HttpResponseBase:
    caller = operator_of(request)
    state = request.GET.get("state", "waiting")
    state = state if state in tool_queue.STATES else "waiting"
    names = tool_queue.upstreams(caller)
    upstream = request.GET.get("upstream", "")
    upstream = upstream if upstream in names else ""
    rows = tool_queue.rows(caller, state=state, upstream=upstream)
    if download := list_export(request, caller, rows, EXPORTED, name="upstream-tools"):
        return download
    counts = tool_queue.counts(caller, upstream=upstream)
    current_page = page(rows, request.GET.get("after", ""), by="changed_at", size=50)
    context = {
        "rows": [_row(pin) for pin in current_page.rows],
        "next_page": _address(state=state, upstream=upstream, after=current_page.after) if current_page.after else "",
        "state": state,
        "states": [
            (name, title, counts[name], _address(state=name, upstream=upstream)) for name, title in STATE_TITLES.items()
        ],
        "upstream": upstream,
        "upstreams": names,
        "unflagged": len(tool_queue.unflagged(caller, upstream)) if upstream and state == "waiting" else 0,
        "has_upstreams": bool(names or tool_queue.declared()),
        "last": LAST.offered(request),
    }
    return render(request, "operate/upstream_tools.html", context)


@require_safe
def tool_detail(request: HttpRequest, pin_id: int) -> HttpResponse:
    return _show(request, operator_of(request), pin_id)


def _show(request: HttpRequest, caller: Caller, pin_id: int, *, conflict: str = "", note: str = "") -> HttpResponse:
    pin = tool_queue.get(caller, pin_id)
    parts = tool_queue.parts(pin)
    context = {
        **_row(pin),
        "is_new": pin.approved is None,
        "changed": [part for part in parts if part.is_changed],
        "unchanged": [part for part in parts if not part.is_changed],
        "is_declared": pin.upstream in tool_queue.declared(),
        "may_accept": pin.state in ("new", "changed", "refused"),
        "may_refuse": pin.state in ("new", "changed", "approved"),
        "decisions": tool_queue.decisions(pin),
        "conflict": conflict,
        "note": note,
        "max_note": MAX_NOTE,
        "last": LAST.offered(request),
    }
    return render(request, "operate/upstream_tool.html", context, status=409 if conflict else 200)


def _row(pin: PinnedTool) -> dict[str, Any]:
    return {
        "pin": pin,
        "name": offered_name(pin.upstream, pin.tool),
        "tool": tool_queue.reveal_name(pin.tool),
        "description": tool_queue.reveal(str(pin.offered.get("description") or "")),
        "flags": (flags := tool_queue.flags(pin)),
        "flag_names": list({flag.title: flag for flag in flags}.values()),
        "color": COLORS[pin.state],
    }


@require_POST
def decide(request: HttpRequest, pin_id: int, act: str) -> HttpResponse:
    """Accept or refuse a tool as the page has shown it."""
    caller = operator_of(request)
    note = _note(request)
    if act not in ("accept", "refuse"):
        raise NotFound(gettext("%(act)r is not a known decision") % {"act": act[:40]})
    seen_hash = request.POST.get("seen", "")
    try:
        decision = pins.decide(caller, pin_id, accepted=act == "accept", seen_hash=seen_hash, note=note)
    except Conflict as error:
        return _show(request, caller, pin_id, conflict=message_without_field(error), note=note)
    pin = decision.pin
    text = gettext("“%(tool)s” is accepted.") if decision.accepted else gettext("“%(tool)s” is refused.")
    LAST.keep(request, text % {"tool": offered_name(pin.upstream, pin.tool)}, ids=[decision.pk])
    following = tool_queue.rows(caller, state="waiting").order_by("-changed_at", "pk").first()
    return redirect("admin:upstream-tool", following.pk) if following else redirect("admin:upstream-tools")


def accept_all(request: HttpRequest, upstream: str) -> HttpResponse:
    """Show all waiting tools of an upstream that have no flags, and accept them together."""
    caller = operator_of(request)
    if request.method == "POST":
        try:
            decided = pins.accept_all(caller, upstream, seen_hash=request.POST.get("seen", ""), note=_note(request))
        except Conflict as error:
            messages.error(request, message_with_label(error))
            return redirect(request.path)
        text = ngettext("%(n)s tool is accepted.", "%(n)s tools are accepted.", len(decided)) % {"n": len(decided)}
        LAST.keep(request, text, ids=[decision.pk for decision in decided])
        return redirect(_address(upstream=upstream))
    found = tool_queue.unflagged(caller, upstream)
    if not found:
        messages.info(request, gettext("No tool without flags waits."))
        return redirect(_address(upstream=upstream))
    context = {
        "upstream": upstream,
        "rows": [{**_row(pin), "parts": tool_queue.parts(pin), "is_new": pin.approved is None} for pin in found],
        "seen": pins.hash_of_all(found),
        "max_note": MAX_NOTE,
        "back": _address(upstream=upstream),
    }
    return render(request, "operate/upstream_tools_accept.html", context)


@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Undo the decision that the form names, or the last ones of this session."""
    caller = operator_of(request)
    given = request.POST.get("decision", "")
    last = LAST.stored(request)
    LAST.forget(request)
    ids = [int(given)] if given.isascii() and given.isdecimal() and len(given) < 19 else last.get("ids", [])
    undone: list[PinDecision] = []
    for decision_id in ids:
        try:
            undone.append(pins.undo(caller, decision_id))
        except DomainError as error:
            messages.error(request, message_with_label(error))
    if undone:
        messages.success(request, gettext("Undone."))
    return redirect("admin:upstream-tool", undone[0].pin_id) if len(undone) == 1 else redirect("admin:upstream-tools")


def _note(request: HttpRequest) -> str:
    return request.POST.get("note", "").replace("\x00", "").strip()[:MAX_NOTE]


def _address(**filters: str) -> str:
    given = {name: value for name, value in filters.items() if value}
    return f"{reverse('admin:upstream-tools')}?{urlencode(given)}" if given else reverse("admin:upstream-tools")

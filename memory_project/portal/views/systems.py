"""Connected systems page: what a person, or for everybody an operator, gives Commonplace for other MCP servers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project import audit
from memory_project.mcp.gateway import registry, sign_in, stored_credentials, trial
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import StoredCredential
from memory_project.models import AuditEvent

MAX_PARAMETER = 8_000  # characters of a parameter of the callback that are looked at


@dataclass(frozen=True)
class System:
    upstream: Upstream
    stored: StoredCredential | None
    is_usable: bool


@require_safe
@login_required
def systems(request: HttpRequest) -> HttpResponse:
    return _page(request)


@require_POST
@login_required
def change_system(request: HttpRequest, name: str, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    upstream = _upstream(caller, name)
    match act:
        case "save":
            stored_credentials.save_secret(caller, upstream=upstream, secret=request.POST.get("secret", ""))
            _try(request, caller, upstream)
        case "try":
            _try(request, caller, upstream)
        case "sign-in":
            address, host = sign_in.start(caller, upstream=upstream)
            return _page(request, signing_in=name, address=address, host=host)
        case "remove":
            stored_credentials.remove(caller, upstream=upstream)
            messages.success(request, gettext("Removed. %(system)s is no longer used in your name.") % {"system": name})
        case _:
            raise NotFound(gettext("no such action"))
    return redirect("connected-systems")


@require_safe
@login_required
def upstream_callback(request: HttpRequest) -> HttpResponse:
    """Finish a sign-in. The authorization server sends the browser here."""
    started = time.perf_counter()
    caller = caller_from_request(request, channel="portal")
    given = {name: request.GET.get(name, "")[:MAX_PARAMETER] for name in ("state", "code", "error")}
    answer = sign_in.SignInAnswer(**given, issuer=request.GET.get("iss"))
    name = ""
    failed = None
    try:
        upstream = sign_in.finish(caller, answer=answer)
        name = upstream.name
    except DomainError as error:
        failed = error
        raise
    finally:
        audit.record(
            caller,
            tool="portal.upstream-sign-in",
            outcome=AuditEvent.Outcome.REFUSED if failed else AuditEvent.Outcome.OK,
            code=failed.code if failed else "",
            message=failed.message if failed else "",
            duration_ms=(time.perf_counter() - started) * 1000,
            arguments={"name": name},
            answer={},
            request_chars=0,
            response_chars=0,
        )
    _try(request, caller, upstream)
    return redirect("connected-systems")


def _try(request: HttpRequest, caller: Caller, upstream: Upstream) -> None:
    try:
        count = trial.list_tools(upstream, caller)
    except DomainError as error:
        text = gettext("%(system)s was tried and failed: %(problem)s")
        messages.error(request, text % {"system": upstream.name, "problem": error.message})
        return
    text = ngettext("%(system)s works and offers %(n)s tool.", "%(system)s works and offers %(n)s tools.", count)
    messages.success(request, text % {"system": upstream.name, "n": count})


def _upstream(caller: Caller, name: str) -> Upstream:
    """Return an upstream that the caller may use. Raises NotFound for any other one."""
    upstream = registry.refreshed(at_once=True).upstreams.get(name)
    if upstream is None or not registry.is_permitted(caller, upstream):
        raise NotFound(gettext("there is no such system"), field="name")
    return upstream


def _page(request: HttpRequest, signing_in: str = "", address: str = "", host: str = "") -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    permitted = [
        upstream
        for _, upstream in sorted(registry.refreshed(at_once=True).upstreams.items())
        if registry.is_permitted(caller, upstream)
    ]
    stored = stored_credentials.of_caller(caller)
    entries = [
        System(upstream, row := stored.get(upstream.name), stored_credentials.is_usable(row, upstream))
        for upstream in permitted
        if (upstream.wants_secret or upstream.wants_sign_in)
        and (upstream.credentials == "person" or caller.is_operator)
    ]
    context = {"systems": entries, "signing_in": signing_in, "address": address, "host": host}
    return render(request, "portal/systems.html", context)

"""Connect page: API tokens, and configurations to paste into MCP clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe
from pydantic import AfterValidator

from foundation.operations.fields import Moment, validation_error
from foundation.operations.operation import validate
from foundation.people.permissions import caller_from_request
from memory_project.accounts import connected_apps, tokens
from memory_project.agents.client_files.connection import TOKEN_VARIABLE, ClientConnection, mcp_url
from memory_project.agents.client_files.snippets import snippet
from memory_project.agents.client_files.table import CLIENTS
from memory_project.models import AuditEvent, User
from memory_project.portal.pages.sent_forms import carried_out


def _check_lifetime(days: int) -> int:
    if days not in tokens.LIFETIMES:
        raise validation_error(gettext("%(days)s is unknown") % {"days": days}, ", ".join(map(str, tokens.LIFETIMES)))
    return days


Days = Annotated[int, AfterValidator(_check_lifetime)]


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # guaranteed by login_required
    return request.user


@require_safe
@login_required
def connect(request: HttpRequest) -> HttpResponse:
    return _connect_page(request)


def _connect_page(request: HttpRequest, fresh: str = "") -> HttpResponse:
    """Render the page. `fresh` is a new token, shown in this response only."""
    context = {
        "fresh": fresh,
        "tokens": _user(request).api_tokens.all()[:100],
        "has_oauth": settings.OAUTH_ENABLED,
        "apps": connected_apps.listed(_user(request))[:100] if settings.OAUTH_ENABLED else [],
        "personas": sorted(caller_from_request(request, channel="portal").personas),
        "lifetimes": tokens.LIFETIMES,
        "default_days": tokens.DEFAULT_DAYS,
        "clients": client_configurations(fresh),
        "address": mcp_url(settings.COMMONPLACE_URL, [], read_only=False),
        "variable": TOKEN_VARIABLE,
        "since": timezone.now().isoformat(),
    }
    return render(request, "portal/connect.html", context)


@require_POST
@login_required
def make_token(request: HttpRequest) -> HttpResponse:
    days = validate(Days, request.POST.get("days") or tokens.DEFAULT_DAYS, "days")
    _, text = tokens.create_token(
        caller_from_request(request, channel="portal"),
        user=_user(request),
        name=request.POST.get("name", ""),
        persona=request.POST.get("persona", ""),
        expires_at=tokens.expiry(days),
    )
    return carried_out(_connect_page(request, fresh=text), reverse("connect"))


@require_POST
@login_required
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    token = tokens.revoke_token(caller_from_request(request, channel="portal"), token_id=token_id)
    messages.success(request, gettext("“%(name)s” was revoked and no longer works.") % {"name": token.name})
    return redirect("connect")


@require_POST
@login_required
def end_app(request: HttpRequest, app_id: UUID) -> HttpResponse:
    app = connected_apps.end(caller_from_request(request, channel="portal"), app_id=app_id)
    messages.success(request, gettext("“%(name)s” has no access any more.") % {"name": app.name or app.address})
    return redirect("connect")


@require_safe
@login_required
def first_call(request: HttpRequest) -> HttpResponse:
    """Show the user's latest MCP call after `since`. The Connect page repeats this request every two seconds."""
    since = request.GET.get("since", "")
    calls = AuditEvent.objects.filter(email=_user(request).email, channel__startswith="mcp")
    call = calls.filter(at__gt=validate(Moment, since, "since") if since else timezone.now()).first()
    return render(request, "portal/_first_call.html", {"call": call, "since": since})


@dataclass(frozen=True)
class Configuration:
    """One client on the page: what to paste, where, and a link that installs it if the client has one."""

    title: str
    place: str
    text: str
    link: str
    wants_variable: bool  # the text names a variable instead of the token


def client_configurations(token: str) -> list[Configuration]:
    """Return the configuration of each supported client, with the token if there is a new one."""
    connection = ClientConnection(url=mcp_url(settings.COMMONPLACE_URL, [], read_only=False), token=token)
    return [
        Configuration(
            title=client.title,
            place=gettext(client.where()),
            text=client.shell(connection) if client.shell else snippet(client, connection),
            link=client.link(connection) if client.link else "",
            wants_variable=bool(token) and client.needs_variable,
        )
        for client in CLIENTS
    ]

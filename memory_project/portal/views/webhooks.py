"""Webhooks page: a person's own endpoints, with their latest deliveries."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project.notifications.webhooks import endpoints
from memory_project.notifications.webhooks.events import KINDS
from memory_project.notifications.webhooks.models import Endpoint
from memory_project.notifications.webhooks.operations import CreateEndpoint, UpdateEndpoint
from memory_project.portal.pages.sent_forms import carried_out

DELIVERIES_SHOWN = 10  # of each endpoint


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def webhooks(request: HttpRequest) -> HttpResponse:
    """List the caller's endpoints. A POST creates one and shows its secret, in this response only."""
    caller = caller_from_request(request, channel="portal")
    if request.method != "POST":
        return _page(request, caller)
    endpoint, secret = endpoints.create_endpoint(caller, CreateEndpoint.read(_fields(request)))
    return _page(request, caller, fresh=endpoint, secret=secret)


@require_POST
@login_required
def change_webhook(request: HttpRequest, endpoint_id: UUID, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    match act:
        case "rotate":
            endpoint, secret = endpoints.rotate_secret(caller, endpoint_id=endpoint_id)
            return _page(request, caller, fresh=endpoint, secret=secret)
        case "change":
            fields = {**_fields(request), "endpoint_id": endpoint_id}
            endpoints.update_endpoint(caller, UpdateEndpoint.read(fields))
            message = gettext("Saved.")
        case "pause":
            endpoints.pause_endpoint(caller, endpoint_id=endpoint_id)
            message = gettext("Paused. Events that occur now are not sent later.")
        case "resume":
            endpoints.resume_endpoint(caller, endpoint_id=endpoint_id)
            message = gettext("Resumed.")
        case "test":
            endpoints.send_test_event(caller, endpoint_id=endpoint_id)
            message = gettext("A test event is being sent. Reload the page to see the result.")
        case "repeat":
            endpoints.repeat_delivery(caller, delivery_id=request.POST.get("delivery", ""))
            message = gettext("The delivery is being repeated. Reload the page to see the result.")
        case "delete":
            if request.POST.get("confirm") != "yes":
                raise Invalid(gettext("is missing: tick the box to delete the webhook"), field="confirm")
            endpoints.delete_endpoint(caller, endpoint_id=endpoint_id)
            message = gettext("Deleted.")
        case _:
            raise NotFound(gettext("no such action"))
    messages.success(request, message)
    return redirect("webhooks")


def _fields(request: HttpRequest) -> dict[str, Any]:
    return {
        "name": request.POST.get("name", ""),
        "url": request.POST.get("url", ""),
        "kinds": request.POST.getlist("kinds"),
        "with_texts": request.POST.get("with_texts") == "on",
    }


def _page(request: HttpRequest, caller: Caller, fresh: Endpoint | None = None, secret: str = "") -> HttpResponse:
    own = Endpoint.objects.filter(owner=caller.email)  # admins see those of other people in the admin
    context = {
        "fresh": fresh,
        "secret": secret,
        "kinds": {kind: gettext(title) for kind, title in KINDS.items()},
        "may_create": endpoints.may_have_endpoints(caller),
        "entries": [
            (row, row.latest)  # type: ignore[attr-defined]  # loaded by the query
            for row in endpoints.with_latest_deliveries(own, DELIVERIES_SHOWN)
        ],
    }  # fmt: skip
    response = render(request, "portal/webhooks.html", context)
    return carried_out(response, reverse("webhooks")) if secret else response

"""Webhooks page: a person's own endpoints, with their latest deliveries."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from foundation.operations.errors import Invalid, LimitReached, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project.notifications.webhooks import endpoints
from memory_project.notifications.webhooks.models import Endpoint
from memory_project.notifications.webhooks.operations import CreateEndpoint, UpdateEndpoint
from memory_project.portal.forms import EndpointForm
from memory_project.portal.pages.sent_forms import carried_out

DELIVERIES_SHOWN = 10  # of each endpoint


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def webhooks(request: HttpRequest) -> HttpResponse:
    """List the caller's endpoints. A POST creates one and shows its secret, in this response only."""
    caller = caller_from_request(request, channel="portal")
    if request.method != "POST":
        return _page(request, caller)
    form = EndpointForm(request.POST)
    if form.is_valid():
        try:
            endpoint, secret = endpoints.create_endpoint(caller, CreateEndpoint.read(form.cleaned_data))
        except (Invalid, LimitReached) as error:
            form.refuse(error)
        else:
            return _page(request, caller, fresh=endpoint, secret=secret)
    return _page(request, caller, new=form)


@require_POST
@login_required
def change_webhook(request: HttpRequest, endpoint_id: UUID, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    match act:
        case "rotate":
            endpoint, secret = endpoints.rotate_secret(caller, endpoint_id=endpoint_id)
            return _page(request, caller, fresh=endpoint, secret=secret)
        case "change":
            return _change(request, caller, endpoint_id)
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


def _change(request: HttpRequest, caller: Caller, endpoint_id: UUID) -> HttpResponse:
    endpoint = endpoints.get_endpoint(caller, endpoint_id)
    if endpoint.owner != caller.email:  # admins see those of other people in the admin
        raise NotFound(gettext("you have no such webhook endpoint"), field="endpoint_id")
    form = EndpointForm(request.POST, endpoint=endpoint)
    if form.is_valid():
        try:
            endpoints.update_endpoint(caller, UpdateEndpoint.read({**form.cleaned_data, "endpoint_id": endpoint_id}))
        except (Invalid, LimitReached) as error:
            form.refuse(error)
        else:
            messages.success(request, gettext("Saved."))
            return redirect("webhooks")
    return _page(request, caller, changed=(endpoint_id, form))


def _page(
    request: HttpRequest,
    caller: Caller,
    fresh: Endpoint | None = None,
    secret: str = "",
    *,
    new: EndpointForm | None = None,
    changed: tuple[UUID, EndpointForm] | None = None,
) -> HttpResponse:
    """Render the page. `new` is the form of a webhook that was refused, `changed` that of a change."""
    own = Endpoint.objects.filter(owner=caller.email)  # admins see those of other people in the admin
    refused_id, refused = changed or (None, None)
    entries = []
    for row in endpoints.with_latest_deliveries(own, DELIVERIES_SHOWN):
        form = refused if refused and row.pk == refused_id else EndpointForm(endpoint=row)
        entries.append((row, row.latest, form))  # type: ignore[attr-defined]  # loaded by the query
    context = {
        "fresh": fresh,
        "secret": secret,
        "may_create": endpoints.may_have_endpoints(caller),
        "new": new or EndpointForm(),
        "entries": entries,
    }
    response = render(request, "portal/webhooks.html", context, status=400 if new or changed else 200)
    return carried_out(response, reverse("webhooks")) if secret else response

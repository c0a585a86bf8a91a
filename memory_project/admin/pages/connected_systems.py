"""Connected systems: analysis sources, upstream servers and chat channels, with a test of each."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from analysis import source_health
from foundation.operations.errors import DomainError, NotFound
from memory_project.admin.pages.people import operator_of
from memory_project.mcp.gateway import health, trial
from memory_project.models import Webhook
from memory_project.notifications import chat_channel
from memory_project.web.error_labels import message_with_label


@require_safe
def connected_systems(request: HttpRequest) -> HttpResponse:
    operator_of(request)
    context = {
        "upstreams": health.look(),
        "sources": source_health.states(),
        "channels": Webhook.objects.select_related("persona"),
        "channel_hosts": settings.WEBHOOK_HOSTS,
    }
    return render(request, "operate/connected_systems.html", context)


@require_POST
def test_connection(request: HttpRequest) -> HttpResponse:
    """Test a source by reading a row, a chat channel by posting its numbers, or an upstream by listing its tools."""
    caller = operator_of(request)
    try:
        match request.POST.get("kind", ""):
            case "source":
                name = request.POST.get("name", "")
                error = source_health.test(caller, name=name)
            case "channel":
                channel = (
                    Webhook.objects.select_related("persona").filter(persona__name=request.POST.get("name")).first()
                )
                if channel is None:
                    raise NotFound(gettext("no such chat channel"))
                name = str(channel)
                error = chat_channel.send(channel)
            case "upstream":
                name = request.POST.get("name", "")
                error = trial.try_upstream(caller, name=name).problem
            case other:
                raise NotFound(gettext("%(other)r can't be tested") % {"other": other[:40]})
    except DomainError as refusal:
        messages.error(request, message_with_label(refusal))
    else:
        report = messages.error if error else messages.success
        report(request, f"{name}: {error or gettext('the test succeeded')}.")
    return redirect(reverse("admin:connected-systems"))

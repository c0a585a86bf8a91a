"""The page of exports: start one, see its progress, download and delete it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import IO
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from foundation.downloads.streaming import streamed
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project.exchange.exports import services
from memory_project.exchange.exports.formats import FORMATS, export_format
from memory_project.exchange.exports.stream import INSTALLATION, PERSON, PERSONA
from memory_project.web.error_labels import message_with_label

BLOCK = 64 * 1024  # bytes that are read at a time


@login_required
def exports(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    error = ""
    if request.method == "POST":
        scope, _, persona = request.POST.get("scope", PERSON).partition(":")
        try:
            services.start_export(caller, scope=scope, persona=persona, format=request.POST.get("format", "zip"))
            return redirect("exports")
        except DomainError as refusal:
            error = message_with_label(refusal)
    rows = [(export, gettext(FORMATS[export.format].title)) for export in services.exports_of(caller)]
    context = {
        "rows": rows,
        "is_working": any(export.state in services.UNFINISHED for export, _ in rows),
        "scopes": _scopes(caller),
        "formats": FORMATS.values(),
        "error": error,
    }
    template = "portal/_exports.html" if "part" in request.GET else "portal/exports.html"
    return render(request, template, context, status=400 if error else 200)


def _scopes(caller: Caller) -> list[tuple[str, str]]:
    """Return what the caller may export, as (value, label)."""
    personas = sorted(name for name in caller.personas if caller.can_review_for(name))
    everything = [(INSTALLATION, gettext("The whole installation"))] if caller.is_admin else []
    shared = [
        (f"{PERSONA}:{name}", gettext("What is shared with %(persona)s") % {"persona": name}) for name in personas
    ]
    return [(PERSON, gettext("Everything that is yours")), *shared, *everything]


@require_safe
@login_required
def export_file(request: HttpRequest, export_id: UUID) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    export, file = services.open_export(caller, export_id=export_id)
    format = export_format(export.format)
    name = "-".join(filter(None, ("commonplace", export.persona or export.scope, f"{timezone.now():%Y-%m-%d}")))
    response = streamed(
        request, caller, _blocks(file), file_name=f"{name}.{format.extension}", media_type=format.media_type
    )
    if export.size is not None:
        response["Content-Length"] = str(export.size)
    return response


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from iter(partial(file.read, BLOCK), b"")


@require_POST
@login_required
def delete_export(request: HttpRequest, export_id: UUID) -> HttpResponse:
    services.delete_export(caller_from_request(request, channel="portal"), export_id=export_id)
    return redirect("exports")

"""Caveats from upstream on the page of a catalog entity, and the forms to waive them there."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from foundation.operations.errors import DomainError
from foundation.operations.fields import Urn
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.context import caveat_waivers
from knowledge.context.caveats import Caveat, caveats_for
from knowledge.models import CaveatWaiver
from knowledge.operations import Reinstate, Waive
from memories.retrieval.filters import Filters, visible_rows
from memory_project.web.error_labels import message_with_label

MAX_SHOWN = 20


@dataclass(frozen=True)
class ShownCaveat:
    caveat: Caveat
    may_waive: bool
    target: str  # URN of the column or entity for which the button waives it


@dataclass(frozen=True)
class ShownWaiver:
    waiver: CaveatWaiver
    may_reinstate: bool
    target: str


def upstream_caveats(caller: Caller, urn: str) -> list[ShownCaveat]:
    """Return all caveats that reach an entity and that the caller may read, not only those that may be attached."""
    found = caveats_for([urn], lambda sources: visible_rows(caller, Filters()))[:MAX_SHOWN]
    return [
        ShownCaveat(caveat, caveat_waivers.may_waive(caller, caveat.record), _urn_of(*caveat.path.target))
        for caveat in found
    ]


def waivers(caller: Caller, urn: str) -> list[ShownWaiver]:
    return [
        ShownWaiver(row, caveat_waivers.may_reinstate(caller, row.record, row), _urn_of(row.urn, row.column))
        for row in caveat_waivers.waivers_for(caller, urn)[:MAX_SHOWN]
    ]


def _urn_of(urn: str, column: str) -> str:
    return f"urn:li:schemaField:({urn},{column})" if column else urn


@require_POST
@login_required
def waive(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    form = request.POST
    try:
        urns = [form.get("target", "")]
        given = {"waives": form.get("id", ""), "entity_urns": urns, "insight_text": form.get("reason", "").strip()}
        caveat_waivers.waive(caller, Waive.read(given))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("The caveat is no longer shown here."))
    return _back(request)


@require_POST
@login_required
def reinstate(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    form = request.POST
    try:
        given = {"reinstates": form.get("id", ""), "entity_urns": [form.get("target", "")]}
        caveat_waivers.reinstate(caller, Reinstate.read(given))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("The caveat is shown here again."))
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    urn = validate(Urn, request.POST.get("urn", ""), "urn")
    return HttpResponseRedirect(f"{reverse('entity')}?{urlencode({'urn': urn, 'tab': 'memories'})}")

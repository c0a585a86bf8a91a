"""The preview of a bulk action on memories: what it will change, what it will skip, and why."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories.models import MemoryRecord
from memories.writing import bulk_actions
from memories.writing.bulk_preview import BulkPreview, preview
from memory_project.portal.memory_list import Browse
from memory_project.portal.redirects import local_page
from memory_project.web.error_labels import message_with_label

SHOWN = 100  # maximum number of memories listed, skipped ones first


# The actions that can be previewed here, and the field of the page in which the person chooses first, if any.
CHOICES = {"forget": "", "restore": "", "verify": "", "retag": "tags", "share": "visibility", "reassign": "persona"}


@require_POST
@login_required
def preview_batch(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    name = request.POST.get("act", "")
    back = local_page(request.POST.get("back_to", "")) or reverse("my-knowledge")
    ids, matching = _selected(caller, request)
    if name not in CHOICES or not ids:
        messages.error(request, gettext("Select at least one memory first."))
        return HttpResponseRedirect(back)
    action = bulk_actions.BULK_ACTIONS[name]
    choice = _choice(request, CHOICES[name])
    context: dict[str, Any] = {
        "name": name,
        "act": action,
        "chooses": CHOICES[name],
        "options": action.choices(caller) if action.choices else [],
        "choice": choice,
        "note": request.POST.get("note", ""),
        "back": back,
        "selection": ",".join(ids),
        "count": len(ids),
        "left_out": max(matching - len(ids), 0),
        "max_units": bulk_actions.MAX_UNITS,
        "chosen": {field: request.POST.get(field, "") for field in ("add", "remove", "visibility", "persona")},
    }
    if choice or not CHOICES[name]:
        try:
            result = preview(caller, act=name, unit_ids=ids, note=context["note"], choice=choice)
        except DomainError as error:
            context["error"] = message_with_label(error)
        else:
            context |= {"preview": result, **_rows(caller, result)}
    return render(request, "portal/batch_preview.html", context)


def _selected(caller: Caller, request: HttpRequest) -> tuple[list[str], int]:
    """Return the ids of the selected memories, and how many there would be without the limit of a bulk action."""
    if selection := request.POST.get("selection"):
        ids = selection.split(",")[: bulk_actions.MAX_UNITS]
        return ids, len(ids)
    if request.POST.get("all") != "1":
        ids = request.POST.getlist("ids")[: bulk_actions.MAX_UNITS]
        return ids, len(ids)
    rows = Browse.of(caller, dict(parse_qsl(request.POST.get("filters", "").removeprefix("?")))).editable_rows()
    ids = [pk.hex for pk in rows.values_list("pk", flat=True)[: bulk_actions.MAX_UNITS]]
    return ids, rows.order_by().count() if len(ids) == bulk_actions.MAX_UNITS else len(ids)


def _choice(request: HttpRequest, field: str) -> str:
    """Return the choice as the bulk action takes it, or "" if it has yet to be made."""
    if field != "tags":
        return request.POST.get(field, "") if field else ""
    tags = {
        name: [tag.strip() for tag in request.POST.get(name, "").split(",") if tag.strip()]
        for name in ("add", "remove")
    }
    return json.dumps(tags) if tags["add"] or tags["remove"] else ""


def _rows(caller: Caller, result: BulkPreview) -> dict[str, Any]:
    skipped = result.skipped[:SHOWN]
    changed = result.changed[: SHOWN - len(skipped)]
    shown = MemoryRecord.objects.visible_to(caller).filter(pk__in=[*changed, *(unit for unit, _ in skipped)])
    texts = dict(shown.values_list("pk", "content"))
    return {
        "changed": [(unit, texts.get(unit, "")) for unit in changed],
        "skipped": [(unit, texts.get(unit, ""), reason) for unit, reason in skipped],
        "hidden": len(result.outcomes) - len(changed) - len(skipped),
    }

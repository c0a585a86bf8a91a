"""Citations: the caller's documents that cite memories, and what became of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from foundation.operations.errors import DomainError, Invalid
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memories.use.citations import queries, services
from memories.use.citations.operations import ChangeCiting, Cite, RemoveCiting
from memory_project.portal.forms import CitingForm
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def citation_list(request: HttpRequest) -> HttpResponse:
    """List the caller's documents. A POST registers one, or what it cites now."""
    caller = caller_from_request(request, channel="portal")
    if request.method != "POST":
        return _list(request, caller)
    form = CitingForm(request.POST)
    if not form.is_valid():
        return _list(request, caller, form, status=400)
    try:
        registered = services.cite(caller, Cite.read(form.cleaned_data))
    except DomainError as error:
        form.refuse(error)
        return _list(request, caller, form, status=error.status)
    messages.success(request, _counts(registered))
    if missing := len(registered.not_found):
        message = ngettext(
            "%(count)s address was not found, or you may not read the memory.",
            "%(count)s addresses were not found, or you may not read the memories.",
            missing,
        )
        messages.warning(request, message % {"count": locale.number(missing)})
    return redirect("citing-document", registered.document.pk)


def _counts(registered: services.Registered) -> str:
    added, kept, removed = (locale.number(len(ids)) for ids in (registered.added, registered.kept, registered.removed))
    text = gettext("Registered. Cited memories: %(added)s added, %(kept)s kept, %(removed)s removed.")
    return text % {"added": added, "kept": kept, "removed": removed}


def _list(request: HttpRequest, caller: Caller, form: CitingForm | None = None, status: int = 200) -> HttpResponse:
    only_changed = request.GET.get("changed") == "1"
    rows = queries.documents(caller, has_changes=only_changed or None)
    found = page(rows, request.GET.get("after", ""))
    context = {"page": found, "only_changed": only_changed, "form": form or CitingForm()}
    return render(request, "portal/citations.html", context, status=status)


@require_safe
@login_required
def citing_document(request: HttpRequest, document_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    document = queries.document(caller, document_id)
    rows = queries.cited_by(caller, document)
    until = queries.last_change(caller, document, rows)
    context = {"document": document, "rows": rows, "until": until, "form": CitingForm(document=document)}
    return render(request, "portal/citing_document.html", context)


@require_POST
@login_required
def change_citing(request: HttpRequest, document_id: UUID, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    if act not in ACTS:
        raise Http404
    try:
        messages.success(request, ACTS[act](caller, document_id, request))
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return redirect("citing-document", document_id)
    return redirect("citations") if act == "remove" else redirect("citing-document", document_id)


def _acknowledge(caller: Caller, document_id: UUID, request: HttpRequest) -> str:
    values = {"document_id": document_id, "acknowledged_until": request.POST.get("until", "")}
    services.change(caller, ChangeCiting.read(values))
    return gettext("Noted. You are told of later changes.")


def _share(caller: Caller, document_id: UUID, request: HttpRequest) -> str:
    services.change(caller, ChangeCiting(document_id=document_id, is_shared=True))
    return gettext("Title and address are shown to people who can read the memories.")


def _unshare(caller: Caller, document_id: UUID, request: HttpRequest) -> str:
    services.change(caller, ChangeCiting(document_id=document_id, is_shared=False))
    return gettext("Title and address are shown to you only.")


def _remove(caller: Caller, document_id: UUID, request: HttpRequest) -> str:
    if request.POST.get("confirm") != "yes":
        raise Invalid(gettext("is missing: tick the box to remove the document"), field="confirm")
    services.remove(caller, RemoveCiting(document_id=document_id))
    return gettext("Removed.")


ACTS: dict[str, Callable[[Caller, UUID, HttpRequest], Any]] = {
    "acknowledge": _acknowledge,
    "share": _share,
    "unshare": _unshare,
    "remove": _remove,
}

"""Suggestions: what rules found in the person's own sessions, and the person's decisions about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError, Invalid
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.models import Suggestion
from knowledge.suggestions import decisions, queries
from knowledge.suggestions.operations import INSIGHT, MEMORY, Discard, Keep, NeverAgain, UndoDecisions
from memories.models import Visibility
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label
from memory_project.web.last_decision import LastDecision

LAST = LastDecision("last_suggestions", offered_s=60)  # the REST API undoes it for as long as its suggestion is there
READERS = [
    (Visibility.PRIVATE.value, gettext_lazy("Only me")),
    (Visibility.PERSONA.value, gettext_lazy("My persona")),
    (Visibility.EVERYONE.value, gettext_lazy("Everyone with an account")),
]


@require_safe
@login_required
def suggestion_list(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    found = page(queries.waiting(caller), request.GET.get("after", ""))
    context = {"page": found, "readers": READERS, "last": LAST.offered(request)}
    return render(request, "knowledge/suggestions.html", context)


@require_POST
@login_required
def decide(request: HttpRequest, act: str) -> HttpResponse:
    """Decide about one suggestion or the selected ones, and offer to undo the decision."""
    caller = caller_from_request(request, channel="portal")
    if act not in ACTS:
        raise Http404
    try:
        message, decided, link = ACTS[act](caller, request)
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        ids = [row.pk.hex for row in decided]
        LAST.keep(request, message, ids=ids, link=link)
    return redirect("suggestions")


def _keep(caller: Caller, request: HttpRequest) -> tuple[str, Sequence[Suggestion], str]:
    return _kept(caller, request, MEMORY)


def _propose(caller: Caller, request: HttpRequest) -> tuple[str, Sequence[Suggestion], str]:
    return _kept(caller, request, INSIGHT)


def _kept(caller: Caller, request: HttpRequest, keep_as: str) -> tuple[str, Sequence[Suggestion], str]:
    given = {"suggestion_id": _ids(request)[0], "keep_as": keep_as}
    given |= {name: request.POST[name] for name in ("content", "visibility") if request.POST.get(name)}
    kept = decisions.keep(caller, Keep.read(given))
    if kept.existing:
        message = gettext("It was there already.")
    elif keep_as == INSIGHT:
        message = gettext("Proposed. A curator will review it.")
    else:
        message = gettext("Kept as a memory.")
    return message, [kept.suggestion], kept.record.pk.hex


def _discard(caller: Caller, request: HttpRequest) -> tuple[str, Sequence[Suggestion], str]:
    rows = decisions.discard(caller, Discard.read({"suggestion_ids": _ids(request)}))
    text = ngettext("%(count)s suggestion discarded.", "%(count)s suggestions discarded.", len(rows))
    return text % {"count": locale.number(len(rows))}, rows, ""


def _never(caller: Caller, request: HttpRequest) -> tuple[str, Sequence[Suggestion], str]:
    rows = decisions.never_again(caller, NeverAgain.read({"suggestion_ids": _ids(request)}))
    text = ngettext(
        "%(count)s suggestion discarded. It and texts like it will not be suggested again.",
        "%(count)s suggestions discarded. They and texts like them will not be suggested again.",
        len(rows),
    )
    return text % {"count": locale.number(len(rows))}, rows, ""


ACTS: dict[str, Callable[[Caller, HttpRequest], tuple[str, Sequence[Suggestion], str]]] = {
    "keep": _keep,
    "propose": _propose,
    "discard": _discard,
    "never": _never,
}


def _ids(request: HttpRequest) -> list[str]:
    ids = request.POST.getlist("ids")
    if not ids:
        raise Invalid(gettext("is empty"), field="ids", allowed=gettext("one or more suggestions"))
    return ids


@require_POST
@login_required
def undo(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    last = LAST.stored(request)
    LAST.forget(request)
    if not last:
        messages.warning(request, gettext("There is no decision to undo."))
        return redirect("suggestions")
    try:
        decisions.undo(caller, UndoDecisions.read({"suggestion_ids": [UUID(pk).hex for pk in last["ids"]]}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Undone."))
    return redirect("suggestions")

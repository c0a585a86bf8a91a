"""The inbox: everything that waits for the person's decision, and the undo of what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.cases import decisions, kinds, pages
from foundation.cases.decisions import DecideCases, UndoVerdicts
from foundation.cases.kinds import Case, CaseKind
from foundation.operations.errors import DomainError, Invalid
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.debt import interviews
from knowledge.debt.operations import AskQuestions
from memory_project.portal.context_processors import navigation_of
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label
from memory_project.web.last_decision import LastDecision

LAST = LastDecision("last_case")
SEEN = "~"  # between the id of a case and the token of its state, in a field of a form
MAX_ABOUT = 1_000
MAX_REFUSALS = 3  # of a bulk decision, that the page names


@dataclass(frozen=True)
class InboxTab:
    name: str  # of the kind; "" for all kinds
    title: str | Promise
    count: int | None  # None if the cases are not counted


@dataclass(frozen=True)
class ShownCase:
    """A case with the templates that show it: of its kind, or of any kind."""

    case: Case
    templates: tuple[str, str]


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    name = request.GET.get("kind", "")
    about = UNSTORABLE.sub("", request.GET.get("about", ""))[:MAX_ABOUT]
    chosen = kinds.kind_named(caller, name) if name else None
    counts = navigation_of(request).case_counts
    with_cases = [kind for kind in kinds.kinds_for(caller) if counts.get(kind.name)]
    found = pages.page(caller, [chosen] if chosen else with_cases, request.GET.get("after", ""), about=about)
    context = {
        "kind": chosen,
        "about": about,
        "tabs": _tabs(caller, chosen, counts),
        "cases": [ShownCase(case, _templates(case.kind.name)) for case in found.cases],
        "many": [verdict for verdict in chosen.verdicts if verdict.takes_many] if chosen else [],
        "summary": chosen.summary(caller) if chosen else {},
        "head": _templates(f"{name}_head") if chosen else (),
        "empty": _templates(f"{name}_empty"),
        "past": chosen.past(caller) if chosen else [],
        "next_page": _address(kind=name, about=about, after=found.after) if found.after else "",
        "last": LAST.offered(request),
    }
    return render(request, "cases/inbox.html", context)


def _templates(name: str) -> tuple[str, str]:
    """Return the template of a kind, and the one that is used if the kind has none."""
    part = name.rpartition("_")[2] if name.endswith(("_head", "_empty")) else "case"
    return f"cases/{name}.html", f"cases/{part}.html"


def _tabs(caller: Caller, chosen: CaseKind | None, counts: dict[str, int]) -> list[InboxTab]:
    """Return the tabs of the kinds that have cases, of the chosen one, and of those that are not counted."""
    tabs = [InboxTab("", gettext("All"), sum(counts.values()))]
    for kind in kinds.kinds_for(caller):
        if kind is chosen or not kind.is_counted or counts.get(kind.name):
            tabs.append(InboxTab(kind.name, kind.title, counts.get(kind.name)))
    return tabs


@require_POST
@login_required
def decide(request: HttpRequest) -> HttpResponse:
    """Give a verdict on one case or on the selected ones, and offer to undo it."""
    caller = caller_from_request(request, channel="portal")
    try:
        outcome = decisions.decide(caller, _operation(caller, request))
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return _back(request)
    for refusal in list(outcome.refused.values())[:MAX_REFUSALS]:
        messages.error(request, message_with_label(refusal))
    memory_id = next(iter(outcome.given.values())).memory_id if len(outcome.given) == 1 else ""
    LAST.keep(request, outcome.message, kind=request.POST["kind"], verdicts=outcome.undo, memory_id=memory_id)
    return _back(request)


def _operation(caller: Caller, request: HttpRequest) -> DecideCases:
    kind = kinds.kind_named(caller, request.POST.get("kind", ""))
    verdict = kind.verdict(request.POST.get("verdict", ""))
    chosen: list[dict[str, Any]] = []
    for text in request.POST.getlist("cases"):
        pk, _, seen = text.partition(SEEN)
        chosen.append({"id": pk, "seen": seen} if seen else {"id": pk})
    if not chosen:
        raise Invalid(gettext("is empty"), field="cases", allowed=gettext("one or more cases"))
    values = {name: request.POST[name] for name in verdict.fields if request.POST.get(name)}
    return DecideCases.read({"kind": kind.name, "verdict": verdict.name, "cases": chosen, "given": values})


@require_POST
@login_required
def undo(request: HttpRequest) -> HttpResponse:
    """Undo the verdict that the form names, or the last one of this session."""
    caller = caller_from_request(request, channel="portal")
    last = LAST.stored(request)
    LAST.forget(request)
    kind = request.POST.get("kind") or last.get("kind", "")
    verdicts = request.POST.getlist("verdicts") or last.get("verdicts", [])
    if not verdicts:
        messages.warning(request, gettext("There is no decision to undo."))
        return _back(request)
    try:
        decisions.undo(caller, UndoVerdicts.read({"kind": kind, "verdicts": verdicts}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Undone."))
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    """Return to the tab that the form was on."""
    given = {"kind": request.POST.get("tab", ""), "about": request.POST.get("about", "")}
    return HttpResponseRedirect(_address(**given))


def _address(**given: str) -> str:
    query = {name: value for name, value in given.items() if value}
    return f"{reverse('inbox')}?{urlencode(query)}" if query else reverse("inbox")


@require_POST
@login_required
def ask_me(request: HttpRequest) -> HttpResponse:
    """Let the product ask the person what is missing about entities that the person may know."""
    caller = caller_from_request(request, channel="portal")
    try:
        asked = interviews.ask(caller, AskQuestions())
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        if asked:
            text = ngettext("%(count)s new question.", "%(count)s new questions.", len(asked))
            messages.success(request, text % {"count": locale.number(len(asked))})
        else:
            messages.info(request, gettext("There is nothing new to ask you about the entities that you know."))
    return HttpResponseRedirect(_address(kind="question"))


@require_safe
@login_required
def of_kind(request: HttpRequest, kind: str) -> HttpResponse:
    """Lead to the tab that took the place of an earlier page."""
    return HttpResponseRedirect(_address(kind=kind, about=request.GET.get("cause", "")[:MAX_ABOUT]))

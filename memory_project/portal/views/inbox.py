"""The inbox: everything that waits for the person's decision, and the undo of what was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.cases import decisions, kinds, pages
from foundation.cases.decisions import CaseOutcome, DecideCases, UndoVerdicts
from foundation.cases.kinds import Case, CaseKind
from foundation.operations.display import show_invisible
from foundation.operations.errors import Conflict, DomainError, Invalid
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
MAX_QUOTED = 80  # characters of the text of a case that was refused
MAX_REFUSALS = 3  # of a bulk decision, that the page names


@dataclass(frozen=True)
class InboxTab:
    name: str  # of the kind; "" for all kinds
    title: str | Promise
    count: int | None  # None if the cases are not counted


@dataclass(frozen=True)
class ShownCase:
    """A case with the templates that may show it."""

    case: Case
    templates: Sequence[str]


@require_safe
@login_required
def inbox(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    name = request.GET.get("kind", "")
    about = UNSTORABLE.sub("", request.GET.get("about", ""))[:MAX_ABOUT]
    after = request.GET.get("after", "")
    chosen = kinds.kind_named(caller, name) if name else None
    counts = navigation_of(request).case_counts
    counted = [kind for kind in kinds.kinds_for(caller) if kind.is_counted]
    # A cursor may be of a kind whose last case was decided meanwhile.
    wanted = [chosen] if chosen else [kind for kind in counted if after or counts[kind.name]]
    found = pages.page(caller, wanted, after, about=about)
    context = {
        "kind": chosen,
        "about": about,
        "after": after,
        "tabs": _tabs(caller, chosen, counts),
        "cases": [ShownCase(case, _templates(case.kind)) for case in found.cases],
        "many": [verdict for verdict in chosen.verdicts if verdict.takes_many] if chosen else [],
        "summary": chosen.summary(caller) if chosen else {},
        "head": _templates(chosen, "_head"),
        "empty": _templates(chosen, "_empty"),
        "past": chosen.past(caller) if chosen else [],
        "next_page": _address(kind=name, about=about, after=found.after) if found.after else "",
        "last": LAST.offered(request),
    }
    return render(request, "cases/inbox.html", context)


def _templates(kind: CaseKind | None, part: str = "") -> Sequence[str]:
    """Return the template of a kind for a case, or another part of the page, and the one for kinds that have none."""
    default = f"cases/{part.strip('_') or 'case'}.html"
    return [f"cases/{kind.name}{part}.html", default] if kind else [default]


def _tabs(caller: Caller, chosen: CaseKind | None, counts: Mapping[str, int]) -> list[InboxTab]:
    """Return the tabs of the kinds that have cases, of the chosen one, and of those that are not counted."""
    tabs = [InboxTab("", gettext("All"), sum(counts.values()))]
    for kind in kinds.kinds_for(caller):
        if kind is chosen or not kind.is_counted or counts.get(kind.name):
            tabs.append(InboxTab(kind.name, kind.title, counts.get(kind.name)))
    return tabs


@require_POST
@login_required
def decide_one(request: HttpRequest, kind: str, case_id: str, act: str) -> HttpResponse:
    """Give a verdict on one case. Its id is in the address, so that the audit log has it."""
    chosen = {"id": case_id, "seen": request.POST.get("seen", "")}
    return _decide(request, kind, act, [chosen])


@require_POST
@login_required
def decide_many(request: HttpRequest, kind: str, act: str) -> HttpResponse:
    """Give a verdict on the selected cases."""
    chosen = []
    for text in request.POST.getlist("cases"):
        case_id, _, seen = text.partition(SEEN)
        chosen.append({"id": case_id, "seen": seen})
    return _decide(request, kind, act, chosen)


def _decide(request: HttpRequest, name: str, act: str, chosen: Sequence[Mapping[str, str]]) -> HttpResponse:
    """Decide, and offer to undo it."""
    caller = caller_from_request(request, channel="portal")
    try:
        if not chosen:
            raise Invalid(gettext("is empty"), field="cases", allowed=gettext("one or more cases"))
        verdict = kinds.kind_named(caller, name).verdict(act)
        given = {field: request.POST[field] for field in verdict.fields if request.POST.get(field)}
        operation = DecideCases.read({"kind": name, "verdict": act, "cases": chosen, "given": given})
        outcome = decisions.decide(caller, operation)
    except DomainError as error:
        messages.error(request, message_with_label(error))
        return _back(request)
    _report_refused(request, caller, name, outcome)
    memory_id = next(iter(outcome.decided.values())).memory_id if len(outcome.decided) == 1 else ""
    LAST.keep(request, outcome.message, kind=name, tokens=outcome.undo_tokens, memory_id=memory_id)
    return _back(request)


def _report_refused(request: HttpRequest, caller: Caller, name: str, outcome: CaseOutcome) -> None:
    """Say which cases were not decided, and why."""
    refused = dict(list(outcome.refused.items())[:MAX_REFUSALS])
    if not refused:
        return
    kind = kinds.kind_named(caller, name)
    # A conflict is about a case that was found. Other refusals may be of ids that are none.
    rows = kind.waiting(caller).filter(pk__in=[pk for pk, error in refused.items() if isinstance(error, Conflict)])
    texts = {case.id: case.text for case in kind.cases(caller, list(rows))}
    for case_id, error in refused.items():
        text = show_invisible(texts.get(case_id, ""))
        message = message_with_label(error)
        messages.error(request, f"“{Truncator(text).chars(MAX_QUOTED)}”: {message}" if text else message)


@require_POST
@login_required
def undo(request: HttpRequest) -> HttpResponse:
    """Undo the verdicts that the form names."""
    caller = caller_from_request(request, channel="portal")
    tokens = request.POST.getlist("undo")
    try:
        decisions.undo(caller, UndoVerdicts.read({"kind": request.POST.get("kind", ""), "undo": tokens}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Undone."))
        if LAST.stored(request).get("tokens") == tokens:
            LAST.forget(request)
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    """Return to the place in the list that the form was on."""
    given = {
        name: request.POST.get(field, "") for name, field in (("kind", "tab"), ("about", "about"), ("after", "after"))
    }
    return HttpResponseRedirect(_address(**given))


def _address(**given: str) -> str:
    query = {name: value for name, value in given.items() if value}
    return f"{reverse('inbox')}?{urlencode(query)}" if query else reverse("inbox")


@require_POST
@login_required
def ask_me(request: HttpRequest) -> HttpResponse:
    """Create interview questions for the caller."""
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
    """Redirect a former page to its tab."""
    return HttpResponseRedirect(_address(kind=kind))


@require_safe
@login_required
def stale_memories(request: HttpRequest) -> HttpResponse:
    """Redirect the former stale review: to the tab, or to the list of everybody's stale memories."""
    if request.GET.get("whose") == "all":
        return HttpResponseRedirect(f"{reverse('my-knowledge')}?status=stale")
    return HttpResponseRedirect(_address(kind="stale", about=request.GET.get("cause", "")[:MAX_ABOUT]))

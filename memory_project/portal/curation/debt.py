"""Gaps (knowledge debt): what is missing about entities, whom to ask, and what a person was asked."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError
from foundation.operations.fields import UNSTORABLE
from foundation.people.caller import Caller
from knowledge.debt import experts, interviews, queries, questions
from knowledge.debt.computation import computed_at
from knowledge.debt.operations import AskQuestions, UndoAnswer
from knowledge.debt.queries import DebtFilter
from knowledge.models.debt import EVERYONE
from memory_project.portal.curation.review import curator
from memory_project.portal.redirects import local_page
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label

MAX_ASKED = 50  # questions of a person that the page lists
REASONS = {
    "contested": gettext_lazy("Contested"),
    "unanswered": gettext_lazy("Nothing found"),
    "stale": gettext_lazy("Stale"),
    "questions": gettext_lazy("Open questions"),
    "no_description": gettext_lazy("No description"),
}


@require_safe
@login_required
def debt_list(request: HttpRequest) -> HttpResponse:
    caller = curator(request)
    chosen = _filter(request)
    fault = ""
    try:
        page = queries.debt_page(caller, chosen, request.GET.get("after", ""))
    except DomainError as error:
        page = queries.DebtPage([])
        fault = message_with_label(error)
    people = experts.experts(caller, [row.urn for row in page.rows]) if page.rows else {}
    context = {
        "rows": [(row, people[row.urn]) for row in page.rows],
        "chosen": chosen,
        "fault": fault,
        "reasons": REASONS,
        "personas": _personas(caller),
        "domains": queries.domains(caller),
        "computed_at": computed_at(),
        "least": locale.number(settings.DEBT_MIN_PEOPLE),
        "next_page": f"?{urlencode({**chosen.params(), 'after': page.after})}" if page.after else "",
    }
    return render(request, "debt/list.html", context)


def _filter(request: HttpRequest) -> DebtFilter:
    def read(name: str, length: int) -> str:
        return UNSTORABLE.sub("", request.GET.get(name, "")).strip()[:length]

    return DebtFilter(read("persona", 60), read("domain", 500), read("q", 200), read("reason", 20))


def _personas(caller: Caller) -> list[tuple[str, str]]:
    return [(EVERYONE, gettext("Everyone")), *((name, name) for name in sorted(caller.personas))]


@require_POST
@login_required
def ask(request: HttpRequest) -> HttpResponse:
    """Ask a person about one entity, or with no entity what the person may know."""
    caller = curator(request)
    person = request.POST.get("person", "")
    try:
        given = {"person": person, "entity_urn": request.POST.get("entity") or None}
        asked = interviews.ask(caller, AskQuestions.read(given))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        if asked:
            text = ngettext(
                "%(person)s is asked %(count)s question.", "%(person)s is asked %(count)s questions.", len(asked)
            )
            messages.success(request, text % {"person": person, "count": locale.number(len(asked))})
        else:
            messages.info(request, gettext("There is nothing new to ask about the entities that this person knows."))
    return redirect(local_page(request.POST.get("back_to", "")) or "debt")


@require_safe
@login_required
def interview(request: HttpRequest) -> HttpResponse:
    """Show what the caller has asked a person, for example one who leaves."""
    caller = curator(request)
    person = UNSTORABLE.sub("", request.GET.get("person", "")).strip().lower()[:254]
    rows = list(questions.asked_by(caller, person)[:MAX_ASKED]) if person else []
    context: dict[str, Any] = {"asked_person": person, "questions": questions.shown(caller, rows)}
    return render(request, "debt/interview.html", context)


@require_POST
@login_required
def take_back(request: HttpRequest) -> HttpResponse:
    caller = curator(request)
    try:
        interviews.undo(caller, UndoAnswer.read({"question_id": request.POST.get("question")}))
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("The question is taken back."))
    return redirect(local_page(request.POST.get("back_to", "")) or "debt")

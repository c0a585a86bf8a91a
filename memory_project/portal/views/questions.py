"""Questions for you: what the product asks a person about entities that the person may know."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.debt import interviews, questions
from knowledge.debt.operations import PASS, SKIP, UNKNOWN, AnswerInterview, AskQuestions, PassOver, UndoAnswer
from memory_project.portal.form_fields import posted
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label


@require_safe
@login_required
def question_list(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    waiting = list(questions.open_questions(caller)[: interviews.MAX_OPEN])
    done = list(questions.decided(caller)[: questions.MAX_DECIDED])
    shown = {each.question.pk: each for each in questions.shown(caller, [*waiting, *done], with_experts=True)}
    context = {
        "questions": [shown[row.pk] for row in waiting],
        "done": [shown[row.pk] for row in done],
        "has_room": len(waiting) < interviews.MAX_OPEN,
    }
    return render(request, "knowledge/questions.html", context)


@require_POST
@login_required
def ask_me(request: HttpRequest) -> HttpResponse:
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
    return redirect("questions")


@require_POST
@login_required
def decide(request: HttpRequest, question_id: UUID, act: str) -> HttpResponse:
    """Answer a question, pass it over, or open it again."""
    caller = caller_from_request(request, channel="portal")
    try:
        if act == "answer":
            message = _answer(caller, question_id, request)
        elif act == "undo":
            interviews.undo(caller, UndoAnswer(question_id=question_id))
            message = gettext("The question is open again.")
        elif act in (SKIP, UNKNOWN, PASS):
            interviews.pass_over(caller, posted(PassOver, request, "to", question_id=question_id, because=act))
            message = gettext("Noted. You can open the question again below.")
        else:
            raise Http404
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, message)
    return redirect("questions")


def _answer(caller: Caller, question_id: UUID, request: HttpRequest) -> str:
    captured = interviews.answer(caller, posted(AnswerInterview, request, "content", question_id=question_id))
    return gettext("It was there already.") if captured.existing else gettext("Proposed. A curator will review it.")

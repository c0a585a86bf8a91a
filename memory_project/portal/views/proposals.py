"""Insights: proposals by the user and their agents, and the form to propose an insight."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from analysis import findings
from foundation.downloads.list_export import list_export
from foundation.operations.errors import DomainError, Invalid
from foundation.operations.fields import UNSTORABLE
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.catalog.interface import CatalogRefused, CatalogUnavailable
from knowledge.insights import queries
from knowledge.insights.capture import Captured, capture
from knowledge.models import InsightState
from knowledge.operations import AnswerQuestion, Capture
from knowledge.portable_kinds import INSIGHT_COLUMNS
from knowledge.review import clarifications
from knowledge.review.review_page import CatalogEffect, effect_of_draft, problems_of
from memories import queries as memories
from memories.models import Category
from memories.validity.scopes.choices import choices
from memory_project.portal.proposal_forms import ProposalForm
from memory_project.web import locale
from memory_project.web.error_labels import message_with_label


@require_safe
@login_required
def proposal_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    state = request.GET.get("state", "")
    rows = queries.proposed_by(caller)
    counts = queries.states_of(rows)
    if state in InsightState.values:
        rows = rows.filter(state=state)
    if download := list_export(request, caller, rows.order_by("-record__created_at"), INSIGHT_COLUMNS, name="insights"):
        return download
    current_page = page(rows, request.GET.get("after", ""), by="record__created_at")
    query = {"state": state, "after": current_page.after}
    open_questions = list(clarifications.open_questions(caller)[:20])
    context = {
        "page": current_page,
        "state": state,
        "states": [(s, counts.get(s, 0)) for s in InsightState if s != InsightState.SUPERSEDED],
        "questions": [(insight, clarifications.conversation(insight.decisions.all())) for insight in open_questions],
        "next_page": "?" + urlencode({name: value for name, value in query.items() if value}),
    }
    return render(request, "knowledge/my_insights.html", context)


@require_POST
@login_required
def answer_question(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    try:
        clarifications.answer(
            caller, AnswerQuestion.read({"insight_id": insight_id, "notes": request.POST.get("answer", "")})
        )
    except DomainError as error:
        messages.error(request, message_with_label(error))
    else:
        messages.success(request, gettext("Your answer was sent. The insight is back in review."))
    return redirect("my-insights")


@login_required
def propose(request: HttpRequest) -> HttpResponse:
    """Propose an insight. The form is prefilled from the memory, finding, entity, column or text in the address."""
    caller = caller_from_request(request, channel="portal")
    source, initial, actions = _starting_point(caller, request)
    form = ProposalForm(request.POST or None, initial=initial, actions=actions, scopes=choices(caller))
    if request.method == "POST" and form.is_valid():
        values = form.values()
        try:
            text = values.pop("content")
            if source.get("finding_id"):
                values |= {"finding_id": source["finding_id"], "source": "agent_discovery"}
            captured = capture(caller, Capture.read({"insight_text": text, **values}))
        except Invalid as error:
            form.refuse(error)
        except DomainError as error:
            messages.error(request, message_with_label(error))
        else:
            _report(request, captured)
            return redirect("memory", record_id=captured.insight.pk)
    context = {"form": form, "source": source, "effect": _effect(caller, form)}
    return render(request, "knowledge/propose.html", context)


def _report(request: HttpRequest, captured: Captured) -> None:
    text = (
        gettext("This was already proposed.") if captured.existing else gettext("Proposed. A curator will review it.")
    )
    messages.success(request, text)
    for problem in problems_of(captured.insight):
        messages.warning(
            request, gettext("It can’t be applied as it is: %(problem)s.") % {"problem": problem.partition(": ")[2]}
        )
    if captured.similar:
        closest = captured.similar[0]
        text = gettext("Closest existing memory (%(share)s similar): “%(memory)s”.")
        messages.warning(request, text % {"share": locale.percent(closest.cosine), "memory": closest.record})


def _starting_point(
    caller: Caller, request: HttpRequest
) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, str]]]:
    """Return the source of the proposal, the initial values of the form, and the suggested changes.

    If the entity is known, the suggested change is a new description, because descriptions are changed most often.
    """
    params = {name: request.GET.get(name, "") for name in ("memory", "finding", "entity", "column")}
    text = UNSTORABLE.sub("", request.GET.get("content", ""))[:4_000]
    initial: dict[str, Any] = {"content": text, "entity_urns": UNSTORABLE.sub("", params["entity"])[:2_000]}
    source: dict[str, Any] = {}
    target = UNSTORABLE.sub("", params["column"])[:300]
    if params["memory"]:
        record = memories.get(caller, params["memory"])
        source = {"record": record, "is_own": caller.can_edit_for(record.created_by)}
        category = record.category if record.category != Category.GENERAL else Category.BUSINESS_CONTEXT
        initial |= {"content": record.content, "category": category, "confidence": record.confidence}
        initial["entity_urns"] = "\n".join(record.entity_urns)
        initial["scope"] = record.scope
        target = next((str(column["column"]) for column in record.related_columns), target)
    elif params["finding"]:
        finding = findings.get_finding(caller, params["finding"])
        source = {"finding": finding, "finding_id": finding.pk.hex}
        initial |= {"content": finding.finding, "category": Category.DATA_QUALITY}
    has_entity = bool(initial["entity_urns"])
    actions = [{"action_type": "update_description", "target": target, "detail": ""}] if has_entity else []
    return source, initial, actions


@require_POST
@login_required
def preview_proposal(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    initial = {"entity_urns": request.POST.get("entity_urns", "")}
    form = ProposalForm(request.POST, initial=initial, actions=[], scopes=choices(caller))
    return render(request, "knowledge/_effect.html", {"effect": _effect(caller, form)})


def _effect(caller: Caller, form: ProposalForm) -> CatalogEffect | None:
    """Return what the proposal would change in the catalog, or None if it suggests no change or the form is new.

    If a change can't be made, for example because its value is missing, `error` of the result is the reason.
    """
    if not form.is_bound:
        return None
    form.is_valid()  # fills cleaned_data; errors in other fields must not prevent the preview
    for name in form.fields:
        form.cleaned_data.setdefault(name, [] if name == "entity_urns" else "")
    values = form.values()
    actions = values.pop("suggested_actions")
    if "entity_urns" in form.errors:
        return CatalogEffect(error=str(form.errors["entity_urns"][0]))
    try:
        return effect_of_draft(caller, values, actions) if actions else None
    except (CatalogUnavailable, CatalogRefused) as error:
        return CatalogEffect(error=error.message)

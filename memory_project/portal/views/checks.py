"""Checks of a memory: the form with a run before saving, and the buttons on the memory's page and in the review."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from analysis.checks import queries, running, services
from analysis.checks.expectations import TEXTS
from analysis.checks.operations import AddCheck, EditCheck, RemoveCheck, RunCheck, TryCheck
from analysis.models import CheckState, MemoryCheck
from analysis.sql.execute import readable_sources
from foundation.operations.errors import DomainError, Forbidden, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.insights import queries as curation
from memory_project.portal.check_forms import VALUES, CheckForm
from memory_project.web.error_labels import message_with_label


@login_required
def add_check(request: HttpRequest, record_id: UUID) -> HttpResponse:
    return _form(request, record_id, None)


@login_required
def edit_check(request: HttpRequest, record_id: UUID, check_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    view = queries.view_of(caller, services.readable(caller, record_id), check_id)
    if not view.is_open:
        raise Forbidden(gettext("Only readers of this check’s source can see and change its statement."))
    return _form(request, record_id, view.check)


def _form(request: HttpRequest, record_id: UUID, check: MemoryCheck | None) -> HttpResponse:
    """Show the form. The button Run shows the result without storing anything, the button Save stores the check."""
    caller = caller_from_request(request, channel="portal")
    record = services.changeable(caller, record_id)
    sources = list(readable_sources(caller))
    tried = None
    form = CheckForm(request.POST or None, initial=_initial(check), sources=sources)
    if request.method == "POST" and form.is_valid():
        try:
            if "save" in request.POST:
                _save(caller, record_id, check, form)
                messages.success(request, gettext("The check was saved."))
                return redirect("memory", record_id=record_id)
            tried = services.try_check(caller, TryCheck.read(form.values()))
        except DomainError as error:
            form.refuse(error)
    context: dict[str, Any] = {"form": form, "record": record, "check": check, "sources": sources}
    if tried:
        outcome = tried.trial.outcome
        result = tried.trial.result
        context |= {
            "outcome": outcome,
            "label": CheckState(outcome.state).label,
            "text": TEXTS[outcome.code],
            "columns": result.columns,
            "rows": result.rows[: services.ROWS_SHOWN],
            "has_more": result.is_cut or len(result.rows) > services.ROWS_SHOWN,
        }
    return render(request, "portal/check_form.html", context)


def _initial(check: MemoryCheck | None) -> dict[str, Any]:
    if check is None:
        return {}
    values = {name: getattr(check, name) for name in VALUES}
    shown = {name: "" if value is None else value for name, value in values.items()}
    return {"source": check.source, "sql": check.sql, "expects": check.expects, **shown}


def _save(caller: Caller, record_id: UUID, check: MemoryCheck | None, form: CheckForm) -> None:
    values = {"record_id": record_id, **form.values()}
    if check is None:
        services.add_check(caller, AddCheck.read(values))
    else:
        services.edit_check(caller, EditCheck.read({**values, "check_id": check.pk}))


@require_POST
@login_required
def change_check(request: HttpRequest, record_id: UUID, check_id: UUID, act: str) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    place = {"record_id": record_id, "check_id": check_id}
    try:
        if act == "remove":
            services.remove_check(caller, RemoveCheck.read(place))
            messages.success(request, gettext("The check was removed."))
        elif act == "run":
            check = services.run_check(caller, RunCheck.read(place))
            text = gettext("The check ran: %(result)s.") % {"result": TEXTS[check.last_run["code"]]}
            level = messages.SUCCESS if check.state == CheckState.PASSED else messages.WARNING
            messages.add_message(request, level, text)
        else:
            raise NotFound(gettext("%(act)r is not a known action") % {"act": act})
    except DomainError as error:
        messages.error(request, message_with_label(error))
    return redirect("memory", record_id=record_id)


@require_POST
@login_required
def run_in_review(request: HttpRequest, insight_id: UUID) -> HttpResponse:
    """Let a worker run the checks of an insight that the curator may review."""
    insight = curation.insight(caller_from_request(request, channel="portal"), insight_id)
    running.request_runs([insight.pk], older_than=timedelta())
    messages.success(request, gettext("The checks run now. Load the page again in a moment."))
    return redirect("review-one", insight_id=insight_id)

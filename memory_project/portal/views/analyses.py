"""Analyses: the caller's downloaded data sets, their findings, and bulk actions on the sources."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_POST, require_safe

from analysis import action_execution, actions, findings, sessions, sources
from analysis import export as exports
from analysis.models import Action, Outcome, Session
from analysis.querying import description, query
from analysis.querying.filters import Where
from foundation.database import identity
from foundation.downloads.list_export import list_export
from foundation.operations.errors import NotFound
from foundation.operations.paging import page
from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from memory_project.portal.templatetags.charts import ChartPoint
from memory_project.web import locale

DISTRIBUTIONS = 6
VALUES_SHOWN = 12
FINDINGS_SHOWN = 200
ITEMS_SHOWN = 200


@require_safe
@login_required
def analysis_list(request: HttpRequest) -> HttpResponseBase:
    caller = caller_from_request(request, channel="portal")
    rows = Session.objects.owned_by(caller)
    columns = {name: name for name in ("analysis_id", "persona", "created_at", "last_used_at")}
    if download := list_export(request, caller, rows, columns, name="analyses"):
        return download
    current_page = page(rows, request.GET.get("after", ""), by="last_used_at")
    recent_actions = Action.objects.owned_by(caller).order_by("-created_at")[:20]
    context = {
        "page": current_page,
        "counts_by_session": sessions.count_contents(current_page.rows),
        "actions": recent_actions,
    }
    return render(request, "analyses/list.html", context)


@require_safe
@login_required
def analysis_detail(request: HttpRequest, key: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    session = _session(caller, key)
    models = sessions.overview(session)
    model = request.GET.get("model", "") or (models[0]["model"] if models else "")
    records = {entry["model"]: entry["records"] for entry in models}
    model = model if model in records else ""
    withheld = sources.withheld_models(caller)
    is_withheld = model in withheld
    found = findings.readable(caller, withheld).filter(session=session)
    summaries = found.filter(category=findings.SUMMARY)
    context = {
        "session": session,
        "models": models,
        "model": model,
        "is_withheld": is_withheld,
        "distributions": _distributions(session, model, records[model]) if model and not is_withheld else [],
        "findings": found.exclude(category=findings.SUMMARY)[:FINDINGS_SHOWN],
        "summaries": summaries.count,  # a callable, because the template needs the number only if there are no findings
        "actions": Action.objects.owned_by(caller).filter(analysis_id=session.analysis_id)[:50],
    }
    return render(request, "analyses/one.html", context)


def _distributions(session: Session, model: str, records: int) -> list[tuple[str, list[ChartPoint], int]]:
    """Return (field, bars, number of records with other values) for up to DISTRIBUTIONS fields with few values."""
    scope = query.QueryScope(session, model, Where())
    fields = description.describe(scope, records).fields
    names = [field.name for field in fields if 1 < field.distinct <= 20 and not field.name.startswith("_")]
    distributions = description.distributions(scope, names[:DISTRIBUTIONS], VALUES_SHOWN)
    return [
        (
            name,
            [
                ChartPoint(gettext("(none)") if group.values[0] is None else group.values[0], group.count)
                for group in groups
            ],
            remainder,
        )
        for name, (groups, remainder) in distributions.items()
    ]


@require_POST
@login_required
def clear_analysis(request: HttpRequest, key: int) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    session = _session(caller, key)
    records, finding_count = sessions.clear(caller, analysis_id=session.analysis_id)
    record_text = ngettext("%(count)s record", "%(count)s records", records) % {"count": locale.number(records)}
    finding_text = ngettext("%(count)s finding", "%(count)s findings", finding_count)
    messages.success(
        request,
        gettext("Deleted: %(records)s and %(findings)s. Actions on source systems are still listed.")
        % {"records": record_text, "findings": finding_text % {"count": locale.number(finding_count)}},
    )
    return redirect("analyses")


@require_safe
@login_required
def action_detail(request: HttpRequest, action_id: UUID) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    bulk_action = actions.get_action(caller, action_id)
    order = {Outcome.UNKNOWN: 0, Outcome.FAILED: 1, Outcome.DRIFTED: 2}
    items = list(bulk_action.items.exclude(outcome=Outcome.SUCCEEDED).defer("before")[:ITEMS_SHOWN])
    items += list(bulk_action.items.filter(outcome=Outcome.SUCCEEDED).defer("before")[: ITEMS_SHOWN - len(items)])
    items.sort(key=lambda item: order.get(Outcome(item.outcome), 3))
    context = {
        "action": bulk_action,
        "counts": sorted(action_execution.outcomes(bulk_action).items()),
        "items": items,
        "is_interrupted": action_execution.is_interrupted(bulk_action),
        "is_mine": bulk_action.owner == caller.email,
    }
    return render(request, "analyses/action.html", context)


@require_POST
@login_required
def resume_action(request: HttpRequest, action_id: UUID) -> HttpResponse:
    bulk_action = actions.resume_later(caller_from_request(request, channel="portal"), action_id=action_id)
    messages.success(request, gettext("The action continues in the background. Reload this page to see its progress."))
    return redirect("analysis-action", action_id=bulk_action.pk)


@require_safe
@login_required
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Stream the records that the tool analysis_export offered as a link. Only the caller of the tool may do this."""
    caller = caller_from_request(request, channel="portal")
    opened_export = exports.open_export(caller, request.GET.get("export", ""))
    response = StreamingHttpResponse(
        identity.iterate_as(caller, exports.lines(opened_export)),
        content_type=exports.MEDIA_TYPES[opened_export.format],
    )
    response["Content-Disposition"] = f'attachment; filename="{opened_export.scope.model}.{opened_export.format}"'
    return response


def _session(caller: Caller, key: int) -> Session:
    session = sessions.by_key(caller, key)
    if session is None:
        raise NotFound(gettext("you have no such analysis"))
    return session

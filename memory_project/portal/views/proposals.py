"""My Insights: what I, or my agents for me, proposed, and what became of it."""

from __future__ import annotations

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge import queries
from knowledge.models import InsightState
from memories.access import caller_of
from memories.contract.paging import page


@require_safe
@login_required
def listing(request: HttpRequest) -> HttpResponse:
    caller = caller_of(request, door="portal")
    state = request.GET.get("state", "")
    rows = queries.proposed_by(caller)
    counts = queries.states_of(rows)
    if state in InsightState.values:
        rows = rows.filter(state=state)
    current_page = page(rows, request.GET.get("after", ""), by="record__created_at")
    query = {"state": state, "after": current_page.after}
    context = {
        "page": current_page,
        "state": state,
        "states": [(s, counts.get(s, 0)) for s in InsightState if s != InsightState.SUPERSEDED],
        "next_page": "?" + urlencode({name: value for name, value in query.items() if value}),
    }
    return render(request, "knowledge/my_insights.html", context)

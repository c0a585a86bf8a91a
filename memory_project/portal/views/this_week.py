"""This week: what changed about a user's entities and insights, and for curators the state of the review."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from foundation.people.caller import Caller
from foundation.people.permissions import caller_from_request
from knowledge.freshness.stale_review import needs_verification
from knowledge.insights.queries import may_curate
from knowledge.news import analyst, curation
from knowledge.news.period import Week
from memories.queries import capped_counts
from memory_project.audit import statistics
from memory_project.models import AuditEvent
from memory_project.notifications import inbox
from memory_project.portal import memory_list, review_charts
from memory_project.web import locale

MAX_TO_VERIFY = 5


@require_safe
@login_required
def this_week(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    week = Week.named(request.GET.get("week", ""))
    context = {**_head(week), "may_curate": may_curate(caller), **_news(caller, week)}
    return render(request, "portal/this_week.html", context)


@require_safe
@login_required
def week_of_review(request: HttpRequest) -> HttpResponse:
    caller = caller_from_request(request, channel="portal")
    if not may_curate(caller):
        raise PermissionDenied
    week = Week.named(request.GET.get("week", ""))
    agreement = curation.agreement(caller, week)
    second = sum(one.second for one in agreement)
    agreed = sum(one.agreed for one in agreement)
    context = {
        **_head(week),
        "may_curate": True,
        "second": second,
        "agreed_share": agreed / second if second else 0,
        "second_points": review_charts.agreement_points(agreement),
        **review_charts.trend_points(curation.trend(caller, week)),
        **(_waiting(caller) if week.is_current else {}),
    }
    return render(request, "portal/week_of_review.html", context)


def _waiting(caller: Caller) -> dict[str, Any]:
    """Return what is waiting now, which is not known of a past week."""
    ages = curation.ages(caller)
    return {
        "ages": review_charts.age_points(ages),
        "has_waiting": ages.oldest is not None,
        "authors": curation.waiting_by(caller, "record__created_by"),
        "curators": curation.waiting_by(caller, "assignee"),
        "debts": curation.largest_debts(caller),
    }


def _head(week: Week) -> dict[str, Any]:
    return {"week": week, "first_day": locale.day(week.monday), "last_day": locale.day(week.sunday)}


def _news(caller: Caller, week: Week) -> dict[str, Any]:
    period = week.period
    urns = analyst.entities_of(caller)
    failed = AuditEvent.objects.filter(statistics.FAILED, period.holds("at"), email=caller.email)
    mentions = inbox.notifications_for(caller).filter(period.holds("at"), kind="mentioned")
    stages = memory_list.counted_stages(caller) if week.is_current else {}
    counted = {**analyst.countable(caller, period), "failed": failed, "mentions": mentions, **stages}
    counts = capped_counts(dict.fromkeys(stages, memory_list.MAX_IN_STAGE), **counted)
    # What waits for the caller is known as of now, so the page of a past week does not show it.
    now = {
        "questions": list(analyst.questions(caller)[: analyst.MAX_LISTED]),
        "to_verify": list(needs_verification(caller)[:MAX_TO_VERIFY]),
        "stages": memory_list.stages(counts) if stages else [],
    }
    return {
        "has_entities": bool(urns),
        "changes": analyst.memory_changes(caller, urns, period) if urns else [],
        "catalog": analyst.catalog_changes(urns, period) if urns else [],
        "doubts": list(analyst.doubts(caller, period)[: analyst.MAX_LISTED]) if counts["doubts"] else [],
        "decided": list(analyst.decided(caller, period)[: analyst.MAX_LISTED]),
        "counts": counts,
        "kinds": {
            analyst.NEW: gettext("new"),
            analyst.CORRECTED: gettext("correction"),
            analyst.STALE: gettext("is stale"),
            analyst.SUPERSEDED: gettext("corrected since"),
        },
        **(now if week.is_current else {}),
    }

"""Insights and their review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import django_filters
from django.db import transaction
from django.db.models import Q

from foundation.operations.fields import Id
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from knowledge import responses
from knowledge.insights import queries
from knowledge.insights.lifecycle import edit, locked_insight
from knowledge.insights.seen import require_unchanged, version_of, versions_of
from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Insight, InsightState
from knowledge.operations import Edit
from knowledge.responses import InsightResponse
from knowledge.review import evidence
from memories.models import Category, Confidence
from memory_project.rest.endpoints import Endpoint, of_tool, route
from memory_project.rest.lists import EntityFilter, Listing
from memory_project.rest.versions import RowVersion

TAG = "insights"


class InsightFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=InsightState.choices)
    category = django_filters.ChoiceFilter("record__category", choices=Category.choices)
    confidence = django_filters.ChoiceFilter("record__confidence", choices=Confidence.choices)
    persona = django_filters.CharFilter("record__persona")
    captured_by = django_filters.CharFilter("record__created_by", help_text="E-mail address of the author.")
    entity_urn = EntityFilter(lambda urn: Q(record__entity_urns__contains=[urn]))
    captured_after = django_filters.IsoDateTimeFilter("record__created_at", "gte")
    captured_before = django_filters.IsoDateTimeFilter("record__created_at", "lte")


class ShowInsight(Operation):
    """Show an insight with the evidence for it"""

    insight_id: Id


def _items(caller: Caller, rows: Sequence[Insight]) -> list[InsightResponse]:
    versions = versions_of(rows)
    return [{**responses.insight_response(row), "seen": versions[row.pk]} for row in rows]


def _show(caller: Caller, operation: ShowInsight) -> InsightResponse:
    insight = queries.insight(caller, operation.insight_id)
    return {
        **responses.insight_response(insight),
        "seen": version_of(insight),
        "evidence": evidence.evidence_for(insight),
    }


def _edit(caller: Caller, operation: Edit) -> InsightResponse:
    insight = edit(caller, operation)
    return {**responses.insight_response(insight), "seen": version_of(insight)}


@contextmanager
def _unchanged(caller: Caller, place: Mapping[str, Any], seen: str) -> Iterator[None]:
    with transaction.atomic():
        require_unchanged(locked_insight(caller, place["insight_id"]), seen, override=False)
        yield


INSIGHT_VERSION = RowVersion(
    token=lambda caller, place: version_of(queries.insight(caller, place["insight_id"])),
    unchanged=_unchanged,
    current=lambda caller, place: _show(caller, ShowInsight(insight_id=place["insight_id"])),
)
LIST = Listing(
    "list_insights",
    lambda caller: Insight.objects.visible_to(caller).select_related("record"),
    _items,
    InsightResponse,
    InsightFilter,
    by="record__created_at",
    summary="List insights",
)
CAPTURE = of_tool(
    capture_insight,
    "",
    "capture_insight",
    status_of=lambda body: 200 if body["existing"] else 201,
    statuses=(200, 201),
)
EDIT = Endpoint(
    "edit_insight",
    _edit,
    "apply_knowledge",
    "edit",
    version=INSIGHT_VERSION,
    needs_match=True,
    hidden=("seen", "override"),
)


def _decision(action: str, address: str) -> Any:
    return route(TAG, f"insights/{address}/", post=of_tool(apply_knowledge, action, f"{action}_insights"))


urlpatterns = [
    route(TAG, "insights/", get=LIST, post=CAPTURE),
    route(TAG, "insights/queue/", get=of_tool(apply_knowledge, "bulk_review", "count_queue")),
    route(TAG, "insights/review/", get=of_tool(apply_knowledge, "review", "review_entity")),
    _decision("approve", "approve"),
    _decision("reject", "reject"),
    _decision("needs_more", "needs-more"),
    _decision("edit_and_approve", "edit-and-approve"),
    _decision("undo_review", "undo"),
    route(TAG, "insights/synthesize/", post=of_tool(apply_knowledge, "synthesize", "synthesize", reads=True)),
    route(
        TAG,
        "insights/<id:insight_id>/",
        get=Endpoint("show_insight", _show, version=INSIGHT_VERSION),
        patch=EDIT,
    ),
    route(TAG, "insights/<id:insight_id>/appeal/", post=of_tool(capture_insight, "appeals", "appeal_insight")),
    route(TAG, "insights/<id:insight_id>/answer/", post=of_tool(capture_insight, "answers", "answer_question")),
]

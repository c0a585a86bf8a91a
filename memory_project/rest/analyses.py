"""Analyses: data sets that were ingested, their records and findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import django_filters
from django.conf import settings
from django.db.models import QuerySet
from typing_extensions import TypedDict

from analysis.mcp_tools import (
    analysis_act,
    analysis_clear,
    analysis_export,
    analysis_ingest,
    analysis_query,
    analysis_store,
)
from analysis.models import Finding, Session
from analysis.sessions import count_contents
from foundation.operations.errors import NotFound
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from foundation.tools.declaration import Tool
from memory_project.rest.endpoints import of_tool, route
from memory_project.rest.lists import FlagFilter, Listing

TAG = "analyses"


class AnalysisResponse(TypedDict):
    analysis_id: str
    persona: str
    created_at: str
    last_used_at: str
    contents: dict[str, int]


class FindingResponse(TypedDict):
    id: str
    analysis_id: str
    model: str
    finding: str
    category: str
    metadata: dict[str, Any]
    persistent: bool
    created_at: str
    expires_at: str | None


class FindingFilter(django_filters.FilterSet):
    analysis_id = django_filters.CharFilter("session__analysis_id")
    category = django_filters.CharFilter()
    persistent = FlagFilter()
    created_after = django_filters.IsoDateTimeFilter("created_at", "gte")


def _require_analyses() -> None:
    if not settings.ANALYSIS_ENABLED:
        raise NotFound("analyses are switched off (ANALYSIS_ENABLED)")


def _sessions(caller: Caller) -> QuerySet[Session]:
    _require_analyses()
    return Session.objects.owned_by(caller)


def _session_items(caller: Caller, rows: Sequence[Session]) -> list[AnalysisResponse]:
    contents = count_contents(rows)
    return [response_of(AnalysisResponse, row, contents=contents.get(row.pk, {})) for row in rows]


def _findings(caller: Caller) -> QuerySet[Finding]:
    _require_analyses()
    return Finding.objects.filter(session__owner=caller.email, page_key="").select_related("session")


def _finding_items(caller: Caller, rows: Sequence[Finding]) -> list[FindingResponse]:
    return [response_of(FindingResponse, row, analysis_id=row.session.analysis_id) for row in rows]


def _enabled() -> bool:
    return settings.ANALYSIS_ENABLED


def _call(address: str, tool: Tool, choice: str, operation_id: str, **options: Any) -> Any:
    endpoint = of_tool(tool, choice, operation_id, is_available=_enabled, **options)
    return route(TAG, f"analyses/{address}", post=endpoint)


SESSIONS = Listing(
    "list_analyses", _sessions, _session_items, AnalysisResponse, tool="analysis_query", summary="List analyses"
)
FINDINGS = Listing(
    "list_findings",
    _findings,
    _finding_items,
    FindingResponse,
    FindingFilter,
    tool="analysis_query",
    summary="List findings",
)

urlpatterns = [
    route(TAG, "analyses/", get=SESSIONS),
    _call("ingest/", analysis_ingest, "", "ingest_records"),
    _call("ingest-children/", analysis_ingest, "parent_model", "ingest_children"),
    route(
        TAG,
        "analyses/findings/",
        get=FINDINGS,
        post=of_tool(analysis_store, "", "store_findings", status=201, is_available=_enabled),
    ),
    *(
        _call(f"query/{mode}/", analysis_query, mode, f"query_{mode}", reads=True)
        for mode in ("describe", "semantic", "aggregate", "filter", "sample")
    ),
    _call("act/", analysis_act, "", "act_on_records"),
    _call("act/resume/", analysis_act, "action_id", "resume_action"),
    _call("clear/", analysis_clear, "", "clear_analysis"),
    _call("export/", analysis_export, "", "export_records"),
]

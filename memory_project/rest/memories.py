"""Memories: list, search, and each verb on one memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import django_filters
from django.db.models import QuerySet
from django.urls import URLPattern
from pydantic import Field
from typing_extensions import TypedDict

from foundation.operations.fields import Id, OneOf
from foundation.operations.operation import Operation, validate
from foundation.people.caller import Caller
from foundation.tools.budget import fit_items
from knowledge.mcp_tools.capture import capture_insight
from memories import queries, responses, services
from memories.history import chain, history
from memories.mcp_tools import memory_feedback, memory_manage, memory_prune, memory_recall, memory_store
from memories.models import Category, Confidence, Dimension, MemoryRecord, Source, Status, Visibility
from memories.models.record import about_any
from memories.models.validity import EXPIRED, NOT_YET
from memories.operations import Extend, GetMemory, MemoryId, Reassign, Remember, Rescope, Revise, Supersede
from memories.responses import MemoryResponse
from memories.retrieval import facets
from memories.retrieval.filters import ANY_TIME, RULES, WITHIN, Filters, visible_rows
from memories.use import reports
from memories.use.report_responses import ReportsResponse, reports_response
from memories.writing import rescoping, undo, validity
from memories.writing.seen import memory_versions, unchanged
from memories.writing.undo import UNDOABLE
from memory_project.agents.mcp_tools import memory_briefing
from memory_project.rest.endpoints import Endpoint, of_tool, route
from memory_project.rest.lists import EntityFilter, FlagFilter, Listing
from memory_project.rest.responses import (
    CorrectedResponse,
    FacetCount,
    FacetsResponse,
    KeptResponse,
    OneMemoryResponse,
    RevisedResponse,
)
from memory_project.rest.versions import RowVersion

TAG = "memories"


class MemoryFilter(django_filters.FilterSet):
    status = django_filters.ChoiceFilter(choices=Status.choices, help_text="Memories in force if not given.")
    validity = django_filters.ChoiceFilter(
        choices=[(value, value) for value in (WITHIN, EXPIRED, NOT_YET, ANY_TIME)],
        method="in_time",
        help_text="Of active memories, those that are valid now if not given.",
    )
    dimension = django_filters.ChoiceFilter(choices=Dimension.choices)
    category = django_filters.ChoiceFilter(choices=Category.choices)
    confidence = django_filters.ChoiceFilter(choices=Confidence.choices)
    source = django_filters.ChoiceFilter(choices=Source.choices)
    visibility = django_filters.ChoiceFilter(choices=Visibility.choices)
    persona = django_filters.CharFilter()
    created_by = django_filters.CharFilter(help_text="E-mail address of the owner.")
    tag = django_filters.CharFilter(method="with_tag")
    entity_urn = EntityFilter(lambda urn: about_any([urn]))
    unsettled = FlagFilter(help_text="Memories of which nobody has said what they are about.")
    created_after = django_filters.IsoDateTimeFilter("created_at", "gte")
    created_before = django_filters.IsoDateTimeFilter("created_at", "lte")
    updated_after = django_filters.IsoDateTimeFilter("updated_at", "gte")

    def with_tag(self, rows: QuerySet[MemoryRecord], name: str, value: str) -> QuerySet[MemoryRecord]:
        return rows.filter(tags__contains=[value])

    def in_time(self, rows: QuerySet[MemoryRecord], name: str, value: str) -> QuerySet[MemoryRecord]:
        return rows if value == ANY_TIME else rows.filter(RULES[value]())

    def filter_queryset(self, queryset: QuerySet[MemoryRecord]) -> QuerySet[MemoryRecord]:
        rows: QuerySet[MemoryRecord] = super().filter_queryset(queryset)
        chosen = self.form.cleaned_data
        if not chosen["validity"] and chosen["status"] in ("", Status.ACTIVE):
            rows = rows.filter(RULES[WITHIN]())
        return rows if chosen["status"] else rows.filter(status=Status.ACTIVE)


def _rows(caller: Caller) -> QuerySet[MemoryRecord]:
    return visible_rows(caller, Filters(statuses=Status.values, validity=ANY_TIME)).defer("search")


def _items(caller: Caller, rows: Sequence[MemoryRecord]) -> list[MemoryResponse]:
    return responses.memory_responses(rows)


class CountFacets(Operation):
    """Count the memories in force by dimension, category, persona, tag and entity"""


def _facets(caller: Caller, operation: CountFacets) -> FacetsResponse:
    counted = facets.counts(caller, Filters())
    at_least = [name for name, _ in counted.pop("least")]
    values = {name: [FacetCount(value=value, count=count) for value, count in rows] for name, rows in counted.items()}
    return {"facets": values, "at_least": at_least}


def _remember(caller: Caller, operation: Remember) -> KeptResponse:
    result = services.remember(caller, operation)
    corrected = _corrected(result)
    unsettled = responses.unsettled_response(caller, result.record)
    return {**corrected, "existing": result.existing, **unsettled}


def _supersede(caller: Caller, operation: Supersede) -> CorrectedResponse:
    return _corrected(services.supersede(caller, operation))


def _corrected(result: services.Remembered) -> CorrectedResponse:
    return {
        "memory": responses.memory_response(result.record),
        "similar_existing": [responses.similar_response(similar) for similar in result.similar],
        "note": result.note,
    }


def _get(caller: Caller, operation: GetMemory) -> OneMemoryResponse:
    record = queries.get(caller, operation.record_id)
    changes, omitted = fit_items([responses.change_response(change) for change in history(caller, record)])
    one: OneMemoryResponse = {
        "memory": responses.memory_response(record),
        "chain": responses.memory_responses(chain(caller, record)),
        "history": changes,
        "omitted": omitted,
    }
    return {**one, **responses.unsettled_response(caller, record)}


def _revise(caller: Caller, operation: Revise) -> RevisedResponse:
    record = services.revise(caller, operation)
    return {
        "memory": responses.memory_response(record),
        "message": record.pending_message or record.edit_note or "updated",
    }


class UndoChange(Operation):
    """Undo the last change of a memory"""

    record_id: MemoryId
    change: Annotated[str, OneOf(UNDOABLE)] = Field(description="The change that you saw as the last.")


def _undo(caller: Caller, operation: UndoChange) -> RevisedResponse:
    record = undo.undo(caller, record_id=operation.record_id, change=operation.change)
    return {"memory": responses.memory_response(record), "message": f"undone: {operation.change}"}


def _extend(caller: Caller, operation: Extend) -> RevisedResponse:
    record = validity.extend(caller, operation)
    return {"memory": responses.memory_response(record), "message": record.pending_message or "extended"}


def _reassign(caller: Caller, operation: Reassign) -> RevisedResponse:
    record = services.reassign(caller, operation)
    return {"memory": responses.memory_response(record), "message": f"moved to {record.persona}"}


def _rescope(caller: Caller, operation: Rescope) -> RevisedResponse:
    record = rescoping.rescope(caller, operation)
    return {"memory": responses.memory_response(record), "message": record.pending_message or "updated"}


class ShowChain(Operation):
    """Corrections of a memory, oldest first"""

    record_id: MemoryId


class ChainResponse(TypedDict):
    chain: list[MemoryResponse]


def _chain(caller: Caller, operation: ShowChain) -> ChainResponse:
    return {"chain": responses.memory_responses(chain(caller, queries.get(caller, operation.record_id)))}


class ShowReports(Operation):
    """Reports about a memory: how often it was used, and who found it wrong or outdated"""

    record_id: MemoryId


def _reports(caller: Caller, operation: ShowReports) -> ReportsResponse:
    record = queries.get(caller, operation.record_id)
    return reports_response(record, reports.reports_about(caller, record))


def _token(caller: Caller, place: Mapping[str, Any]) -> str:
    record = queries.get(caller, place["record_id"])
    return memory_versions([record])[record.pk]


MEMORY_VERSION = RowVersion(
    token=_token,
    unchanged=lambda caller, place, seen: unchanged(caller, validate(Id, place["record_id"], "id"), seen),
    current=lambda caller, place: responses.memory_response(queries.get(caller, place["record_id"])),
)


def _verb(command: str, operation_id: str = "") -> URLPattern:
    operation_id = operation_id or f"{command}_memory"
    endpoint = of_tool(memory_manage, command, operation_id, version=MEMORY_VERSION)
    return route(TAG, f"memories/<id:record_id>/{command}/", post=endpoint)


LIST = Listing(
    "list_memories", _rows, _items, MemoryResponse, MemoryFilter, "memory_manage", "list", summary="List memories"
)
REMEMBER = Endpoint(
    "remember",
    _remember,
    "memory_manage",
    "remember",
    status_of=lambda body: 200 if body["existing"] else 201,
    statuses=(200, 201),
)
SUPERSEDE = Endpoint(
    "supersede_memory",
    _supersede,
    "memory_manage",
    "supersede",
    status=201,
    version=MEMORY_VERSION,
    about=lambda place, body: {"record_id": body["memory"]["id"]},  # the correction
)
ONE: dict[str, Any] = {
    "get": Endpoint("get_memory", _get, "memory_manage", "get", version=MEMORY_VERSION),
    "patch": Endpoint("update_memory", _revise, "memory_manage", "update", version=MEMORY_VERSION, needs_match=True),
    "delete": of_tool(memory_manage, "forget", "forget_memory", version=MEMORY_VERSION),
}

FACETS = Endpoint("count_memories", _facets, "memory_manage", "list")
UNDO = Endpoint("undo_change", _undo, "memory_manage", "update", version=MEMORY_VERSION)
REASSIGN = Endpoint("reassign_memory", _reassign, "memory_manage", "share", version=MEMORY_VERSION)
EXTEND = Endpoint("extend_memory", _extend, "memory_manage", "update", version=MEMORY_VERSION)
RESCOPE = Endpoint("rescope_memory", _rescope, "memory_manage", "update", version=MEMORY_VERSION)
HISTORY = of_tool(memory_manage, "history", "memory_history")
REPORTS = Endpoint("memory_reports", _reports, "memory_manage", "get")
CHAIN = Endpoint("memory_chain", _chain, "memory_manage", "get")

urlpatterns = [
    route(TAG, "memories/", get=LIST, post=REMEMBER),
    route(TAG, "memories/facets/", get=FACETS),
    route(TAG, "memories/briefing/", get=of_tool(memory_briefing, "", "memory_briefing")),
    route(TAG, "memories/recall/", post=of_tool(memory_recall, "", "recall")),
    route(TAG, "memories/reports/", post=of_tool(memory_feedback, "", "report_memories")),
    route(TAG, "memories/notes/", post=of_tool(memory_store, "", "store_note", status=201)),
    route(TAG, "memories/notes/prune/", post=of_tool(memory_prune, "", "prune_notes")),
    route(TAG, "memories/<id:record_id>/", **ONE),
    route(TAG, "memories/<id:record_id>/history/", get=HISTORY),
    route(TAG, "memories/<id:record_id>/chain/", get=CHAIN),
    route(TAG, "memories/<id:record_id>/reports/", get=REPORTS),
    route(TAG, "memories/<id:record_id>/supersede/", post=SUPERSEDE),
    route(TAG, "memories/<id:record_id>/waive/", post=of_tool(capture_insight, "waives", "waive_caveat")),
    route(TAG, "memories/<id:record_id>/reinstate/", post=of_tool(capture_insight, "reinstates", "reinstate_caveat")),
    _verb("restore"),
    _verb("verify"),
    _verb("settle"),
    _verb("feedback", "mark_memory"),
    _verb("share"),
    _verb("attach", "choose_attachment"),
    _verb("erase"),
    route(TAG, "memories/<id:record_id>/undo/", post=UNDO),
    route(TAG, "memories/<id:record_id>/reassign/", post=REASSIGN),
    route(TAG, "memories/<id:record_id>/extend/", post=EXTEND),
    route(TAG, "memories/<id:record_id>/rescope/", post=RESCOPE),
]

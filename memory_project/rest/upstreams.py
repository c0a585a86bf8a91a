"""Tools of upstream servers: operators list them and decide about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import django_filters
from django.db.models import QuerySet
from pydantic import Field
from typing_extensions import TypedDict

from foundation.operations.fields import Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memory_project.mcp.gateway import pins, tool_queue
from memory_project.mcp.gateway.models import PinDecision, PinnedTool, PinState
from memory_project.mcp.gateway.names import offered_name
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing

TAG = "administration"
ADMINISTRATION: dict[str, Any] = {"access": Access.ADMINISTRATION}
Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


class UpstreamToolResponse(TypedDict):
    id: int
    name: str
    upstream: str
    tool: str
    state: str
    flags: list[dict[str, str]]
    approved: dict[str, Any] | None
    offered: dict[str, Any]
    offered_hash: str
    changed_at: str


class DecisionResponse(TypedDict):
    id: int
    tool_id: int
    accepted: bool
    decided_by: str
    decided_at: str
    note: str
    state: str  # of the tool


class ToolFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=PinState.choices)
    upstream = django_filters.CharFilter()


class DecideTool(Operation):
    """Accept or refuse a tool of an upstream server"""

    tool_id: Id
    accepted: bool
    offered_hash: Annotated[str, Text(1, 64)] = Field(description="Of the tool as you have seen it.")
    note: Annotated[str, Text(0, 500)] = ""


class UndoDecision(Operation):
    """Undo the latest decision about a tool of an upstream server"""

    decision_id: Id


def _rows(caller: Caller) -> QuerySet[PinnedTool]:
    return tool_queue.rows(caller, state="all")


def _items(caller: Caller, rows: Sequence[PinnedTool]) -> list[UpstreamToolResponse]:
    return [response_of(UpstreamToolResponse, row, name=offered_name(row.upstream, row.tool)) for row in rows]


def _response(decision: PinDecision) -> DecisionResponse:
    return response_of(DecisionResponse, decision, tool_id=decision.pin_id, state=decision.pin.state)


def _decide(caller: Caller, operation: DecideTool) -> DecisionResponse:
    seen = operation.offered_hash
    note = operation.note
    return _response(pins.decide(caller, operation.tool_id, accepted=operation.accepted, seen_hash=seen, note=note))


def _undo(caller: Caller, operation: UndoDecision) -> DecisionResponse:
    return _response(pins.undo(caller, operation.decision_id))


TOOLS = Listing(
    "list_upstream_tools",
    _rows,
    _items,
    UpstreamToolResponse,
    ToolFilter,
    by="changed_at",
    summary="List the tools of upstream servers",
    **ADMINISTRATION,
)
urlpatterns = [
    route(TAG, "upstreams/tools/", get=TOOLS),
    route(
        TAG, "upstreams/tools/<int:tool_id>/decide/", post=Endpoint("decide_upstream_tool", _decide, **ADMINISTRATION)
    ),
    route(
        TAG, "upstreams/decisions/<int:decision_id>/undo/", post=Endpoint("undo_tool_decision", _undo, **ADMINISTRATION)
    ),
]

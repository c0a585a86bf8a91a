"""Contradictions that wait for a verdict, verdicts, and their undo."""

from __future__ import annotations

from collections.abc import Sequence

from typing_extensions import TypedDict

from foundation.operations.errors import NotFound
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from knowledge.contradictions import queries, verdicts
from knowledge.contradictions.operations import GiveVerdict, ShowContradiction, UndoSettlement
from knowledge.models import Contradiction, Settlement
from memories.responses import MemoryResponse, memory_responses
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing

TAG = "contradictions"


class SettlementResponse(TypedDict):
    id: str
    first_id: str
    second_id: str | None
    entity_urn: str
    column: str
    verdict: str
    state: str
    by: str
    at: str
    note: str
    first_scope: str
    second_scope: str
    undone_at: str | None


class ContradictionResponse(TypedDict):
    """Two texts that contradict each other: a memory, and another one or what the catalog says in `text`."""

    id: str
    reason: str
    found_at: str
    first: MemoryResponse
    second: MemoryResponse | None
    entity_urn: str
    column: str
    text: str
    verdicts: list[SettlementResponse]


class SettledResponse(TypedDict):
    settlement: SettlementResponse


def _settlement(row: Settlement) -> SettlementResponse:
    return response_of(SettlementResponse, row, entity_urn=row.urn)


def _items(caller: Caller, rows: Sequence[Contradiction]) -> list[ContradictionResponse]:
    found = queries.shown_pairs(rows)
    records = {memory.pk: memory for case in found for memory in (case.pair.first, case.pair.second) if memory}
    shown = dict(zip(records, memory_responses(list(records.values())), strict=True))
    return [
        {
            "id": case.pair.pk.hex,
            "reason": case.pair.reason,
            "found_at": case.pair.found_at.isoformat(),
            "first": shown[case.pair.first_id],
            "second": shown[case.pair.second_id] if case.pair.second_id else None,
            "entity_urn": case.pair.urn,
            "column": case.pair.column,
            "text": case.text,
            "verdicts": [_settlement(row) for row in case.verdicts],
        }
        for case in found
    ]


def _show(caller: Caller, operation: ShowContradiction) -> ContradictionResponse:
    items = _items(caller, [queries.contradiction(caller, operation.contradiction_id)])
    if not items:
        raise NotFound("no such contradiction", field="contradiction_id")
    return items[0]


def _settle(caller: Caller, operation: GiveVerdict) -> SettledResponse:
    return {"settlement": _settlement(verdicts.give_verdict(caller, operation))}


def _undo(caller: Caller, operation: UndoSettlement) -> SettledResponse:
    return {"settlement": _settlement(verdicts.undo(caller, operation))}


LIST = Listing(
    "list_contradictions",
    queries.contradictions,
    _items,
    ContradictionResponse,
    tool="memory_manage",
    command="list",
    by="found_at",
    summary="List contradictions that wait for a verdict",
)
SETTLEMENTS = Listing(
    "list_settlements",
    queries.settlements,
    lambda caller, rows: [_settlement(row) for row in rows],
    SettlementResponse,
    tool="memory_manage",
    command="list",
    by="at",
    summary="List your verdicts",
)
ONE = "contradictions/<id:contradiction_id>/"
# A verdict changes memories as these commands do, so a persona that may not use them may not settle either.
SETTLE = Endpoint("settle_contradiction", _settle, "memory_manage", "update")
UNDO = Endpoint("undo_settlement", _undo, "memory_manage", "update")

urlpatterns = [
    route(TAG, "contradictions/", get=LIST),
    route(TAG, ONE, get=Endpoint("show_contradiction", _show, "memory_manage", "get")),
    route(TAG, f"{ONE}settle/", post=SETTLE),
    route(TAG, "settlements/", get=SETTLEMENTS),
    route(TAG, "settlements/<id:settlement_id>/undo/", post=UNDO),
]

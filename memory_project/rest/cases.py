"""Cases: everything that waits for the caller's decision, the verdicts on it, and their undo."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from django.conf import settings
from django.urls import reverse
from pydantic import Field
from typing_extensions import TypedDict

from foundation.cases import decisions, kinds, pages
from foundation.cases.decisions import DecideCases, UndoVerdicts
from foundation.cases.kinds import Case, CaseKind
from foundation.operations.errors import Invalid
from foundation.operations.fields import Text
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import MAX_SIZE

TAG = "cases"


class ListCases(Operation):
    """List what waits for your decision, the newest first"""

    kind: Annotated[str, Text(0, 40)] = Field("", description="Cases of this kind alone.")
    cursor: Annotated[str, Text(0, 200)] = Field(
        "", description="Where the page begins; `next` of the page before has it."
    )
    limit: Annotated[int, Field(ge=1, le=MAX_SIZE)] = Field(20, description="How many items.")


class ListCaseKinds(Operation):
    """List the kinds of cases that you can have, and their verdicts"""


class VerdictResponse(TypedDict):
    """A verdict that can be given. `takes` names what `given` may hold."""

    name: str
    label: str
    takes: list[str]
    takes_many: bool


class CaseKindResponse(TypedDict):
    kind: str
    title: str
    verdicts: list[VerdictResponse]


class CaseResponse(TypedDict):
    """`verdicts` are those that you may give.

    With `seen`, a verdict is refused if something has changed since. It is empty if nothing about the case can change.
    """

    kind: str
    id: str
    text: str
    since: str
    verdicts: list[str]
    seen: str


class CasePageResponse(TypedDict):
    items: list[CaseResponse]
    next: str | None


class CaseKindsResponse(TypedDict):
    kinds: list[CaseKindResponse]


class DecidedCaseResponse(TypedDict):
    """`undo` names the verdict for the undo. It is empty if it can't be undone."""

    id: str
    message: str
    undo: str
    memory_id: str


class RefusedCaseResponse(TypedDict):
    id: str
    error: str


class DecidedCasesResponse(TypedDict):
    decided: list[DecidedCaseResponse]
    refused: list[RefusedCaseResponse]


class UndoneResponse(TypedDict):
    undone: int


def _list(caller: Caller, operation: ListCases) -> CasePageResponse:
    if operation.kind:
        wanted = [kinds.kind_named(caller, operation.kind)]
    else:
        wanted = [kind for kind in kinds.kinds_for(caller) if kind.is_counted]
    try:
        found = pages.page(caller, wanted, operation.cursor, size=operation.limit)
    except Invalid as error:  # pages of other channels call it `after`
        raise Invalid(error.fault, field="cursor", allowed=error.allowed) from None
    query = {"kind": operation.kind, "limit": operation.limit, "cursor": found.after}
    address = f"{settings.COMMONPLACE_URL}{reverse('api-cases')}?{urlencode({k: v for k, v in query.items() if v})}"
    return {"items": [_case(case) for case in found.cases], "next": address if found.after else None}


def _kinds(caller: Caller, operation: ListCaseKinds) -> CaseKindsResponse:
    return {"kinds": [_kind(kind) for kind in kinds.kinds_for(caller)]}


def _kind(kind: CaseKind) -> CaseKindResponse:
    verdicts: list[VerdictResponse] = [
        {
            "name": verdict.name,
            "label": str(verdict.label),
            "takes": list(verdict.fields),
            "takes_many": verdict.takes_many,
        }
        for verdict in kind.verdicts
    ]
    return {"kind": kind.name, "title": str(kind.title), "verdicts": verdicts}


def _case(case: Case) -> CaseResponse:
    return {
        "kind": case.kind.name,
        "id": case.id,
        "text": case.text,
        "since": case.since.isoformat(),
        "verdicts": list(case.allowed),
        "seen": case.seen,
    }


def _decide(caller: Caller, operation: DecideCases) -> DecidedCasesResponse:
    verdict = kinds.kind_named(caller, operation.kind).verdict(operation.verdict)
    decisions.require_tool(caller, verdict.tool, verdict.command)
    outcome = decisions.decide(caller, operation)
    return {
        "decided": [
            {"id": pk, "message": one.message, "undo": one.undo_token, "memory_id": one.memory_id}
            for pk, one in outcome.decided.items()
        ],
        "refused": [{"id": pk, "error": error.message} for pk, error in outcome.refused.items()],
    }


def _undo(caller: Caller, operation: UndoVerdicts) -> UndoneResponse:
    kind = kinds.kind_named(caller, operation.kind)
    decisions.require_tool(caller, kind.undo_tool, kind.undo_command)
    decisions.undo(caller, operation)
    return {"undone": len(operation.undo)}


urlpatterns = [
    route(TAG, "cases/", get=Endpoint("list_cases", _list)),
    route(TAG, "cases/kinds/", get=Endpoint("list_case_kinds", _kinds)),
    route(TAG, "cases/decide/", post=Endpoint("decide_cases", _decide)),
    route(TAG, "cases/undo/", post=Endpoint("undo_cases", _undo)),
]

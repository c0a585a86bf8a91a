"""Imports: upload a file, look at its rows, choose, take over, undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, cast

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from pydantic import Field
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import TypedDict

from foundation.operations.errors import Invalid
from foundation.operations.fields import Id, OneOf, Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memories.operations import VisibilityName
from memory_project.exchange.imports import jobs, report, staging, taking_over
from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.models import Import, ImportState, RowOutcome
from memory_project.rest.access import Access, caller_for_tool
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.idempotency import answer_once
from memory_project.rest.lists import Listing, each
from memory_project.rest.schema import ERRORS, HEADERS, responses

TAG = "imports"


class OutcomeResponse(TypedDict):
    outcome: str
    rows: int
    chosen: int


class ImportResponse(TypedDict):
    id: str
    file_name: str
    format: str
    state: str
    rows_read: int
    error: str
    created_at: str
    finished_at: str | None


class ImportReportResponse(ImportResponse):
    outcomes: list[OutcomeResponse]


class ImportRowResponse(TypedDict):
    number: int
    place: str
    kind: str
    outcome: str
    reason: str
    chosen: bool
    text: str
    existing: str | None
    reference: str


class ImportRowsResponse(TypedDict):
    """`next` is the number after which the next page begins, null on the last page."""

    rows: list[ImportRowResponse]
    next: int | None


class ChosenResponse(TypedDict):
    rows: int


class ImportFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=ImportState.choices)
    format = django_filters.CharFilter()


class ShowImport(Operation):
    """Show an import with its rows by outcome"""

    import_id: Id


class ListRows(ShowImport):
    """List rows of an import"""

    outcome: Annotated[str, OneOf(RowOutcome.values)] | None = None
    query: Annotated[str, Text(0, 200)] = Field("", description="Words of the row.")
    after: Annotated[int, Field(ge=0, le=2_000_000_000)] = Field(0, description="`next` of the page before.")


class ChooseRows(ShowImport):
    """Choose rows for taking over, or leave them out"""

    chosen: bool
    numbers: Annotated[list[Annotated[int, Field(ge=1, le=2_000_000_000)]], Field(max_length=1_000)] = Field(
        [], description="Only these rows; all that fit `outcome` and `query` if not given."
    )
    outcome: Annotated[str, OneOf([str(value) for value in report.CHOOSABLE])] | None = None
    query: Annotated[str, Text(0, 200)] = ""


class TakeOver(ShowImport):
    """Let the chosen rows become memories of yours, in the background"""

    visibility: VisibilityName | None = Field(None, description="Of rows that name none; private if not given.")
    applies_to_all: bool = Field(False, description="Whether the visibility holds for all rows.")


class UndoImport(ShowImport):
    """Take back what an import has stored, in the background"""


class CancelImport(ShowImport):
    """Stop an import for good; what it has stored so far stays"""


def _response(staged: Import) -> ImportResponse:
    return response_of(ImportResponse, staged)


def _rows(caller: Caller) -> QuerySet[Import]:
    return Import.objects.filter(created_by=caller.email)


def _show(caller: Caller, operation: ShowImport) -> ImportReportResponse:
    staged = staging.get(caller, operation.import_id)
    outcomes = [
        OutcomeResponse(outcome=count.outcome, rows=count.rows, chosen=count.chosen) for count in report.counts(staged)
    ]
    return {**_response(staged), "outcomes": outcomes}


def _list_rows(caller: Caller, operation: ListRows) -> ImportRowsResponse:
    staged = staging.get(caller, operation.import_id)
    rows, following = report.page(report.rows_of(staged, operation.outcome or "", operation.query), operation.after)
    shown = [
        ImportRowResponse(
            number=row.number,
            place=row.place,
            kind=row.kind,
            outcome=row.outcome,
            reason=row.reason,
            chosen=row.is_chosen,
            text=row.text,
            existing=row.existing.hex if row.existing else None,
            reference=row.reference,
        )
        for row in rows
    ]
    return {"rows": shown, "next": following or None}


def _choose(caller: Caller, operation: ChooseRows) -> ChosenResponse:
    count = report.choose_rows(
        caller,
        import_id=operation.import_id,
        chosen=operation.chosen,
        outcome=operation.outcome or "",
        text=operation.query,
        numbers=operation.numbers,
    )
    return {"rows": count}


def _take_over(caller: Caller, operation: TakeOver) -> ImportResponse:
    staged = taking_over.start(
        caller,
        import_id=operation.import_id,
        visibility=operation.visibility or "",
        applies_to_all=operation.applies_to_all,
    )
    jobs.queue(staged)
    return _response(staged)


def _undo(caller: Caller, operation: UndoImport) -> ImportResponse:
    staged = taking_over.start_undo(caller, import_id=operation.import_id)
    jobs.queue(staged)
    return _response(staged)


def _cancel(caller: Caller, operation: CancelImport) -> ImportResponse:
    return _response(taking_over.cancel(caller, import_id=operation.import_id))


@dataclass(frozen=True)
class Upload:
    """POST of a file as multipart/form-data."""

    access: Access = Access.TOKEN

    def method(self, tag: str) -> Callable[..., Response]:
        body = {
            "type": "object",
            "properties": {
                "file": {"type": "string", "format": "binary"},
                "format": {"type": "string", "enum": ["", *FORMATS], "description": "Recognized if not given."},
            },
            "required": ["file"],
        }

        def method(view: APIView, request: Request) -> Response:
            caller = caller_for_tool(request, "memory_manage", "remember")
            return answer_once(request, caller, lambda: _upload(caller, request))

        decorate = extend_schema(
            operation_id="upload_import",
            summary="Upload a file; it is parsed in the background",
            description="",
            tags=[tag],
            parameters=[HEADERS["key"]],
            request={"multipart/form-data": body},
            responses=responses(ImportResponse, (202,), ERRORS),
        )
        decorated: Callable[..., Response] = decorate(method)
        return decorated


def _upload(caller: Caller, request: Request) -> Response:
    file = request.FILES.get("file")
    if file is None or file.name is None:
        raise Invalid("is missing", field="file", allowed="a file as multipart/form-data")
    staged = staging.start(
        caller, file=cast(BinaryIO, file.file), name=file.name, format=request.POST.get("format", "")
    )
    jobs.queue(staged)
    return Response(_response(staged), status=202)


def _endpoint(operation_id: str, perform: Any, **options: Any) -> Endpoint:
    return Endpoint(operation_id, perform, "memory_manage", "remember", **options)


LIST = Listing(
    "list_imports",
    _rows,
    each(_response),
    ImportResponse,
    ImportFilter,
    "memory_manage",
    "remember",
    summary="List your imports",
)
ONE = "imports/<id:import_id>/"

urlpatterns = [
    route(TAG, "imports/", parsers=[MultiPartParser], get=LIST, post=Upload()),
    route(TAG, ONE, get=_endpoint("show_import", _show)),
    route(
        TAG,
        f"{ONE}rows/",
        get=_endpoint("list_import_rows", _list_rows),
        post=_endpoint("choose_import_rows", _choose),
    ),
    route(TAG, f"{ONE}take-over/", post=_endpoint("take_over_import", _take_over, status=202)),
    route(TAG, f"{ONE}cancel/", post=_endpoint("cancel_import", _cancel)),
    route(TAG, f"{ONE}undo/", post=_endpoint("undo_import", _undo, status=202)),
]

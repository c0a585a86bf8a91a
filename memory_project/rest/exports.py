"""Exports: start one, follow it, and download the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any
from uuid import UUID

import django_filters
from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from pydantic import Field
from rest_framework.request import Request
from rest_framework.views import APIView
from typing_extensions import TypedDict

from foundation.downloads.streaming import streamed
from foundation.operations.fields import Id, OneOf, Text
from foundation.operations.operation import Operation
from foundation.operations.responses import response_of
from foundation.people.caller import Caller
from memory_project.exchange.exports import services
from memory_project.exchange.exports.formats import FORMATS, export_format
from memory_project.exchange.exports.models import Export, ExportState
from memory_project.exchange.exports.stream import INSTALLATION, PERSON, PERSONA
from memory_project.rest.access import Access, caller_for_tool
from memory_project.rest.endpoints import Endpoint, route
from memory_project.rest.lists import Listing, each
from memory_project.rest.schema import ERRORS, problems

TAG = "exports"
BLOCK = 64 * 1024  # bytes that are read at a time
PERMISSION = ("memory_manage", "list")


class ExportResponse(TypedDict):
    id: str
    scope: str
    persona: str
    format: str
    state: str
    rows_done: int
    rows_total: int | None
    size: int | None
    error: str
    created_at: str
    expires_at: str


class DeletedResponse(TypedDict):
    deleted: bool


class ExportFilter(django_filters.FilterSet):
    state = django_filters.ChoiceFilter(choices=ExportState.choices)


class StartExport(Operation):
    """Export memories and what belongs to them, in the background"""

    scope: Annotated[str, OneOf((PERSON, PERSONA, INSTALLATION))] = Field(
        PERSON, description="What is yours; what is shared with a persona that you curate; or, for admins, everything."
    )
    persona: Annotated[str, Text(0, 60)] = Field("", description="For the scope persona.")
    format: Annotated[str, OneOf(tuple(FORMATS))] = "zip"


class ShowExport(Operation):
    """Show the progress of an export"""

    export_id: Id


class DeleteExport(ShowExport):
    """Delete an export with its file"""


def _response(export: Export) -> ExportResponse:
    return response_of(ExportResponse, export)


def _rows(caller: Caller) -> QuerySet[Export]:
    return services.exports_of(caller)


def _start(caller: Caller, operation: StartExport) -> ExportResponse:
    return _response(services.start_export(caller, **operation.values()))


def _show(caller: Caller, operation: ShowExport) -> ExportResponse:
    return _response(services.get_export(caller, export_id=operation.export_id))


def _delete(caller: Caller, operation: DeleteExport) -> DeletedResponse:
    services.delete_export(caller, export_id=operation.export_id)
    return {"deleted": True}


@dataclass(frozen=True)
class ExportDownload:
    """GET of the file of a finished export."""

    access: Access = Access.TOKEN

    def method(self, tag: str) -> Callable[..., Any]:
        def method(view: APIView, request: Request, export_id: UUID) -> HttpResponseBase:
            caller = caller_for_tool(request, *PERMISSION)
            export, file = services.open_export(caller, export_id=export_id)
            format = export_format(export.format)
            blocks = iter(partial(file.read, BLOCK), b"")
            name = f"commonplace-{export.persona or export.scope}.{format.extension}"
            return streamed(request._request, caller, blocks, file_name=name, media_type=format.media_type)

        decorate = extend_schema(
            operation_id="download_export",
            summary="Download the file of an export",
            description="",
            tags=[tag],
            responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)} | problems(ERRORS),
        )
        decorated: Callable[..., Any] = decorate(method)
        return decorated


LIST = Listing(
    "list_exports", _rows, each(_response), ExportResponse, ExportFilter, *PERMISSION, summary="List exports"
)
ONE = "exports/<id:export_id>/"

urlpatterns = [
    route(TAG, "exports/", get=LIST, post=Endpoint("start_export", _start, *PERMISSION, status=202)),
    route(
        TAG,
        ONE,
        get=Endpoint("show_export", _show, *PERMISSION),
        delete=Endpoint("delete_export", _delete, *PERMISSION),
    ),
    route(TAG, f"{ONE}file/", get=ExportDownload()),
]

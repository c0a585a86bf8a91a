"""Endpoints: a method of a path that performs one declared operation, mostly that of an MCP tool.

Operation and response are declared once, beside the service that performs them. An endpoint adds the transport: path,
status, version of the object, and which tool's permission applies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from django.urls import URLPattern, path
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from foundation.operations import schemas
from foundation.operations.errors import Invalid, NotFound
from foundation.operations.operation import Operation
from foundation.people.caller import Caller
from foundation.tools.declaration import Handler, Tool, ToolResponse, longest_list, signature_of, with_note
from memory_project.operating.replica.reading import reading_post
from memory_project.rest import sparse_fields, throttle
from memory_project.rest.access import Access, caller_for_tool
from memory_project.rest.browsable import PageRenderer
from memory_project.rest.idempotency import answer_once
from memory_project.rest.schema import (
    ERRORS,
    HEADERS,
    VERSION_ERRORS,
    query_parameters,
    request_body,
    response_headers,
    responses,
)
from memory_project.rest.versions import RowVersion, check_none_match, matching, of_body

READS_QUERY = ("GET", "HEAD", "DELETE")  # methods whose arguments are in the query string
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


@dataclass(frozen=True)
class Endpoint:
    """One HTTP method of a path. `perform` has the signature of an MCP tool's function."""

    operation_id: str
    perform: Handler
    tool: str = ""  # the MCP tool, and its command, whose permission applies
    command: str = ""
    status: int = 200
    status_of: Callable[[Any], int] | None = None  # returns the status of a response if it varies
    statuses: tuple[int, ...] = ()  # the possible results of `status_of`
    reads: bool = False  # whether a POST changes nothing
    is_secret: bool = False  # whether the answer contains a secret that is shown only once
    path: Mapping[str, str] = field(default_factory=dict)  # names of fields by the names of URL parameters
    fixed: Mapping[str, Any] = field(default_factory=dict)  # values that the method and the path stand for
    version: RowVersion | None = None
    about: Callable[[Mapping[str, Any], Any], Mapping[str, Any]] = lambda place, body: place  # that the version is of
    needs_match: bool = False  # whether a request has to name the version that the caller saw
    hidden: tuple[str, ...] = ()  # fields that the transport replaces
    check_permission: Callable[[Caller], None] | None = None  # raises Forbidden
    access: Access = Access.TOKEN
    is_available: Callable[[], bool] | None = None
    summary: str = ""

    @property
    def operation(self) -> type[Operation]:
        return signature_of(self.perform)[1]

    @property
    def response(self) -> Any:
        return signature_of(self.perform)[0]


def of_tool(tool: Tool, command: str, operation_id: str, **options: Any) -> Endpoint:
    """Return an endpoint that performs a command of an MCP tool."""
    reads = tool.hints.read_only or command in tool.reading
    values = {"reads": reads, "check_permission": tool.check_permission, **options}
    return Endpoint(operation_id, tool.choices[command], tool.name, command, **values)


class Method(Protocol):
    """An endpoint that makes its own method of a view."""

    access: Access

    def method(self, tag: str) -> Callable[..., Response]: ...


def route(tag: str, address: str, *, parsers: Sequence[type[BaseParser]] = (), **endpoints: Any) -> URLPattern:
    """Return the URL pattern of these endpoints, by HTTP method in lower case: an Endpoint, or another Method.

    Parameters of the address are fields of the operation, under the same name or as `Endpoint.path` says.
    """
    parameters = PARAMETER.findall(address)
    methods = {
        name: _described(endpoint, name, tag, parameters)(_method(endpoint))
        if isinstance(endpoint, Endpoint)
        else endpoint.method(tag)
        for name, endpoint in endpoints.items()
    }
    options = {"parser_classes": list(parsers)} if parsers else {}
    view = type("Resource", (EndpointView,), {**methods, **options, "endpoints": endpoints, "__doc__": None})
    name = re.sub(r"\W+", "-", PARAMETER.sub("one", address)).strip("-") or tag
    return path(address, view.as_view(), name=f"api-{name}")  # type: ignore[attr-defined]


def _described(endpoint: Endpoint, method: str, tag: str, in_path: Sequence[str]) -> Callable[[Any], Any]:
    operation = endpoint.operation
    known = {endpoint.path.get(name, name) for name in in_path} | {*endpoint.fixed, *endpoint.hidden}
    reads_query = method in ("get", "delete")
    parameters = query_parameters(operation, known) if reads_query else []
    parameters.append(HEADERS["fields"])
    if endpoint.version:
        header = "must_match" if endpoint.needs_match else "match"
        if method == "get":
            header = "none"
        parameters.append(HEADERS[header])
    if method == "post" and not endpoint.reads:
        parameters.append(HEADERS["key"])
    statuses = endpoint.statuses or (endpoint.status,)
    parameters += response_headers(
        statuses, is_versioned=endpoint.version is not None, is_repeatable=method == "post" and not endpoint.reads
    )
    is_versioned_change = endpoint.version is not None and method != "get"
    return extend_schema(
        operation_id=endpoint.operation_id,
        summary=endpoint.summary or operation.short_description(),
        description="",
        tags=[tag],
        parameters=parameters,
        request=None if reads_query else request_body(operation, known),
        responses=responses(
            endpoint.response,
            statuses,
            ERRORS | (VERSION_ERRORS if is_versioned_change else {}),
            may_be_unchanged=endpoint.version is not None and method == "get",
        ),
    )


class EndpointView(APIView):
    renderer_classes = [JSONRenderer, PageRenderer]  # the first one is for clients that accept anything
    endpoints: Mapping[str, Endpoint | Method]

    def changes(self, method: str) -> bool:
        """Return whether a request with this HTTP method counts as a write."""
        endpoint = self.endpoints.get(method.lower())
        return endpoint is not None and method != "GET" and not getattr(endpoint, "reads", False)

    def finalize_response(self, request: Request, response: Response, *args: Any, **kwargs: Any) -> Response:
        for name, value in throttle.headers(getattr(self, "windows", ())).items():
            response[name] = value
        final: Response = super().finalize_response(request, response, *args, **kwargs)
        return final


def _method(endpoint: Endpoint) -> Callable[..., Response]:
    def method(self: APIView, request: Request, **place: Any) -> Response:
        caller = caller_for_tool(request, endpoint.tool, endpoint.command, endpoint.access)
        if endpoint.check_permission is not None:
            endpoint.check_permission(caller)
        if endpoint.is_available is not None and not endpoint.is_available():
            raise NotFound("this part of the product is switched off")

        def perform() -> Response:
            return _perform(endpoint, caller, request, place)

        if request.method == "POST" and endpoint.reads:
            with reading_post(request):
                return perform()
        if request.method != "POST":
            return perform()
        return answer_once(request, caller, perform, is_secret=endpoint.is_secret)

    return method


def _perform(endpoint: Endpoint, caller: Caller, request: Request, place: Mapping[str, Any]) -> Response:
    selection = sparse_fields.selection(request, endpoint.response)
    operation = read_operation(endpoint, request, place)
    headers: dict[str, str] = {}
    reads = request.method in ("GET", "HEAD")
    # read before the body: of two changes, the earlier version makes a later If-Match fail, and not succeed unseen
    version = endpoint.version.etag(caller, place) if endpoint.version and reads else ""
    with matching(endpoint.version, caller, request, place, is_required=endpoint.needs_match):
        answer = endpoint.perform(caller, operation)
        given = _data(type(operation), request)
        answer = with_note(answer, operation.lowered(given, longest_list(answer)))
    is_unsigned = isinstance(answer, ToolResponse) and answer.unsigned
    body = answer.data if isinstance(answer, ToolResponse) else answer
    if endpoint.version and not reads:
        headers |= endpoint.version.etag_after(caller, endpoint.about(place, body))
    status = endpoint.status_of(body) if endpoint.status_of else endpoint.status
    shown = sparse_fields.apply(selection, body) if body is not None else None
    if version:
        headers["ETag"] = of_body(version, shown)
        if check_none_match(request, headers["ETag"]):
            return Response(status=304, headers=headers)
    response = Response(shown, status, headers=headers)
    response.unsigned = is_unsigned  # type: ignore[attr-defined]  # the audit log must not name the caller
    return response


def read_operation(endpoint: Endpoint, request: Request, place: Mapping[str, Any]) -> Operation:
    """Read the operation from the query string of a GET or DELETE request, or from the JSON body, and from the path."""
    operation = endpoint.operation
    reads_query = request.method in READS_QUERY
    data = _data(operation, request)
    if not isinstance(data, dict):
        raise Invalid("the body is not a JSON object")
    in_path = {endpoint.path.get(name, name): value for name, value in place.items()}
    stated = {**in_path, **endpoint.fixed}
    if not reads_query:
        _reject_query(request)
    if given := [name for name in data if name in stated or name in endpoint.hidden]:
        allowed = "only in the path" if given[0] in in_path else "not here"
        raise Invalid("is unknown", field=str(given[0])[:80], allowed=allowed)
    present = schemas.without_absent(data, operation.input_schema(by_alias=False), absent=(None,))
    values = {**present, **{name: _plain(value) for name, value in stated.items()}}
    return operation.read(values, by_alias=False, strict=not reads_query)


def _data(operation: type[Operation], request: Request) -> Any:
    return _from_query(operation, request) if request.method in READS_QUERY else request.data


def _plain(value: Any) -> Any:
    return value.hex if hasattr(value, "hex") and not isinstance(value, (bytes, float)) else value


def _from_query(operation: type[Operation], request: Request) -> dict[str, Any]:
    properties = operation.input_schema(by_alias=False).get("properties", {})
    values: dict[str, Any] = {}
    for name in request.query_params:
        if name != sparse_fields.FIELDS:
            is_list = properties.get(name, {}).get("type") == "array"
            values[name] = request.query_params.getlist(name) if is_list else _only(request, name)
    return values


def _only(request: Request, name: str) -> str:
    value, *more = request.query_params.getlist(name)
    if more:
        raise Invalid("is given more than once", field=name[:80], allowed="one value")
    return str(value)


def _reject_query(request: Request) -> None:
    if unknown := [name for name in request.query_params if name != sparse_fields.FIELDS]:
        raise Invalid("is unknown in the query string", field=unknown[0][:80], allowed="fields")

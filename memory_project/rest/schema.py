"""OpenAPI schemas, generated from operations and response types."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from pydantic import TypeAdapter

from foundation.operations import schemas
from foundation.operations.operation import Operation
from foundation.tools.declaration import shapes_of
from memory_project.web.problems import MEDIA_TYPE

PROBLEM: dict[str, Any] = {
    "title": "Problem",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "field": {"type": "string"},
        "allowed": {"type": "string"},
        "trace_id": {"type": "string", "description": "An operator finds the request by it in logs and traces."},
        "current": {"type": "object", "description": "The object's state now, if it has changed meanwhile (412)."},
    },
    "required": ["type", "title", "status", "detail", "code"],
}
ERRORS = {
    400: "invalid",
    401: "no valid token",
    403: "forbidden",
    404: "not_found",
    406: "only JSON is answered",
    409: "conflict",
    413: "limit: the body is too large",
    415: "only JSON is accepted",
    422: "limit",
    429: "limit: too many requests of this person are waiting, or the token's limit is reached; see Retry-After",
    502: "upstream",
    503: "degraded",
}
VERSION_ERRORS = {412: "conflict: the object has changed; `current` is its state now", 428: "If-Match is missing"}
HEADERS = {
    "fields": OpenApiParameter(
        "fields", str, description="Only these keys of the answer, or of each item: `id,content`."
    ),
    "key": OpenApiParameter(
        "Idempotency-Key",
        str,
        OpenApiParameter.HEADER,
        description="A text of your choice. A repetition with the same key within a day gets the same answer.",
    ),
    "must_match": OpenApiParameter(
        "If-Match", str, OpenApiParameter.HEADER, required=True, description="ETag of the version you saw, or *."
    ),
    "match": OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="ETag of the version you saw."),
    "none": OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER, description="ETag of what you have."),
}


def _response_header(name: str, description: str, statuses: Sequence[int]) -> OpenApiParameter:
    schema = {"type": "string"}
    return OpenApiParameter(name, schema, OpenApiParameter.HEADER, description=description, response=list(statuses))


def response_headers(
    statuses: Sequence[int], *, is_versioned: bool = False, is_list: bool = False, is_repeatable: bool = False
) -> list[OpenApiParameter]:
    """Return the headers of responses with these statuses, and those of errors."""
    found = [
        _response_header("Retry-After", "Seconds to wait.", [429]),
        _response_header("RateLimit", "What is left of each limit, if the token or the server has limits.", statuses),
        _response_header("RateLimit-Policy", "The limits, with their windows in seconds.", statuses),
    ]
    if is_versioned:
        found.append(_response_header("ETag", "The object's version.", [*statuses, 304, 412]))
    if is_list:
        found.append(_response_header("Link", 'The next page, with rel="next", if there is one.', statuses))
    if is_repeatable:
        found.append(
            _response_header("Idempotency-Replayed", "true if the answer is that of an earlier request.", statuses)
        )
    return found


def request_body(operation: type[Operation], excluded: set[str]) -> dict[str, Any]:
    """Return the schema of a JSON body without the fields that are not part of it."""
    schema = schemas.exact(operation.input_schema(by_alias=False))
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in excluded}
    required = [name for name in schema.get("required", []) if name not in excluded]
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"application/json": {**body, "required": required} if required else body}


def query_parameters(operation: type[Operation], excluded: set[str]) -> list[OpenApiParameter]:
    schema = operation.input_schema(by_alias=False)
    return [
        OpenApiParameter(
            name,
            schemas.exact({key: value[key] for key in value if key != "description"}),
            required=name in schema.get("required", []),
            description=value.get("description", ""),
        )
        for name, value in schema.get("properties", {}).items()
        if name not in excluded
    ]


def responses(
    response: Any, statuses: tuple[int, ...], errors: dict[int, str], *, may_be_unchanged: bool = False
) -> dict[Any, Any]:
    found: dict[Any, Any] = {status: response_schema(response) if status != 204 else None for status in statuses}
    if may_be_unchanged:
        found[304] = OpenApiResponse(None, "You have this version already.")
    return found | problems(errors)


def problems(errors: dict[int, str]) -> dict[Any, Any]:
    return {(status, MEDIA_TYPE): OpenApiResponse(PROBLEM, text) for status, text in errors.items()}


@functools.cache
def response_schema(response: Any) -> dict[str, Any]:
    """Return the schema of the responses in a return annotation, without references."""
    parts = [inline_references(TypeAdapter(kind).json_schema(mode="serialization")) for kind in shapes_of(response)]
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library's base registers it
    target_class = "memory_project.rest.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


def inline_references(schema: dict[str, Any]) -> dict[str, Any]:
    # a `$ref` to `$defs` would not resolve once the schema is part of the OpenAPI document
    definitions = schema.get("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, list):
            return [resolve(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return resolve(definitions[value["$ref"].rsplit("/", 1)[1]])
        # The title of an object is the name of its type. The titles of values repeat the names of keys.
        dropped = ("$defs",) if "properties" in value else ("$defs", "title")
        return {key: resolve(item) for key, item in value.items() if key not in dropped}

    return dict(resolve(schema))

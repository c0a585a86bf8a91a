"""OpenAPI schemas, generated from operations and response types."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from pydantic import TypeAdapter

from memories.contract import schemas
from memories.contract.operations import Operation

ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "code": {"type": "string"}},
    "required": ["error", "code"],
}
ERRORS = {
    400: "invalid",
    401: "no valid token",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    422: "limit",
    429: "limit: too many requests of this person are waiting, or the token's limit is reached; see Retry-After",
    502: "upstream",
    503: "degraded",
}


def request_body(operation: type[Operation], exclude: str = "") -> dict[str, Any]:
    """Return the schema of a JSON body without the field `exclude`, which is part of the URL."""
    schema = schemas.public(operation.input_schema(by_alias=False))
    properties = {name: value for name, value in schema["properties"].items() if name != exclude}
    required = [name for name in schema.get("required", []) if name != exclude]
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"application/json": {**body, "required": required} if required else body}


def query_parameters(operation: type[Operation]) -> list[OpenApiParameter]:
    schema = schemas.public(operation.input_schema(by_alias=False))
    return [
        OpenApiParameter(
            name, {key: value[key] for key in value if key != "description"}, description=value.get("description", "")
        )
        for name, value in schema["properties"].items()
    ]


def response_schemas(response: Any, *statuses: int) -> dict[int, Any]:
    """Return schemas by HTTP status: `response` for each of `statuses` (default: 200), and the error for ERRORS."""
    schema = inline_references(TypeAdapter(response).json_schema(mode="serialization"))
    errors = {status: OpenApiResponse(ERROR, description) for status, description in ERRORS.items()}
    return {**dict.fromkeys(statuses or (200,), schema), **errors}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library's base registers it
    target_class = "memory_project.accounts.tokens.BearerAuthentication"
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
        return {key: resolve(item) for key, item in value.items() if key not in ("$defs", "title")}

    return dict(resolve(schema))

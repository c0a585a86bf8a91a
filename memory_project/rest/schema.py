"""OpenAPI from operations and shapes."""

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
FAULTS = {400: "invalid", 401: "no valid token", 403: "forbidden", 404: "not_found", 409: "conflict", 503: "degraded"}


def body_of(operation: type[Operation], besides: str = "") -> dict[str, Any]:
    """A request's body; `besides` is the field that the address names."""
    schema = schemas.public(operation.input_schema(by_alias=False))
    properties = {name: value for name, value in schema["properties"].items() if name != besides}
    required = [name for name in schema.get("required", []) if name != besides]
    body = {"type": "object", "properties": properties, "additionalProperties": False}
    return {"application/json": {**body, "required": required} if required else body}


def query_of(operation: type[Operation]) -> list[OpenApiParameter]:
    """The parameters of a query string, by the names that the REST API gives them."""
    schema = schemas.public(operation.input_schema(by_alias=False))
    return [
        OpenApiParameter(
            name, {key: value[key] for key in value if key != "description"}, description=value.get("description", "")
        )
        for name, value in schema["properties"].items()
    ]


def answers(shape: Any, *statuses: int) -> dict[int, Any]:
    """The shape as a tool advertises it, with every error beside it."""
    schema = inlined(TypeAdapter(shape).json_schema(mode="serialization"))
    faults = {status: OpenApiResponse(ERROR, says) for status, says in FAULTS.items()}
    return {**dict.fromkeys(statuses or (200,), schema), **faults}


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # the library's base registers it
    """A token of the Connect page."""

    target_class = "memory_project.accounts.tokens.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer"}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Without references: a response stands by itself."""
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

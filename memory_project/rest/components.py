"""Shared parts of the OpenAPI document, so that each schema and each error response is written once."""

from __future__ import annotations

from typing import Any

from memory_project.web.problems import MEDIA_TYPE


def share(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Move schemas with a title and error responses to the components. A hook of drf-spectacular."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    responses = result["components"].setdefault("responses", {})
    result["paths"] = _hoisted(result["paths"], schemas)
    for methods in result["paths"].values():
        for operation in methods.values():
            found = operation["responses"]
            for status in [status for status, response in found.items() if MEDIA_TYPE in response.get("content", {})]:
                found[status] = {
                    "$ref": f"#/components/responses/{_kept(responses, f'Problem{status}', found[status])}"
                }
    return result


def _hoisted(value: Any, schemas: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_hoisted(item, schemas) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _hoisted(item, schemas) for key, item in value.items()}
    title = inner.get("title")
    if not isinstance(title, str) or not isinstance(inner.get("properties"), dict):
        return inner
    return {"$ref": f"#/components/schemas/{_kept(schemas, title.removesuffix('Response') or title, inner)}"}


def _kept(components: dict[str, Any], name: str, part: dict[str, Any]) -> str:
    """Return the name under which the part is kept: `name`, or with a number if this is the name of another part."""
    names = (name if number == 1 else f"{name}{number}" for number in range(1, len(components) + 2))
    return next(free for free in names if components.setdefault(free, part) == part)

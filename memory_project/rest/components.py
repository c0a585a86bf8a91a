"""Shared parts of the OpenAPI document, so that each schema and each error response is written once."""

from __future__ import annotations

import itertools
from typing import Any

from memory_project.web.problems import MEDIA_TYPE


def share(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Move schemas with a title and error responses to the components. A hook of drf-spectacular."""
    schemas = result.setdefault("components", {}).setdefault("schemas", {})
    responses = result["components"].setdefault("responses", {})
    for methods in result["paths"].values():
        for method, described in methods.items():
            operation = methods[method] = _hoisted(described, schemas, described["tags"][0])
            found = operation["responses"]
            for status in [status for status, response in found.items() if MEDIA_TYPE in response.get("content", {})]:
                found[status] = {
                    "$ref": f"#/components/responses/{_kept(responses, f'Problem{status}', found[status])}"
                }
    return result


def _hoisted(value: Any, schemas: dict[str, Any], tag: str) -> Any:
    if isinstance(value, list):
        return [_hoisted(item, schemas, tag) for item in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _hoisted(item, schemas, tag) for key, item in value.items()}
    title = inner.get("title")
    if not isinstance(title, str) or not isinstance(inner.get("properties"), dict):
        return inner
    name = title.removesuffix("Response") or title
    return {"$ref": f"#/components/schemas/{_kept(schemas, name, inner, f'{tag.title()}{name}')}"}


def _kept(components: dict[str, Any], name: str, part: dict[str, Any], other_name: str = "") -> str:
    """Return the name under which the part is kept: the first one that no other part has."""
    numbered = (f"{other_name or name}{number}" for number in range(2, len(components) + 3))
    names = itertools.chain(filter(None, (name, other_name)), numbered)
    return next(free for free in names if components.setdefault(free, part) == part)

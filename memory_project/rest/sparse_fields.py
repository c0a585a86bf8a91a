"""The query parameter `fields`, which reduces an answer to some of its keys: `?fields=id,content`.

The keys are those of each item of a list, or of the answer itself. `memory.id` names a key of a nested object or list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from foundation.operations.errors import Invalid
from memory_project.rest.schema import response_schema

Selection = dict[str, Any]  # key → selection of its own keys, empty for all of them
FIELDS = "fields"  # the query parameter
MAX_FIELDS = 50


def selection(request: Request, response: Any) -> Selection:
    """Return the selected keys, or {} for all. Raises Invalid for a key that the answer never has."""
    text = ",".join(request.query_params.getlist(FIELDS))
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        return {}
    if len(names) > MAX_FIELDS:
        raise Invalid(f"has {len(names)} entries", field="fields", allowed=f"at most {MAX_FIELDS}")
    schema = response_schema(response)
    chosen = Selection()
    for name in names:
        _check(name, schema)
        place = chosen
        for key in name.split("."):
            place = place.setdefault(key, {})
    return chosen


def _check(name: str, schema: Mapping[str, Any]) -> None:
    part: Mapping[str, Any] = schema
    for key in name.split("."):
        options = _properties(part)
        if options is None:  # any keys are possible here
            return
        if key not in options:
            raise Invalid(f"{name[:80]!r} is unknown", field="fields", allowed=", ".join(options))
        part = options[key]


def _properties(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    kinds = [schema, *schema.get("anyOf", [])]
    found = [kind["properties"] for kind in kinds if "properties" in kind]
    found += [nested for kind in kinds if "items" in kind and (nested := _properties(kind["items"]))]
    return {name: value for properties in found for name, value in properties.items()} if found else None


def apply(chosen: Selection, value: Any) -> Any:
    if not chosen:
        return value
    if isinstance(value, Mapping):
        return {key: apply(chosen[key], item) for key, item in value.items() if key in chosen}
    return [apply(chosen, item) for item in value] if isinstance(value, list) else value

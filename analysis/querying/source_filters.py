"""Validation of ingest filters against the model's declaration, before a request is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analysis.sources.declaration import Filter, Resource
from foundation.operations.errors import Invalid
from foundation.operations.fields import UNSTORABLE, Moment
from foundation.operations.operation import validate


def checked_filters(resource: Resource, model: str, filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters with validated values. Undeclared filters are rejected, not ignored."""
    if not isinstance(filters, Mapping):
        raise Invalid("is not an object", field="filters", allowed='{"name": value}')
    if filters and not resource.filters:
        raise Invalid(f"{model} does not support search filters", field="filters")
    if unknown := [name for name in filters if name not in resource.filters]:
        raise Invalid(
            f"Unknown filter(s) for {model}: {', '.join(unknown)[:200]}",
            field="filters",
            allowed=", ".join(resource.filters),
        )
    for name, value in filters.items():
        if value in ([], None, "", {}):
            raise Invalid("is empty", field=f"filters.{name}", allowed="a value; leave the filter out for all records")
    return {name: _value(resource, name, resource.filters[name], value) for name, value in filters.items()}


def _value(resource: Resource, name: str, declared: Filter, value: Any) -> Any:
    path = f"filters.{name}"
    match declared.type:
        case "enum":
            return _enum(resource, name, declared, value)
        case "date_range" | "integer_range":
            return _range(declared.type, path, value)
        case "integer":
            return _number(path, value)
        case "boolean":
            if not isinstance(value, bool):
                raise Invalid(f"{value!r} is neither true nor false", field=path)
            return value
        case _:
            values = value if isinstance(value, list) else [value]
            for item in values:
                if not isinstance(item, str | int | float) or UNSTORABLE.search(str(item)) or len(str(item)) > 500:
                    raise Invalid(
                        f"{str(item)[:60]!r} is not a valid value",
                        field=path,
                        allowed="a text of at most 500 characters, or a list",
                    )
            return value


def _enum(resource: Resource, name: str, declared: Filter, value: Any) -> Any:
    path = f"filters.{name}"
    parts = value.split(",") if isinstance(value, str) and "," in value else value
    values = [str(part).strip() for part in (parts if isinstance(parts, list) else [parts])]
    for choice in values:
        if choice not in declared.values:
            other = next((n for n, f in resource.filters.items() if f.type == "enum" and choice in f.values), "")
            hint = f"; did you mean the filter {other}?" if other else ""
            raise Invalid(f"{choice[:60]!r} is unknown{hint}", field=path, allowed=", ".join(declared.values))
    return values if len(values) > 1 else values[0]


def _range(kind: str, path: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value or set(value) - {"from", "to"}:
        raise Invalid(f"{str(value)[:60]!r} is not a range", field=path, allowed='{"from": …, "to": …}')
    ends: dict[str, Any] = {}
    for end, bound in value.items():
        if bound is None:
            continue
        if kind == "date_range":
            validate(Moment, str(bound), f"{path}.{end}")
            ends[end] = str(bound)
        else:
            ends[end] = _number(f"{path}.{end}", bound)
    if not ends:
        raise Invalid("has neither from nor to", field=path, allowed='{"from": …, "to": …}')
    return ends


def _number(path: str, value: Any) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,18}", str(value)):
        raise Invalid(f"{str(value)[:60]!r} is not a whole number", field=path)
    return int(value)

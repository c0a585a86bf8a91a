"""A response's TypedDict states its fields once: for callers, for the schema, and for copying them from a row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import date
from functools import cache
from typing import Any, NotRequired, TypeVar, cast, get_origin, get_type_hints
from uuid import UUID

Shape = TypeVar("Shape")


def response_of(shape: type[Shape], row: object, **given: object) -> Shape:
    """Return the response `shape`, a TypedDict, about `row`.

    A field is the attribute of the same name, unless its value is `given`. Dates and times are in ISO format, and ids
    in hex. A field that isn't required is left out if it is empty.
    """
    response: dict[str, Any] = {}
    unused = set(given)
    for name, is_required in _fields(cast(Hashable, shape)):
        if name in unused:
            unused.remove(name)
            value = given[name]
        else:
            value = getattr(row, name)
        if not (value or is_required):
            continue
        if isinstance(value, date):
            value = value.isoformat()
        elif isinstance(value, UUID):
            value = value.hex
        response[name] = value
    if unused:
        raise TypeError(f"{shape.__name__} has no field {', '.join(sorted(unused))}")
    return cast(Shape, response)


@cache
def _fields(shape: Hashable) -> Sequence[tuple[str, bool]]:
    """Return the names of the fields in the order in which they are defined, each with whether it is required."""
    is_total = getattr(shape, "__total__", True)
    hints = get_type_hints(cast(type, shape), include_extras=True)
    return [(name, is_total and get_origin(hint) is not NotRequired) for name, hint in hints.items()]

"""Arguments as the server reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from commonplace_client.errors import Invalid


def path_id(name: str, value: str | UUID) -> str:
    """Return an id for a path. Raises Invalid if it is none, because another text could lead to another address."""
    try:
        return UUID(str(value)).hex
    except ValueError:
        raise Invalid(f"{name}: {str(value)[:80]!r} is not an id", field=name, allowed="a UUID") from None


def body(**values: Any) -> dict[str, Any]:
    """Return the JSON object of the arguments that are given."""
    return {name: _json(name, value) for name, value in values.items() if value is not None}


def query(**values: Any) -> list[tuple[str, str]]:
    """Return the query parameters of the arguments that are given. Lists are repeated parameters."""
    pairs = []
    for name, value in body(**values).items():
        for item in value if isinstance(value, list) else [value]:
            pairs.append((name, str(item).lower() if isinstance(item, bool) else str(item)))
    return pairs


def _json(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise Invalid(f"{name}: has no time zone", field=name, allowed="datetime.now(UTC), for example")
        return value.isoformat()
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
        return [_json(name, item) for item in value]
    return value

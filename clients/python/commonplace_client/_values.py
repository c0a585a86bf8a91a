"""Arguments as the server reads them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx

from commonplace_client.errors import Invalid


def check_address(url: str) -> None:
    """Raise ValueError if the text is not the address of a server, with or without a path."""
    address = httpx.URL(url)
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError(f"{url!r} is not an address: pass `url`, or set COMMONPLACE_URL, to http:// or https://…")
    if address.userinfo or address.query or address.fragment:
        # A user name would replace the token, and the path of each request is appended to the address.
        raise ValueError("The address of the server must have no user name, query or fragment.")


def check_path(path: str) -> None:
    """Raise ValueError if the path leads elsewhere than below /api/v1/, where the token must not be sent."""
    if not re.match(r"[a-z]", path) or ":" in path.partition("/")[0] or ".." in path.split("/"):
        raise ValueError(f"{path[:80]!r} is not a path below /api/v1/, such as memories/notes/")


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

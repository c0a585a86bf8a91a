"""Pages of the lists of the MCP server, with opaque cursors."""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

Entry = TypeVar("Entry")

SIZE = 100  # many clients read the first page only


def to_cursor(position: str) -> str:
    return urlsafe_b64encode(position.encode()).decode()


def position_of(cursor: str | None) -> str:
    """Return the position that a cursor stands for, or "" for the first page. Raises MCPError if it is malformed."""
    try:
        return b64decode((cursor or "").encode(), altchars=b"-_", validate=True).decode()
    except ValueError:
        raise unknown_cursor() from None


def unknown_cursor() -> MCPError:
    return MCPError(
        INVALID_PARAMS, "cursor: is not one of this list; allowed: the nextCursor of an earlier page, or none"
    )


def page(
    entries: Sequence[Entry], cursor: str | None, name_of: Callable[[Entry], str], size: int = SIZE
) -> tuple[Sequence[Entry], str | None]:
    """Return the entries after the one that the cursor names, and the cursor of the next page.

    Raises MCPError if the cursor names no entry.
    """
    start = 0
    if position := position_of(cursor):
        start = next((number for number, entry in enumerate(entries, 1) if name_of(entry) == position), 0)
        if not start:
            raise unknown_cursor()
    selection = entries[start : start + size]
    has_more = start + size < len(entries)
    return selection, to_cursor(name_of(selection[-1])) if has_more else None

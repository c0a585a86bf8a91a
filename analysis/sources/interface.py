"""The interface of sources, for ingests and actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from memories.contract.errors import DomainError

LINK = "link:"  # prefix that distinguishes a next-page URL from a cursor


class UpstreamFailed(DomainError):
    """The upstream refused a request, or didn't respond even after retries. `status_code` is the HTTP status, or 0."""

    code = "upstream"
    status = 502

    def __init__(self, message: str, *, status_code: int = 0) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.never_sent = False  # no connection was made, so the request can't have had an effect


class Upstream(Protocol):
    """One model of a source. All methods raise UpstreamFailed, and may be called from several threads at once."""

    resource: Resource
    at_once: int  # concurrent requests; 1 for sources that are read in this process

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        """Return a page by its number, from 1, or by the cursor or link that the previous page contained."""
        ...

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf: ...

    def read(self, record_id: str) -> Row | None:
        """Return the record's current state, or None if it no longer exists."""
        ...

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int: ...

    def delete(self, record_id: str) -> int: ...

    def close(self) -> None: ...

"""The interface through which ingests and actions use a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from foundation.operations.errors import DomainError

LINK = "link:"  # prefix that distinguishes a next-page URL from a cursor


class UpstreamFailed(DomainError):
    """A source or warehouse failed or refused a request. `status_code` is the HTTP status, or 0 if there is none."""

    code = "upstream"
    status = 502

    def __init__(self, message: str, *, status_code: int = 0) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.never_sent = False  # if true, no connection was made, so the request had no effect


class Upstream(Protocol):
    """One model of a source.

    Methods raise UpstreamFailed if the source fails. Up to `at_once` threads may call them at the same time.
    """

    resource: Resource
    at_once: int  # maximum number of concurrent requests; 1 for files and memories

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        """Return a page by its number, counted from 1, or by the cursor or link that the previous page contained."""
        ...

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf: ...

    def read(self, record_id: str) -> Row | None:
        """Return the record's current state, or None if it no longer exists."""
        ...

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int: ...

    def delete(self, record_id: str) -> int: ...

    def close(self) -> None: ...

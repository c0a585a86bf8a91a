"""What an ingest and an action ask of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from analysis.sources.declaration import Resource
from analysis.sources.envelopes import PageOf, Row
from memories.contract.errors import DomainError

LINK = "link:"  # before an address that the page before named; anything else is a cursor


class UpstreamFailed(DomainError):
    """The upstream refused, or did not answer although it was asked again; `status_code` is its HTTP status, or 0."""

    code = "upstream"
    status = 502

    def __init__(self, message: str, *, status_code: int = 0) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.never_sent = False  # the connection was not even made


class Upstream(Protocol):
    """One model of one source. All raise UpstreamFailed; all may be called from several threads at once."""

    resource: Resource
    at_once: int  # requests that may be under way together; 1 for what is read in this process

    def page(self, number: int, per_page: int, filters: Mapping[str, Any], cursor: str = "") -> PageOf:
        """A page by its number from 1, or by the cursor or address that the page before named."""
        ...

    def children(self, parent_id: str, path: str, number: int, per_page: int, cursor: str = "") -> PageOf: ...

    def read(self, record_id: str) -> Row | None:
        """The record as it is now; None when it is gone."""
        ...

    def update(self, record_id: str, attributes: Mapping[str, Any]) -> int: ...

    def delete(self, record_id: str) -> int: ...

    def close(self) -> None: ...

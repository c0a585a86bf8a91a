"""The catalog interface, in DataHub's terms: entities with URNs, versioned aspects, lineage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from foundation.operations.errors import DomainError

Value = dict[str, Any]


class CatalogUnavailable(DomainError):
    """The catalog can't be reached, or can't handle requests now. A write may or may not have taken effect."""

    code = "upstream"
    status = 502


class CatalogRefused(DomainError):
    """The catalog rejected the request."""

    code = "upstream"
    status = 502


@dataclass(frozen=True)
class Aspect:
    """One aspect of an entity, with its version number. If the entity lacks the aspect, `value` is None."""

    value: Value | None = None
    version: int = 0


@dataclass(frozen=True)
class Write:
    """A change at one path of one aspect, as a JSON patch of the aspect's keyed form (see json_patch.py).

    An empty path means the whole aspect.
    """

    urn: str
    aspect: str
    path: tuple[str, ...]
    operation: str  # add or remove
    value: Any = None


@dataclass(frozen=True)
class WriteRun:
    """Origin of a write, stored in the aspect's system metadata."""

    id: str
    actor: str  # an e-mail address
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EntitySummary:
    urn: str
    entity_type: str
    name: str
    description: str = ""
    platform: str = ""
    deprecated: bool = False
    passage: str = ""  # the part of the entity's text that is nearest to the query
    is_unsure: bool = False  # the passage is only a weak match


@dataclass(frozen=True)
class LineageNode:
    urn: str
    direction: str  # upstream or downstream
    distance: int


class Catalog(Protocol):
    """A data catalog.

    Methods raise CatalogUnavailable if the catalog is unavailable, and CatalogRefused if it rejects the request.
    """

    name: str

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        """Return the requested aspects of each URN. The value of an absent aspect is None."""
        ...

    def existing(self, urns: Sequence[str]) -> set[str]:
        """Return the given URNs whose entities exist and are not soft-deleted."""
        ...

    def write(self, write: Write, run: WriteRun) -> None:
        """Apply one write. Concurrent writes to other paths of the same aspect are not lost."""
        ...

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]: ...

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        """Return at most `limit` entities within `hops` steps, nearest first. `direction` is upstream or downstream."""
        ...


def entity_type(urn: str) -> str:
    """Return the entity type in a URN, such as `dataset` for urn:li:dataset:(…), or "" if there is none."""
    match = re.match(r"urn:li:([A-Za-z0-9]+):", urn)
    return match.group(1) if match else ""


def make_urn(kind: str, name: str) -> str:
    """Return the URN for a bare name, with `kind` as the entity type. A URN is returned unchanged."""
    return name if name.startswith("urn:li:") else f"urn:li:{kind}:{name}"

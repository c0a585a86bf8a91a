"""What the product asks of a catalog, in DataHub's terms: entities by URN, aspects with versions, lineage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memories.contract.errors import DomainError

Value = dict[str, Any]


class CatalogUnavailable(DomainError):
    """The catalog did not answer; whether a write landed is unknown."""

    code = "upstream"
    status = 502


class CatalogRefused(DomainError):
    """The catalog answered that it will not do this."""

    code = "upstream"
    status = 502


@dataclass(frozen=True)
class Aspect:
    """`value` None: the aspect is absent. `version` counts writes; 0 while absent from the start."""

    value: Value | None = None
    version: int = 0


@dataclass(frozen=True)
class Write:
    """One change at one path of one aspect, as a JSON patch over the aspect's keyed form (see patch.py).

    An empty path means the whole aspect.
    """

    urn: str
    aspect: str
    path: tuple[str, ...]
    operation: str  # add or remove
    value: Any = None


@dataclass(frozen=True)
class Run:
    """On whose behalf a write happens: stamped into the aspect's system metadata."""

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
    passage: str = ""  # the part of its text that is nearest to what was asked
    is_unsure: bool = False  # and is not very near to it


@dataclass(frozen=True)
class LineageNode:
    urn: str
    direction: str  # upstream or downstream
    distance: int


class Catalog(Protocol):
    """Both implementations raise CatalogUnavailable when they can't say, and CatalogRefused when told no."""

    name: str

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        """Every asked aspect of every URN; absent ones as Aspect()."""
        ...

    def existing(self, urns: Sequence[str]) -> set[str]:
        """Those of the URNs that are there and not soft-deleted."""
        ...

    def write(self, write: Write, run: Run) -> None:
        """Does it; other paths of the same aspect, also those written at the same time, are left as they are."""
        ...

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]: ...

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        """Entities within so many hops, nearest first; direction upstream or downstream."""
        ...


def entity_type(urn: str) -> str:
    """`dataset` of urn:li:dataset:(…)."""
    match = re.match(r"urn:li:([A-Za-z0-9]+):", urn)
    return match.group(1) if match else ""


def make_urn(kind: str, name: str) -> str:
    """A bare name as a URN of that kind; what is one already stays."""
    return name if name.startswith("urn:li:") else f"urn:li:{kind}:{name}"

"""A catalog together with the entities that are ours alone: curated prompts, which no DataHub knows."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.catalog.local import LocalCatalog
from knowledge.catalog.port import Aspect, CatalogPort, EntitySummary, LineageNode, Run, Write, entity_type

OWN_TYPES = frozenset({"prompt"})


class WithOwnEntities:
    """Sends what is about our own entities to our tables, and all else to the catalog."""

    def __init__(self, catalog: CatalogPort) -> None:
        self.name = catalog.name
        self._catalog = catalog
        self._own = LocalCatalog()

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        own, others = _split(urns)
        found = self._own.read(own, aspects) if own else {}
        return found | (self._catalog.read(others, aspects) if others else {})

    def existing(self, urns: Sequence[str]) -> set[str]:
        own, others = _split(urns)
        return self._own.existing(own) | (self._catalog.existing(others) if others else set())

    def write(self, write: Write, run: Run) -> None:
        (self._own if entity_type(write.urn) in OWN_TYPES else self._catalog).write(write, run)

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        return self._catalog.search(query, types=types, limit=limit)

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        return self._catalog.lineage(urn, direction=direction, hops=hops, limit=limit)


def _split(urns: Sequence[str]) -> tuple[list[str], list[str]]:
    own = [urn for urn in urns if entity_type(urn) in OWN_TYPES]
    return own, [urn for urn in urns if entity_type(urn) not in OWN_TYPES]

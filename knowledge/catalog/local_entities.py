"""A catalog wrapper that stores curated prompts locally, because DataHub does not support this entity type."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Aspect, Catalog, EntitySummary, LineageNode, Write, WriteRun, entity_type

LOCAL_TYPES = frozenset({"prompt"})


class WithLocalEntities:
    """Routes reads and writes of entities of LOCAL_TYPES to the embedded catalog, and everything else to `catalog`."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = catalog.name
        self._catalog = catalog
        self._local = LocalCatalog()

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        local_urns, other_urns = _split(urns)
        found = self._local.read(local_urns, aspects) if local_urns else {}
        return found | (self._catalog.read(other_urns, aspects) if other_urns else {})

    def existing(self, urns: Sequence[str]) -> set[str]:
        local_urns, other_urns = _split(urns)
        return self._local.existing(local_urns) | (self._catalog.existing(other_urns) if other_urns else set())

    def write(self, write: Write, run: WriteRun) -> None:
        (self._local if entity_type(write.urn) in LOCAL_TYPES else self._catalog).write(write, run)

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        return self._catalog.search(query, types=types, limit=limit)

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        return self._catalog.lineage(urn, direction=direction, hops=hops, limit=limit)


def _split(urns: Sequence[str]) -> tuple[list[str], list[str]]:
    local_urns = [urn for urn in urns if entity_type(urn) in LOCAL_TYPES]
    return local_urns, [urn for urn in urns if entity_type(urn) not in LOCAL_TYPES]

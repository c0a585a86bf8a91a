"""A read cache over a catalog, for a page that reads the same entities several times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext

from knowledge.catalog import entity_view
from knowledge.catalog.interface import Aspect, Catalog, CatalogRefused, EntitySummary, LineageNode, Write, WriteRun


class CatalogSnapshot:
    """Reads the aspects in entity_view.ASPECTS of each entity once and keeps them. All other reads are passed on."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = catalog.name
        self._catalog = catalog
        self._read: dict[str, dict[str, Aspect]] = {}

    @property
    def copied_at(self) -> datetime | None:
        return getattr(self._catalog, "copied_at", None)

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        if set(aspects) - set(entity_view.ASPECTS):
            return self._catalog.read(urns, aspects)
        if missing := [urn for urn in urns if urn not in self._read]:
            self._read |= self._catalog.read(missing, entity_view.ASPECTS)
        return {urn: {aspect: self._read[urn][aspect] for aspect in aspects} for urn in urns}

    def existing(self, urns: Sequence[str]) -> set[str]:
        return self._catalog.existing(urns)

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        return self._catalog.search(query, types=types, limit=limit)

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        return self._catalog.lineage(urn, direction=direction, hops=hops, limit=limit)

    def write(self, write: Write, run: WriteRun) -> None:
        raise CatalogRefused(gettext("a snapshot is read-only"))

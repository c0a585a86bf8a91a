"""A local copy of DataHub, so that recall, reviews and staleness checks keep working while DataHub is unavailable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from django.utils import timezone

from knowledge.catalog import entity_view
from knowledge.catalog.bulk_write import AspectWrite, Written, put_many
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Aspect, Catalog, CatalogUnavailable, EntitySummary, LineageNode, Write, WriteRun
from knowledge.models import CatalogCursor

CURSOR = "mirror"
TYPES = (
    "dataset", "container", "chart", "dashboard", "dataJob", "dataFlow", "domain", "glossaryTerm", "glossaryNode",
    "tag", "document", "dataProduct", "corpuser", "corpGroup", "structuredProperty",
)  # fmt: skip
PAGE_SIZE = 100  # maximum number of entities that are copied at once


class Mirrorable(Protocol):
    def all_urns(self, kind: str, at_once: int) -> Iterator[list[str]]: ...

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]: ...


@dataclass
class Mirrored:
    entities: int = 0
    writes: int = 0  # aspects that were new or had changed
    removals: int = 0
    unusable: Counter[str] = field(default_factory=Counter)  # aspects that could not be read, by reason
    changed: Sequence[str] = ()  # entities that were new, changed or removed since the previous count


def mirror(catalog: Mirrorable) -> Iterator[Mirrored]:
    """Copy all entities of TYPES, yielding the running count after each page.

    Unchanged aspects are not written. Entities that DataHub no longer has are marked as removed. Raises
    CatalogUnavailable or CatalogRefused; the pages copied before the error are kept.
    """
    local = LocalCatalog()
    count = Mirrored()
    started = timezone.now()
    for kind in TYPES:
        source_urns: set[str] = set()
        for urns in catalog.all_urns(kind, PAGE_SIZE):
            result = copy(catalog, urns)
            count.writes += result.writes
            count.unusable += result.unusable
            count.changed = sorted(result.urns)
            source_urns.update(urns)
            count.entities += len(urns)
            yield replace(count)
        missing = sorted(local.urns(kind) - source_urns)
        count.removals += put_many(
            AspectWrite(urn, "status", {"removed": True}, {"runId": "mirror"}) for urn in missing
        ).writes
        if missing:
            count.changed = missing
            yield replace(count)
    count.changed = ()
    defaults = {"value": started.isoformat(), "updated_at": timezone.now()}
    CatalogCursor.objects.update_or_create(name=CURSOR, defaults=defaults)
    yield count


def copy(catalog: Mirrorable, urns: Sequence[str]) -> Written:
    return put_many(_puts(catalog.read(urns, entity_view.ASPECTS)))


def _puts(read: dict[str, dict[str, Aspect]]) -> Iterator[AspectWrite]:
    for urn, aspects in read.items():
        if aspects["status"].value is None:  # an earlier run may have marked the entity as removed
            aspects["status"] = Aspect({"removed": False})
        for name, aspect in aspects.items():
            if aspect.value is not None:
                yield AspectWrite(urn, name, aspect.value, {"runId": "mirror", "version": str(aspect.version)})


def last_copied_at() -> datetime | None:
    """Return the time at which the last complete run of `mirror` started, or None if no run was complete."""
    row = CatalogCursor.objects.filter(name=CURSOR).first()
    return datetime.fromisoformat(row.value) if row else None


class MirroredCatalog:
    """Reads `catalog`, or the local copy while `catalog` is unavailable. Writes always go to `catalog`."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = catalog.name
        self._catalog = catalog
        self._copy = LocalCatalog()
        self.copied_at: datetime | None = None  # start time of the copy if the last read came from it

    def _read_with_fallback(self, method: str, *args: Any, **options: Any) -> Any:
        try:
            result = getattr(self._catalog, method)(*args, **options)
        except CatalogUnavailable:
            self.copied_at = last_copied_at()
            if self.copied_at is None:
                raise
            return getattr(self._copy, method)(*args, **options)
        self.copied_at = None
        return result

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        found: dict[str, dict[str, Aspect]] = self._read_with_fallback("read", urns, aspects)
        return found

    def existing(self, urns: Sequence[str]) -> set[str]:
        found: set[str] = self._read_with_fallback("existing", urns)
        return found

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        found: list[EntitySummary] = self._read_with_fallback("search", query, types=types, limit=limit)
        return found

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        nodes: list[LineageNode] = self._read_with_fallback("lineage", urn, direction=direction, hops=hops, limit=limit)
        return nodes

    def write(self, write: Write, run: WriteRun) -> None:
        self._catalog.write(write, run)

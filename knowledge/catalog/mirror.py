"""A copy of a real DataHub in our own tables: recall, evidence and staleness go on while it is away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from django.utils import timezone

from knowledge.catalog import entity_view
from knowledge.catalog.bulk_write import AspectWrite, Written, put_many
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import Aspect, Catalog, CatalogUnavailable, EntitySummary, LineageNode, Run, Write
from knowledge.models import CatalogCursor

CURSOR = "mirror"
TYPES = (
    "dataset", "container", "chart", "dashboard", "dataJob", "dataFlow", "domain", "glossaryTerm", "glossaryNode",
    "tag", "document", "dataProduct", "corpuser", "corpGroup", "structuredProperty",
)  # fmt: skip
AT_ONCE = 100


class Mirrorable(Protocol):
    """What a catalog has to offer to be copied."""

    def all_urns(self, kind: str, at_once: int) -> Iterator[list[str]]: ...

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]: ...


@dataclass
class Mirrored:
    entities: int = 0
    writes: int = 0  # aspects that were new or had changed
    removals: int = 0
    changed: Sequence[str] = ()  # the entities of the last page that were new, had changed or were removed


def mirror(catalog: Mirrorable, types: Sequence[str] = TYPES) -> Iterator[Mirrored]:
    """Copies every entity of these types; yields the running count after each page. What is unchanged writes
    nothing, so that a second run is cheap; what DataHub has no longer is marked as removed.

    Raises CatalogUnavailable or CatalogRefused; what was copied until then stays.
    """
    local, count, started = LocalCatalog(), Mirrored(), timezone.now()
    for kind in types:
        source_urns: set[str] = set()
        for urns in catalog.all_urns(kind, AT_ONCE):
            result = copy(catalog, urns)
            count.writes += result.writes
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
    """Copy these entities as they are now. Returns which of them were new or had changed."""
    return put_many(_puts(catalog.read(urns, entity_view.ASPECTS)))


def _puts(read: dict[str, dict[str, Aspect]]) -> Iterator[AspectWrite]:
    for urn, aspects in read.items():
        if aspects["status"].value is None:  # it may be back after it had gone
            aspects["status"] = Aspect({"removed": False})
        for name, aspect in aspects.items():
            if aspect.value is not None:
                yield AspectWrite(urn, name, aspect.value, {"runId": "mirror", "version": str(aspect.version)})


def age() -> datetime | None:
    """When the last complete copy was begun; None if there is none."""
    row = CatalogCursor.objects.filter(name=CURSOR).first()
    return datetime.fromisoformat(row.value) if row else None


class MirroredCatalog:
    """DataHub, and its copy for reading while it does not answer. Writes always go to DataHub."""

    def __init__(self, catalog: Catalog) -> None:
        self.name = catalog.name
        self._catalog = catalog
        self._copy = LocalCatalog()
        self.copied_at: datetime | None = None  # set while the copy answers

    def _ask(self, method: str, *args: Any, **options: Any) -> Any:
        try:
            answer = getattr(self._catalog, method)(*args, **options)
        except CatalogUnavailable:
            self.copied_at = age()
            if self.copied_at is None:
                raise
            return getattr(self._copy, method)(*args, **options)
        self.copied_at = None
        return answer

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        answer: dict[str, dict[str, Aspect]] = self._ask("read", urns, aspects)
        return answer

    def existing(self, urns: Sequence[str]) -> set[str]:
        answer: set[str] = self._ask("existing", urns)
        return answer

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        answer: list[EntitySummary] = self._ask("search", query, types=types, limit=limit)
        return answer

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        answer: list[LineageNode] = self._ask("lineage", urn, direction=direction, hops=hops, limit=limit)
        return answer

    def write(self, write: Write, run: Run) -> None:
        self._catalog.write(write, run)

"""Bulk writes to the embedded catalog: each chunk of aspects takes a few queries, instead of a few per aspect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from knowledge.catalog.interface import Value
from knowledge.catalog.json_patch import canonical, patched
from knowledge.catalog.projections import refresh_entities
from knowledge.models import CatalogAspect

# maximum number of writes per transaction: each aspect takes a lock, and PostgreSQL's lock table holds a few thousand
CHUNK = 500


@dataclass(frozen=True)
class AspectWrite:
    """A write of a whole aspect if `path` is None, otherwise an operation at a path of the aspect."""

    urn: str
    aspect: str
    value: Any
    system_metadata: dict[str, Any]
    path: tuple[str, ...] | None = None
    operation: str = "add"


@dataclass
class Written:
    writes: int = 0
    unchanged: int = 0
    urns: set[str] = field(default_factory=set)  # entities that changed


def put_many(puts: Iterable[AspectWrite]) -> Written:
    """Write the aspects in order. A write that changes nothing creates no new version."""
    written, chunk = Written(), []
    for put in puts:
        chunk.append(put)
        if len(chunk) == CHUNK:
            _write(chunk, written)
            chunk = []
    if chunk:
        _write(chunk, written)
    return written


@transaction.atomic
def _write(chunk: Sequence[AspectWrite], written: Written) -> None:
    keys = sorted({(put.urn, put.aspect) for put in chunk})
    # The same locks as LocalCatalog._locked takes, sorted so that concurrent writers can't deadlock.
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(place, 1)) FROM unnest(%s::text[]) AS place",
            [[f"{urn} {aspect}" for urn, aspect in keys]],
        )
    rows = CatalogAspect.objects.filter(urn__in={urn for urn, _ in keys}, is_latest=True)
    latest = {(row.urn, row.aspect): row for row in rows if (row.urn, row.aspect) in set(keys)}
    current: dict[tuple[str, str], tuple[Value | None, int]] = {
        key: (row.value, row.version) for key, row in latest.items()
    }
    new_versions: dict[tuple[str, str], list[CatalogAspect]] = {}
    for put in chunk:
        value, version = current.get((put.urn, put.aspect), (None, 0))
        after = put.value if put.path is None else patched(put.aspect, value, put.path, put.operation, put.value)
        if canonical(value) == canonical(after):
            written.unchanged += 1
            continue
        current[put.urn, put.aspect] = after, version + 1
        row = CatalogAspect(
            urn=put.urn, aspect=put.aspect, version=version + 1, value=after, system_metadata=put.system_metadata
        )
        new_versions.setdefault((put.urn, put.aspect), []).append(row)
    for versions in new_versions.values():
        for earlier in versions[:-1]:
            earlier.is_latest = False
    replaced = [latest[key].pk for key in new_versions if key in latest]
    CatalogAspect.objects.filter(pk__in=replaced).update(is_latest=False)
    CatalogAspect.objects.bulk_create([row for versions in new_versions.values() for row in versions])
    changed = sorted({urn for urn, _ in new_versions})
    refresh_entities(changed)
    written.writes += sum(map(len, new_versions.values()))
    written.urns.update(changed)

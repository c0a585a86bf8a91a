"""Bulk writes to the embedded catalog: each chunk of aspects takes a few queries, instead of a few per aspect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

from django.db import DataError, connection, transaction

from knowledge.catalog.interface import Value
from knowledge.catalog.json_patch import Unpatchable, canonical, patched
from knowledge.catalog.projections import refresh_entities
from knowledge.models import CatalogAspect

# maximum number of writes per transaction: each aspect takes a lock, and PostgreSQL's lock table holds a few thousand
CHUNK = 500
# What a value in another form than DataHub's leads to, while it is patched or its entity is read.
UNFIT = (Unpatchable, AttributeError, KeyError, TypeError, IndexError, UnicodeError, RecursionError, DataError)


@dataclass(frozen=True)
class AspectWrite:
    """A write of a whole aspect, or a patch of it: operations that are carried out together or not at all."""

    urn: str
    aspect: str
    value: Any
    system_metadata: dict[str, Any]
    operations: Sequence[tuple[tuple[str, ...], str, Any]] = ()  # each a path, "add" or "remove", and a value

    def applied_to(self, value: Value | None) -> Value | None:
        """Return the aspect's new value. Raises Unpatchable."""
        if not self.operations:
            return cast(Value, self.value)
        for path, operation, new in self.operations:
            value = patched(self.aspect, value, path, operation, new)
        return value


@dataclass
class Written:
    writes: int = 0
    unchanged: int = 0
    urns: set[str] = field(default_factory=set)  # entities that changed
    unusable: Counter[str] = field(default_factory=Counter)  # number of writes that were left out, by reason


def put_many(puts: Iterable[AspectWrite]) -> Written:
    """Write the aspects in order. A write that changes nothing creates no new version.

    A write in another form than DataHub's is left out and counted.
    """
    written = Written()
    remaining = iter(puts)
    while chunk := list(islice(remaining, CHUNK)):
        try:
            _write(chunk, written)
        except UNFIT:  # one of them; the others must not be lost with it
            for put in chunk:
                _write_alone(put, written)
    return written


def _write_alone(put: AspectWrite, written: Written) -> None:
    try:
        _write([put], written)
    except Unpatchable as error:
        written.unusable[f"patch of {put.aspect}: {error}"] += 1
    except UNFIT:
        written.unusable[f"{put.aspect} in another form than DataHub's"] += 1


@transaction.atomic
def _write(chunk: Sequence[AspectWrite], written: Written) -> None:
    unchanged = 0
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
        after = put.applied_to(value)
        if canonical(value) == canonical(after):
            unchanged += 1
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
    written.unchanged += unchanged
    written.writes += sum(map(len, new_versions.values()))
    written.urns.update(changed)

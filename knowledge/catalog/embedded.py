"""The embedded catalog: versioned aspects in PostgreSQL. The local copy of a DataHub is stored in the same tables.

Search and lineage read tables that are derived from the aspects (see projections.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import connection, transaction
from django.db.models import BooleanField, ExpressionWrapper, FloatField, Q
from django.db.models.expressions import RawSQL
from django.utils import timezone

from foundation.database import locks
from foundation.database.replica import connection_for_reading
from knowledge.catalog.interface import Aspect, EntitySummary, LineageNode, Value, Write, WriteRun
from knowledge.catalog.json_patch import canonical, patched
from knowledge.catalog.projections import refresh_entities
from knowledge.models import CatalogAspect, CatalogEntity
from memories.retrieval import term_statistics

LINEAGE = """
    WITH RECURSIVE near(urn, distance) AS (
        SELECT %(start)s::varchar, 0
        UNION
        SELECT edge.{to}, near.distance + 1
        FROM near JOIN catalog_lineage edge ON edge.{from_} = near.urn
        WHERE near.distance < %(hops)s
    )
    SELECT urn, min(distance) FROM near WHERE urn <> %(start)s
    GROUP BY urn ORDER BY min(distance), urn LIMIT %(limit)s
"""


class LocalCatalog:
    name = "local"

    def read(self, urns: Sequence[str], aspects: Sequence[str]) -> dict[str, dict[str, Aspect]]:
        found = {urn: {aspect: Aspect() for aspect in aspects} for urn in urns}
        rows = CatalogAspect.objects.filter(urn__in=urns, aspect__in=aspects, is_latest=True)
        for urn, aspect, value, version in rows.values_list("urn", "aspect", "value", "version"):
            found[urn][aspect] = Aspect(value, version)
        return found

    def existing(self, urns: Sequence[str]) -> set[str]:
        return set(CatalogEntity.objects.filter(urn__in=urns, removed=False).values_list("urn", flat=True))

    def urns(self, kind: str) -> set[str]:
        """Return the URNs of all entities of this type that are not soft-deleted."""
        return set(CatalogEntity.objects.filter(entity_type=kind, removed=False).values_list("urn", flat=True))

    def types(self) -> set[str]:
        return set(CatalogEntity.objects.order_by().values_list("entity_type", flat=True).distinct())

    def write(self, write: Write, run: WriteRun) -> None:
        stamp = {"runId": run.id, "lastObserved": _now_ms(), "actor": run.actor, "properties": run.properties}
        with locks.fenced(), transaction.atomic():
            before = self._locked(write.urn, write.aspect)
            after = patched(write.aspect, before.value, write.path, write.operation, write.value)
            self._store(write.urn, write.aspect, before, after, stamp)

    def put(self, urn: str, aspect: str, value: Value | None, system_metadata: dict[str, Any]) -> bool:
        """Store a whole aspect. Return True if this created a new version."""
        with transaction.atomic():
            return self._store(urn, aspect, self._locked(urn, aspect), value, system_metadata)

    def _locked(self, urn: str, aspect: str) -> Aspect:
        """Return the newest version, and lock the aspect until the end of the transaction."""
        # An advisory lock, because an absent aspect has no row to lock.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{urn} {aspect}"])
        row = CatalogAspect.objects.filter(urn=urn, aspect=aspect, is_latest=True).first()
        return Aspect(row.value, row.version) if row else Aspect()

    def _store(self, urn: str, aspect: str, before: Aspect, after: Value | None, stamp: dict[str, Any]) -> bool:
        if canonical(before.value) == canonical(after):
            return False
        CatalogAspect.objects.filter(urn=urn, aspect=aspect, is_latest=True).update(is_latest=False)
        CatalogAspect.objects.create(
            urn=urn, aspect=aspect, version=before.version + 1, value=after, system_metadata=stamp
        )
        refresh_entities([urn])
        return True

    def search(self, query: str, *, types: Sequence[str] = (), limit: int = 10) -> list[EntitySummary]:
        rows = CatalogEntity.objects.filter(removed=False)
        if types:
            rows = rows.filter(entity_type__in=types)
        terms = term_statistics.query_terms(query) if query else []
        if query:
            words = term_statistics.any_of(terms)
            matches = RawSQL("search @@ %s::tsquery", [words], output_field=BooleanField())
            rank = RawSQL("ts_rank_cd(search, %s::tsquery, 1)", [words], output_field=FloatField())
            name = query.strip().lower()
            is_named = ExpressionWrapper(Q(tail=name) | Q(name__iexact=name), output_field=BooleanField())
            rows = rows.annotate(found=matches, rank=rank, is_named=is_named).filter(found=True)
            rows = rows.order_by("-is_named", "-rank", "name", "urn")  # exact names first
        return [summary(row) for row in rows[:limit]]

    def lineage(self, urn: str, *, direction: str, hops: int, limit: int) -> list[LineageNode]:
        from_, to = ("downstream", "upstream") if direction == "upstream" else ("upstream", "downstream")
        with connection_for_reading().cursor() as cursor:
            # Safe to interpolate: the column names are constants. The URN and the limits are parameters.
            cursor.execute(LINEAGE.format(from_=from_, to=to), {"start": urn, "hops": hops, "limit": limit})
            return [LineageNode(neighbor, direction, distance) for neighbor, distance in cursor.fetchall()]


def summary(row: CatalogEntity) -> EntitySummary:
    return EntitySummary(
        urn=row.urn,
        entity_type=row.entity_type,
        name=row.qualified_name or row.name,
        description=row.description,
        platform=row.platform,
        deprecated=row.deprecated,
    )


def rename_actor(email: str, pseudonym: str) -> None:
    """Replace the address of a person in the stamps of what they have written to the embedded catalog."""
    for row in CatalogAspect.objects.filter(system_metadata__actor=email).only("system_metadata"):
        metadata = row.system_metadata | {"actor": pseudonym}
        CatalogAspect.objects.filter(pk=row.pk).update(system_metadata=metadata)


def _now_ms() -> int:
    return int(timezone.now().timestamp() * 1000)

"""Tables for search, pages and lineage, derived from the embedded catalog's aspects. They can always be rebuilt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.db import connection, transaction

from knowledge.catalog import document_index, entity_view
from knowledge.catalog.interface import Value, entity_type
from knowledge.catalog.lineage_edges import column_pairs, edges
from knowledge.models import CatalogAspect, CatalogEntity, ColumnEdge, LineageEdge
from memories import extensions

BATCH_SIZE = 500
LOCK_SEED = 4  # seed of the hash of an entity's lock; advisory locks elsewhere use the seeds 0 to 3
MIN_NAME_LENGTH = 8  # minimum number of characters of names that are looked for in texts: shorter names are often words
FIELDS = ["entity_type", "name", "qualified_name", "description", "columns", "platform", "removed", "deprecated"]


@transaction.atomic
def refresh_entities(urns: Sequence[str]) -> None:
    """Derive the rows of these entities from their aspects.

    Waits for other writers of these entities, so that each sees the aspects which the one before has written.
    """
    with connection.cursor() as cursor:
        # Writers of different aspects of an entity hold different locks, but the rows below are made of all aspects.
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(urn, %s)) FROM unnest(%s::text[]) AS urn",
            [LOCK_SEED, sorted(set(urns))],
        )
    aspects: dict[str, dict[str, Value]] = {urn: {} for urn in urns}
    newest = CatalogAspect.objects.filter(urn__in=list(urns), is_latest=True, value__isnull=False)
    for urn, aspect, value in newest.values_list("urn", "aspect", "value"):
        aspects[urn][aspect] = value or {}
    CatalogEntity.objects.filter(urn__in=[urn for urn, values in aspects.items() if not values]).delete()
    CatalogEntity.objects.bulk_create(
        [_entity(urn, values) for urn, values in aspects.items() if values],
        update_conflicts=True,
        unique_fields=["urn"],
        update_fields=FIELDS,
    )
    current_edges = {(down, up, urn) for urn, values in aspects.items() for down, up in edges(urn, values)}
    stored_edges = set(
        LineageEdge.objects.filter(said_by__in=list(urns)).values_list("downstream", "upstream", "said_by", "pk")
    )
    LineageEdge.objects.filter(pk__in=[pk for *edge, pk in stored_edges if tuple(edge) not in current_edges]).delete()
    new = current_edges - {(down, up, said_by) for down, up, said_by, _ in stored_edges}
    rows = [LineageEdge(downstream=down, upstream=up, said_by=said_by) for down, up, said_by in sorted(new)]
    LineageEdge.objects.bulk_create(rows, ignore_conflicts=True)
    _refresh_column_edges(aspects)
    document_index.update_rows(urns)
    names = CatalogEntity.objects.filter(urn__in=list(urns)).values_list("qualified_name", flat=True)
    extensions.catalog_changed(urns, [name for name in names if len(name) >= MIN_NAME_LENGTH])


def _refresh_column_edges(aspects: Mapping[str, Mapping[str, Value]]) -> None:
    names = ("downstream", "downstream_column", "upstream", "upstream_column", "said_by")
    current = {(*pair, urn) for urn, values in aspects.items() for pair in column_pairs(values)}
    stored = {
        tuple(edge): pk for *edge, pk in ColumnEdge.objects.filter(said_by__in=list(aspects)).values_list(*names, "pk")
    }
    if outdated := [pk for edge, pk in stored.items() if edge not in current]:
        ColumnEdge.objects.filter(pk__in=outdated).delete()
    new = sorted(current - stored.keys())
    ColumnEdge.objects.bulk_create(
        [ColumnEdge(**dict(zip(names, edge, strict=True))) for edge in new], batch_size=BATCH_SIZE
    )


def _entity(urn: str, aspects: dict[str, Value]) -> CatalogEntity:
    entity = entity_view.parse_entity(urn, aspects)
    return CatalogEntity(
        urn=urn,
        entity_type=entity_type(urn),
        name=entity.name[:500],
        qualified_name=entity.qualified_name[:500],
        description=entity.description or entity.document_text[: entity_view.MAX_SEARCHED_TEXT],
        columns=" ".join(column.path for column in entity.columns),
        platform=entity.platform[:100],
        removed=entity.removed,
        deprecated=entity.deprecated,
    )


def rebuild() -> Iterator[int]:
    """Rebuild all derived rows, yielding the number of entities rebuilt so far."""
    urns = list(CatalogAspect.objects.filter(is_latest=True).order_by("urn").values_list("urn", flat=True).distinct())
    for start in range(0, len(urns), BATCH_SIZE):
        refresh_entities(urns[start : start + BATCH_SIZE])
        yield min(start + BATCH_SIZE, len(urns))

"""Caveats from upstream: memories about a source that hold for what is derived from it, until somebody waives them.

A caveat is a memory of one of CATEGORIES or with the tag TAG. It follows the lineage of the columns it is about, or of
all columns of its entity if it names none, for at most MAX_STEPS steps. Where the catalog knows the lineage of tables
only, it goes one step, and a data job between two tables is no step of its own. It does not pass a column or entity for
which it is waived (caveat_waivers.py).

Only lineage in local tables is read: that of the embedded catalog, or of a copy of DataHub.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.contrib.postgres.fields import ArrayField
from django.db.models import F, Func, OuterRef, Q, TextField, Value
from django.db.models.functions import Concat, Lower

from foundation.database.replica import connection_for_reading
from knowledge.catalog.entity_view import simple_path
from knowledge.context.column_names import has_word, is_identifier
from knowledge.entities.call_subject import CallSubject
from knowledge.models import CaveatWaiver
from memories.models import Category, MemoryRecord
from memories.models.record import MemoryRecordQuerySet, about_any
from memories.rendering import entity_name

CATEGORIES = (Category.DATA_QUALITY, Category.CORRECTION)
TAG = "caveat"
MAX_STEPS = 2
MAX_PATHS = 2_000  # maximum number of paths that are read for one call
MAX_CAVEATS = 50  # maximum number of caveats that are compared with the paths, the newest
SEPARATOR = "\x1f"  # between the URN and the column for which a caveat is waived
TABLES_ONLY = "the catalog knows no lineage of columns here"

# Paths from sources to the entities, nearest first: arrays of URNs and of columns, the source first. Columns are '' in
# the lineage of tables, which is read where no lineage of columns is known between two tables.
PATHS = """
    WITH RECURSIVE walk(urns, columns) AS (
        SELECT ARRAY[upstream, downstream]::text[], ARRAY[upstream_column, downstream_column]::text[]
        FROM catalog_column_lineage
        WHERE downstream = ANY(%(urns)s)
        AND (%(columns)s::text[] IS NULL OR lower(downstream_column) = ANY(%(columns)s))
        UNION
        SELECT edge.upstream::text || walk.urns, edge.upstream_column::text || walk.columns
        FROM walk JOIN catalog_column_lineage edge
            ON edge.downstream = walk.urns[1] AND edge.downstream_column = walk.columns[1]
        WHERE cardinality(walk.urns) <= %(steps)s AND edge.upstream <> ALL(walk.urns)
    ), of_tables(upstream, downstream) AS (
        SELECT edge.upstream, edge.downstream FROM catalog_lineage edge WHERE edge.downstream = ANY(%(urns)s)
        UNION
        SELECT before_job.upstream, edge.downstream
        FROM catalog_lineage edge JOIN catalog_lineage before_job ON before_job.downstream = edge.upstream
        WHERE edge.downstream = ANY(%(urns)s) AND edge.upstream LIKE 'urn:li:dataJob:%%'
    )
    (SELECT urns, columns FROM walk ORDER BY cardinality(urns) LIMIT %(limit)s)
    UNION ALL
    (SELECT ARRAY[upstream, downstream]::text[], ARRAY['', ''] FROM of_tables
    WHERE upstream <> downstream AND NOT EXISTS (
        SELECT 1 FROM catalog_column_lineage known
        WHERE known.downstream = of_tables.downstream AND known.upstream = of_tables.upstream
    )
    LIMIT %(limit)s)"""


# The entities of a memory, each with its columns.
CATALOG_COLUMNS = Func(
    F("entity_urns"),
    F("detected_urns"),
    arg_joiner=" || ",
    template=(
        "(SELECT array_agg(entity.urn || E'\\x1f' || entity.columns) FROM catalog_entities entity "
        "WHERE entity.urn = ANY(%(expressions)s))"
    ),
    output_field=ArrayField(TextField(), null=True),
)


@dataclass(frozen=True)
class Path:
    """A way from a source to an entity.

    `columns` are those at each step: "" in the lineage of tables, and for a caveat that is about a whole entity.
    """

    urns: Sequence[str]
    columns: Sequence[str]
    is_of_columns: bool = True  # false if the catalog knows the lineage of tables only

    @property
    def target(self) -> tuple[str, str]:
        return self.urns[-1], self.columns[-1]

    def __str__(self) -> str:
        names = (
            ".".join(filter(None, [_short(urn), column])) for urn, column in zip(self.urns, self.columns, strict=True)
        )
        return " → ".join(names)

    @property
    def reason(self) -> str:
        text = f"caveat from upstream: {self}"
        return text if self.is_of_columns else f"{text} ({TABLES_ONLY})"


@dataclass(frozen=True)
class Caveat:
    record: MemoryRecord
    path: Path


def paths_to(urns: Sequence[str], columns: Collection[str] = ()) -> list[Path]:
    """Return the paths of lineage to these entities, or to their columns with one of these names if there are any."""
    if not urns:
        return []
    values = {"urns": list(urns), "columns": column_names(columns), "steps": MAX_STEPS, "limit": MAX_PATHS}
    with connection_for_reading().cursor() as cursor:
        cursor.execute(PATHS, values)
        return [Path(urns, columns, is_of_columns=bool(columns[0])) for urns, columns in cursor.fetchall()]


def column_names(columns: Collection[str]) -> list[str] | None:
    """Return the names as they are compared with those of the catalog, or None if there are none."""
    return [simple_path(name).lower() for name in columns] or None


def is_caveat() -> Q:
    return Q(category__in=CATEGORIES) | Q(tags__contains=[TAG])


def caveats_for(
    urns: Sequence[str], visible: Callable[[Sequence[str]], MemoryRecordQuerySet], columns: Collection[str] = ()
) -> list[Caveat]:
    """Return the caveats that reach these entities, or their columns with these names, nearest first, then newest.

    `visible` returns the memories that the caller may be shown because of some sources. Memories about one of the
    entities itself are left out.
    """
    paths = paths_to(urns, columns)
    if not paths:
        return []
    sources = sorted({path.urns[0] for path in paths})
    rows = visible(sources).filter(is_caveat(), about_any(sources), ~about_any(urns)).defer("search")
    newest = with_details(rows).order_by("-updated_at", "pk")[:MAX_CAVEATS]
    return nearest((record, paths, record.catalog, record.waived) for record in newest)


def with_details(rows: MemoryRecordQuerySet) -> Any:
    """Annotate memories with what `best_path` needs: `waived`, and `catalog` as in CATALOG_COLUMNS."""
    waivers = CaveatWaiver.objects.in_force().filter(record=OuterRef("pk")).order_by()
    waived = ArraySubquery(waivers.values_list(Concat("urn", Value(SEPARATOR), Lower("column"))))
    return rows.annotate(waived=waived, catalog=CATALOG_COLUMNS)


def nearest(
    found: Iterable[tuple[MemoryRecord, Iterable[Path], Sequence[str] | None, Collection[str]]],
) -> list[Caveat]:
    """Return the caveats that reach their end on one of the paths, nearest first.

    Each is given with the paths, the columns of its entities as in CATALOG_COLUMNS, and what it is waived for.
    """
    caveats = [
        Caveat(record, path)
        for record, paths, catalog, waived in found
        if (path := best_path(record, paths, catalog_columns(catalog), waived)) is not None
    ]
    return sorted(caveats, key=lambda caveat: len(caveat.path.urns))  # a stable sort: the newest stay first


def columns_asked_for(subject: CallSubject) -> list[str]:
    """Return the columns whose caveats count if statements name all their columns, and otherwise [] for all."""
    statements = subject.statements
    is_exact = all(statement.is_parsed and not statement.reads_all for statement in statements)
    return [name for statement in statements for name in statement.columns] if is_exact else []


def best_path(
    record: MemoryRecord, paths: Iterable[Path], catalog: Mapping[str, str], waived: Collection[str] = ()
) -> Path | None:
    """Return the shortest path that a caveat follows to its end, or None. `catalog` has the columns of its entities."""
    about = {*record.entity_urns, *record.detected_urns}
    columns = _columns_of(record, catalog)
    fitting = [
        path
        for path in paths
        if path.urns[0] in about
        and (not path.is_of_columns or path.urns[0] not in columns or path.columns[0].lower() in columns[path.urns[0]])
        and not _is_waived(path, waived)
    ]
    best = min(fitting, key=lambda path: (len(path.urns), not path.is_of_columns, path.columns), default=None)
    if best is None or best.urns[0] in columns:
        return best
    return replace(best, columns=[""] * len(best.urns))


def catalog_columns(rows: Sequence[str] | None) -> dict[str, str]:
    """Return the columns of each entity, separated by spaces, from a value of CATALOG_COLUMNS."""
    return {urn: columns for urn, _, columns in (row.partition(SEPARATOR) for row in rows or ())}


def _is_waived(path: Path, waived: Collection[str]) -> bool:
    steps = list(zip(path.urns, path.columns, strict=True))[1:]
    return any(f"{urn}{SEPARATOR}" in waived or f"{urn}{SEPARATOR}{column.lower()}" in waived for urn, column in steps)


def _columns_of(record: MemoryRecord, catalog: Mapping[str, str]) -> Mapping[str, set[str]]:
    """Return the columns that a caveat is about, in lower case, by entity. It is about all columns of other entities.

    These are the columns it states or, if it states none of an entity, those that its text names unmistakably.
    """
    columns: dict[str, set[str]] = {}
    for column in record.related_columns:
        columns.setdefault(str(column.get("urn")), set()).add(simple_path(str(column.get("column"))).lower())
    text = record.content.lower()
    for urn, listed in catalog.items():
        named = {name for name in listed.lower().split() if is_identifier(name) and has_word(text, name)}
        if named and urn not in columns:
            columns[urn] = named
    return columns


def _short(urn: str) -> str:
    return entity_name(urn).rpartition(".")[2]

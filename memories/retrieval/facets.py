"""Facet counts for the filters of a memory list, computed in one query.

Each facet is counted under all filters except its own. The base rows are those that match all filters that are not
facets. They are read at most once, and only the newest of them:

- If the filters set a value for a facet, the facet counts those of the base rows that match the values of the other
  facets.
- Any other facet counts at most MAX_MATCHING of the rows that match all filters. If the filters set no value for any
  facet, these are the base rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from foundation.database.queryset_sql import CompiledQuery
from foundation.people.caller import Caller
from memories.queries import MAX_COUNT, MAX_FACET
from memories.retrieval.filters import LISTED, Filters, by_status, visible_rows

# Facet → the field of Filters that it sets, the condition on a row, the SQL expression of its value, and a join that
# the expression needs.
FACETS: dict[str, tuple[str, str, str, str]] = {
    "dimension": ("dimension", "dimension = %s", "dimension", ""),
    "category": ("category", "category = %s", "category", ""),
    "persona": ("persona", "persona = %s", "persona", ""),
    "tag": ("tags", "tags @> %s::varchar[]", "value", ", unnest(tags) AS value"),
    "entity": (
        "entity",
        "(entity_urns || detected_urns) @> ARRAY[%s]::varchar[]",
        "value",
        ", unnest(entity_urns || detected_urns) AS value",
    ),
}
UNFILTERED: dict[str, Any] = {"dimension": "", "category": "", "persona": "", "tags": (), "entity": ""}
READ = ("dimension", "category", "persona", "tags", "entity_urns", "detected_urns")
# Maximum number of rows read for the counts of values. It keeps the statement under 100 ms with 200,000 memories
# (bench/pages.py --large).
MAX_ROWS = 2_000
MAX_MATCHING = 2_000  # the same, of the rows that match all filters

VALUES = "(SELECT {name}, {value}::text, count(*) FROM {table} WHERE {rule} GROUP BY 2 ORDER BY 3 DESC, 2 LIMIT {most})"
NUMBER = "SELECT {name}, {value}, count(*) FROM {table}"

Counts = dict[str, list[tuple[str, int]]]


def counts(caller: Caller, filters: Filters) -> Counts:
    """Return the most frequent values of each facet with their counts, by facet.

    The keys `status` and `owner` have all their values, each counted up to MAX_COUNT + 1. The values of `owner` are ""
    (all owners) and "me". The only value of `about` is "unsettled". The key `least` has the facets whose counts may be
    lower bounds, because a limit on the rows was reached, each with the number of rows counted.
    """
    tables = Tables(caller)
    base = replace(filters, **UNFILTERED)
    chosen_names = {name for name, (field, *_) in FACETS.items() if getattr(filters, field)}
    parts: list[str] = []
    params: list[Any] = []
    for name, (_, _, value, join) in FACETS.items():
        table = tables.read(base if name in chosen_names or not chosen_names else filters)
        other_facets = [
            FACETS[facet] for facet in FACETS if facet in chosen_names and facet != name and name in chosen_names
        ]
        rule = " AND ".join(condition for _, condition, _, _ in other_facets) or "true"
        params += [_value(filters, field) for field, *_ in other_facets]
        parts.append(VALUES.format(name=f"'{name}'", value=value, table=table + join, rule=rule, most=MAX_FACET))
        parts.append(NUMBER.format(name="'least'", value=f"'{name}'", table=table))
    for status in LISTED:
        table = tables.count(replace(filters, **by_status(status)))
        parts.append(NUMBER.format(name="'status'", value=f"'{status}'", table=table))
    for value, owner in (("", ""), ("me", caller.email)):
        table = tables.count(replace(filters, owner=owner))
        parts.append(NUMBER.format(name="'owner'", value=f"'{value}'", table=table))
    table = tables.count(replace(filters, unsettled=True))
    parts.append(NUMBER.format(name="'about'", value="'unsettled'", table=table))
    facet_counts: Counts = {name: [] for name in (*FACETS, "status", "owner", "about", "least")}
    # Names, columns and limits are the constants above; every value from outside is a parameter.
    for name, value, number in tables.statement.run(" UNION ALL ".join(parts), params):
        facet_counts[name].append((value, number))
    limits = {name: MAX_MATCHING if chosen_names and name not in chosen_names else MAX_ROWS for name in FACETS}
    facet_counts["least"] = [(name, rows) for name, rows in facet_counts["least"] if rows >= limits[name]]
    return facet_counts


def _value(filters: Filters, field: str) -> Any:
    value = getattr(filters, field)
    return value if isinstance(value, str) else list(value)


class Tables:
    """The tables of one statement, each with the rows that match some filters. Equal tables are read once."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.statement = CompiledQuery()
        self._tables: list[tuple[Filters, str, bool]] = []

    def read(self, filters: Filters) -> str:
        """Return the name of a table with the columns of facets.

        It has the rows that match the filters: at most MAX_MATCHING, or the MAX_ROWS newest if no facet filter is set.
        """
        rows = visible_rows(self.caller, filters).values(*READ)
        if all(getattr(filters, field) == empty for field, empty in UNFILTERED.items()):
            return self._table(filters, rows.order_by("-created_at", "id")[:MAX_ROWS], counts=False)
        return self._table(filters, rows.order_by()[:MAX_MATCHING], counts=False)

    def count(self, filters: Filters) -> str:
        """Return the name of a table with the primary keys of the matching rows, at most MAX_COUNT + 1."""
        rows = visible_rows(self.caller, filters).order_by().values("pk")
        return self._table(filters, rows[: MAX_COUNT + 1], counts=True)

    def _table(self, filters: Filters, rows: Any, *, counts: bool) -> str:
        for table_filters, name, counted in self._tables:
            if table_filters == filters and counted == counts:
                return name
        name = self.statement.table(rows)
        self._tables.append((filters, name, counts))
        return name

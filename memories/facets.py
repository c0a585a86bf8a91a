"""Counts beside filters, all in one round trip: each facet under all filters but its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.db import connection

from memories.access import Caller
from memories.models import Status
from memories.queries import COUNT_MOST, FACET_MOST
from memories.search import Filters, in_scope

# Facet → the filter that it sets, what clears that, and how its values are read from a row.
COLUMNS: dict[str, tuple[str, Any, str, str]] = {
    "dimension": ("dimension", "", "dimension", ""),
    "category": ("category", "", "category", ""),
    "persona": ("persona", "", "persona", ""),
    "tag": ("tags", (), "value", ", unnest(tags) AS value"),
    "entity": ("entity", "", "value", ", unnest(entity_urns) AS value"),
}
READ = ("dimension", "category", "persona", "tags", "entity_urns")

Counts = dict[str, list[tuple[str, int]]]


VALUES = "(SELECT {name}, {value}::text, count(*) FROM {scope}{more} GROUP BY 2 ORDER BY 3 DESC, 2 LIMIT {most})"
NUMBER = "SELECT {name}, {value}, count(*) FROM {scope}"


def counts(caller: Caller, filters: Filters) -> Counts:
    """Facet → its commonest values with counts, among the newest COUNT_MOST rows; `status` and `owner` with all of
    theirs, each up to COUNT_MOST + 1. The owner's values are "" for everybody and "me"."""
    scopes = Scopes(caller)
    parts = []
    for name, (field, empty, value, more) in COLUMNS.items():
        scope = scopes.read(replace(filters, **{field: empty}))
        parts.append(VALUES.format(name=f"'{name}'", value=value, scope=scope, more=more, most=FACET_MOST))
    for status in Status.values:
        scope = scopes.count(replace(filters, statuses=[status]))
        parts.append(NUMBER.format(name="'status'", value=f"'{status}'", scope=scope))
    for value, owner in (("", ""), ("me", caller.email)):
        scope = scopes.count(replace(filters, owner=owner))
        parts.append(NUMBER.format(name="'owner'", value=f"'{value}'", scope=scope))
    found: Counts = {name: [] for name in (*COLUMNS, "status", "owner")}
    with connection.cursor() as cursor:
        # Names, columns and limits are the constants above; every value from outside is a parameter.
        cursor.execute(f"WITH {', '.join(scopes.tables)} {' UNION ALL '.join(parts)}", scopes.params)
        for name, value, number in cursor.fetchall():
            found[name].append((value, number))
    return found


class Scopes:
    """The rows under different filters, as tables of one statement; equal ones are read once."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.tables: list[str] = []
        self.params: list[Any] = []
        self._known: list[tuple[Filters, str]] = []

    def read(self, filters: Filters) -> str:
        """A table with the columns that facets are made of, of the newest rows."""
        rows = in_scope(self.caller, filters).order_by("-created_at", "id")
        return self._table(filters, rows.values(*READ)[: COUNT_MOST + 1])

    def count(self, filters: Filters) -> str:
        """A table that is only good for being counted."""
        return self._table(filters, in_scope(self.caller, filters).order_by().values("pk")[: COUNT_MOST + 1])

    def _table(self, filters: Filters, rows: Any) -> str:
        for known, name in self._known:
            if known == filters:
                return name
        name = f"scope_{len(self.tables)}"
        sql, params = rows.query.sql_with_params()
        self.tables.append(f"{name} AS MATERIALIZED ({sql})")
        self.params += params
        self._known.append((filters, name))
        return name

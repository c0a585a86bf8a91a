"""Description of a data set: its fields, their types, and the distribution of their values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis.querying.query import Group, Scope, run

ROWS = 5_000  # maximum number of rows that are described; the newest rows are taken
MAX_FIELDS = 400  # maximum number of fields that are described; fields that more rows have are preferred
EXAMPLES = 5


@dataclass(frozen=True)
class FieldSummary:
    name: str
    types: dict[str, int]
    missing: int
    distinct: int
    examples: list[str]


@dataclass(frozen=True)
class Description:
    fields: list[FieldSummary]
    rows_read: int
    total: int
    more_fields: int = 0  # number of fields that are left out because of MAX_FIELDS


# Counts the rows for each combination of field, type and value. A field's types, examples, and numbers of missing and
# distinct values are computed from these counts. Texts of more than 60 characters are told apart by their MD5 hashes.
DESCRIBE = """
    WITH rows AS (SELECT data {scope} ORDER BY id DESC LIMIT %s),
    pairs AS (SELECT key, jsonb_typeof(value) AS kind, value #>> '{{}}' AS text FROM rows, jsonb_each(data)),
    texts AS (
        SELECT key, kind, left(text, 60) AS head,
               CASE WHEN length(text) > 60 THEN md5(text) ELSE '' END AS rest, count(*) AS n
        FROM pairs GROUP BY key, kind, head, rest),
    merged AS (
        SELECT key, head, rest, sum(n) AS n,
               row_number() OVER (PARTITION BY key ORDER BY head IS NULL, sum(n) DESC, head, rest) AS place
        FROM texts GROUP BY key, head, rest),
    kinds AS (
        SELECT key, jsonb_object_agg(kind, n) AS types, sum(n) AS held
        FROM (SELECT key, kind, sum(n) AS n FROM texts GROUP BY key, kind) AS each GROUP BY key),
    fields AS (
        SELECT key, count(head) AS different,
               array_agg(head ORDER BY place) FILTER (WHERE place <= %s AND head IS NOT NULL) AS examples
        FROM merged GROUP BY key)
    SELECT key, types, (SELECT count(*) FROM rows) - held, different, examples, count(*) OVER ()
    FROM kinds JOIN fields USING (key) ORDER BY held DESC, key LIMIT %s
"""


def describe(scope: Scope, total: int | None = None) -> Description:
    """Describe the fields of the newest ROWS rows. `total` is the number of all rows, if already known."""
    base, params = scope.sql()
    if total is None:
        ((total,),) = run(f"SELECT count(*) {base}", params)
    rows = run(DESCRIBE.format(scope=base), [*params, ROWS, EXAMPLES, MAX_FIELDS])
    fields = [
        FieldSummary(key, json.loads(kinds), int(missing), int(different), list(examples or []))
        for key, kinds, missing, different, examples, _ in rows
    ]
    more_fields = rows[0][-1] - len(rows) if rows else 0
    return Description(sorted(fields, key=lambda field: field.name), min(total, ROWS), total, more_fields)


DISTRIBUTIONS = """
    WITH counted AS (
        SELECT field, data->>field AS value, count(*) AS n
        FROM (SELECT data {scope}) AS rows, unnest(%s::text[]) AS field GROUP BY field, value),
    placed AS (
        SELECT *, row_number() OVER (PARTITION BY field ORDER BY n DESC, value) AS place,
               sum(n) OVER (PARTITION BY field) AS total
        FROM counted)
    SELECT field, value, n, total FROM placed WHERE place <= %s ORDER BY field, place
"""


def distributions(scope: Scope, names: Sequence[str], top_n: int) -> dict[str, tuple[list[Group], int]]:
    """Return, for each field, its `top_n` most frequent values and the number of rows with other values."""
    base, params = scope.sql()
    result: dict[str, tuple[list[Group], int]] = {}
    rows: list[tuple[Any, ...]] = run(DISTRIBUTIONS.format(scope=base), [*params, list(names), top_n])
    for name, value, count, total in rows:
        groups, other_count = result.get(name, ([], int(total)))
        result[name] = ([*groups, Group([value], count)], other_count - count)
    return {name: result[name] for name in names if name in result}

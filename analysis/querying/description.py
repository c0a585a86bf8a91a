"""Description of a data set: its fields, their types, and the distribution of their values."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db import connection, transaction

from analysis.querying.query import QueryScope, RowGroup, documents, run

ROWS = 5_000  # maximum number of rows that are described; the newest rows are taken
MAX_FIELDS = 400  # maximum number of fields that are described; fields that more rows have are preferred
EXAMPLES = 5
MAX_TEXT = 60  # maximum number of characters of an example
CHUNK = 500  # number of rows that are counted at once


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


class _Field:
    """Counts of one field: its rows by type, and by text."""

    def __init__(self) -> None:
        self.types: Counter[str] = Counter()
        self.texts: Counter[str] = Counter()

    def add(self, values: Sequence[Any]) -> None:
        kinds = Counter(map(type, values))
        for kind, count in kinds.items():
            self.types[TYPES[kind]] += count
        present = [value for value in values if value is not None] if type(None) in kinds else values
        others = kinds.keys() - {type(None)}
        if others == {str} and max(map(len, present)) <= MAX_TEXT:
            self.texts.update(present)
        elif len(others) == 1 and not others & {list, dict}:
            for value, count in Counter(present).items():  # values of one type that are equal have the same text
                self.texts[_text(value)] += count
        else:
            self.texts.update(map(_text, present))

    def summary(self, name: str, rows: int) -> FieldSummary:
        return FieldSummary(
            name, dict(self.types.most_common()), rows - self.types.total(), len(self.texts), self._examples()
        )

    def _examples(self) -> list[str]:
        """Return the most frequent texts, and among equally frequent ones the first in alphabetical order."""
        least = min(heapq.nlargest(EXAMPLES, self.texts.values()), default=0)
        frequent = [(-count, text) for text, count in self.texts.items() if count > least]
        others = heapq.nsmallest(EXAMPLES - len(frequent), (t for t, count in self.texts.items() if count == least))
        return [text[:MAX_TEXT] for text in [*(text for _, text in sorted(frequent)), *others]]


TYPES: dict[type, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    dict: "object",
}


def _text(value: Any) -> str:
    """Return the value as text. Long texts are told apart by a hash after their beginning."""
    if isinstance(value, str):
        text = value
    elif type(value) in (int, float):  # a bool is written as in JSON
        text = repr(value)
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + hashlib.sha256(text.encode()).hexdigest()


def _columns(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield each field with its values in the rows that have it."""
    if all(row.keys() == rows[0].keys() for row in rows):  # then also in the same order, which jsonb determines
        yield from zip(rows[0], zip(*(row.values() for row in rows), strict=True), strict=True)
    else:
        for name in dict.fromkeys(chain.from_iterable(rows)):
            yield name, [row[name] for row in rows if name in row]


def describe(scope: QueryScope, total: int | None = None) -> Description:
    """Describe the fields of the newest ROWS rows. `total` is the number of all rows, if already known.

    The values are counted here, because PostgreSQL takes several times longer to take apart and group wide rows.
    """
    base, params = scope.sql()
    if total is None:
        ((total,),) = run(f"SELECT count(*) {base}", params)
    fields: dict[str, _Field] = {}
    rows_read = 0
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(f"SELECT data {base} ORDER BY id DESC LIMIT %s", [*params, ROWS])
        while chunk := documents(cursor.fetchmany(CHUNK)):
            rows_read += len(chunk)
            for name, values in _columns(chunk):
                fields.setdefault(name, _Field()).add(values)
    most_present = sorted(fields, key=lambda name: (-fields[name].types.total(), name))[:MAX_FIELDS]
    summaries = [fields[name].summary(name, rows_read) for name in sorted(most_present)]
    return Description(summaries, rows_read, max(total, rows_read), len(fields) - len(summaries))


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


def distributions(scope: QueryScope, names: Sequence[str], top_n: int) -> dict[str, tuple[list[RowGroup], int]]:
    """Return, for each field, its `top_n` most frequent values and the number of rows with other values."""
    base, params = scope.sql()
    result: dict[str, tuple[list[RowGroup], int]] = {}
    rows: list[tuple[Any, ...]] = run(DISTRIBUTIONS.format(scope=base), [*params, list(names), top_n])
    for name, value, count, total in rows:
        groups, other_count = result.get(name, ([], int(total)))
        result[name] = ([*groups, RowGroup([value], count)], other_count - count)
    return {name: result[name] for name in names if name in result}

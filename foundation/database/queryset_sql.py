"""Querysets as parts of one SQL statement, to save round trips.

The ORM compiles each part, so visibility rules are defined only once, as querysets. Values are always sent as
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from django.core.exceptions import EmptyResultSet, FullResultSet
from django.db.models import QuerySet
from psycopg.sql import Literal

from foundation.database.replica import connection_for_reading

NOTHING = "SELECT NULL WHERE false"
PLACEHOLDER = re.compile(r"%%|%s")


@dataclass
class CompiledQuery:
    """An SQL statement whose tables are querysets."""

    tables: list[str] = field(default_factory=list)
    params: list[Any] = field(default_factory=list)

    def table(self, rows: QuerySet[Any, Any]) -> str:
        """Add a queryset as a materialized table and return the table's name in the statement."""
        try:
            sql, params = rows.query.sql_with_params()
        except EmptyResultSet:  # the ORM knows that nothing can match
            sql = NOTHING
            params = ()
        name = f"table_{len(self.tables)}"
        self.tables.append(f"{name} AS MATERIALIZED ({sql})")
        self.params += params
        return name

    def run(self, select: str, params: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Execute a SELECT over the tables and return its rows. `select` must not contain values from requests."""
        with connection_for_reading().cursor() as cursor:
            cursor.execute(f"WITH {', '.join(self.tables)} {select}", [*self.params, *params])
            return list(cursor.fetchall())


class Condition(NamedTuple):
    """The WHERE clause of a queryset with named parameters, so that a statement can use it several times."""

    sql: str
    params: dict[str, Any]


def condition(rows: QuerySet[Any, Any], prefix: str = "condition") -> Condition:
    compiler = rows.query.get_compiler("default")
    try:
        sql, values = compiler.compile(rows.query.where)
    except FullResultSet:
        return Condition("true", {})
    except EmptyResultSet:
        return Condition("false", {})
    return Condition(*name_parameters(sql, values, prefix))


def name_parameters(sql: str, values: Sequence[Any], prefix: str) -> tuple[str, dict[str, Any]]:
    """Replace each `%s` by `%(prefix0)s`, `%(prefix1)s`, … and return the SQL and the values by these names."""
    numbers = count()
    replaced = PLACEHOLDER.sub(lambda m: m[0] if m[0] == "%%" else f"%({prefix}{next(numbers)})s", sql)
    if (placeholders := next(numbers)) != len(values):
        raise ValueError(f"{placeholders} placeholders for {len(values)} values")
    return replaced, {f"{prefix}{number}": value for number, value in enumerate(values)}


def fragment(rows: QuerySet[Any, Any], stand_ins: Mapping[str, str], annotation: str = "") -> str:
    """Return the WHERE clause of a queryset, or one of its annotations, as SQL without parameters.

    A statement that is compiled once has other values in each call. The queryset is built with stand-ins for them: a
    text, or a list of one text. `stand_ins` has the SQL that takes the place of each, such as `%(email)s`. All other
    values are constants of the code and become literals.
    """
    compiler = rows.query.get_compiler("default")
    try:
        sql, values = compiler.compile(rows.query.annotations[annotation] if annotation else rows.query.where)
    except FullResultSet:
        return "true"
    except EmptyResultSet:
        return "false"
    remaining = iter(values)

    def inlined(match: re.Match[str]) -> str:
        return match[0] if match[0] == "%%" else _inlined(next(remaining), stand_ins)

    return f"({PLACEHOLDER.sub(inlined, sql)})"


def _inlined(value: Any, stand_ins: Mapping[str, str]) -> str:
    key = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(key, str) and key in stand_ins:
        return stand_ins[key]
    return str(Literal(value).as_string()).replace("%", "%%")

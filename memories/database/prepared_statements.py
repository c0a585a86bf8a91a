"""Statements that each connection plans once: for what every call asks or writes, where planning, or what the ORM does
around it, takes longer than the work itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import connection, models
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from memories.lazy_numpy import np

INSERT = "INSERT INTO {table} ({columns}) VALUES ({values})"
INSERT_MISSING = f"{INSERT} ON CONFLICT DO NOTHING"
QUICK_INSERT = """
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO {table} ({columns}) SELECT {values} FROM quick"""

NATIVE = (str, UUID)  # what the ORM hands on as it is, of these fields
NATIVE_FIELDS = (models.CharField, models.TextField, models.UUIDField)


class VectorDumper(Dumper):
    """An array (dimensions,) as pgvector receives it in binary: the number of dimensions, two bytes without meaning,
    and each number as a big-endian float4. Written as text, a vector takes longer than the rest of its row."""

    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return np.array([len(obj), 0], ">u2").tobytes() + np.asarray(obj, ">f4").tobytes()


psycopg.adapters.register_dumper("numpy.ndarray", VectorDumper)


def rows(
    statement: str, values: Mapping[str, Any] | Sequence[Any], *, binary: bool = False, once: bool = False
) -> list[tuple[Any, ...]]:
    """What the statement answers. Values go beside it, not in it: each place must have a type that PostgreSQL can tell.
    Where one plan for all values would cost more, PostgreSQL goes on planning for each (its plan_cache_mode). With
    `once`, and with DATABASE_PREPARES off, for a pooler between, everything is done anew. With `binary`, values come as
    PostgreSQL holds them, which is quicker for much bytea; Python's types are the same."""
    connection.ensure_connection()
    with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
        cursor.execute(statement, values, prepare=settings.DATABASE_PREPARES and not once, binary=binary)
        return cursor.fetchall() if cursor.description else []


def instances(
    model: type[models.Model], criterion: str, values: Mapping[str, Any], *, defer: Sequence[str] = ()
) -> list[Any]:
    """The model's rows that meet a condition, without the columns of `defer`."""
    statement, names, converters = _selection(model, tuple(defer))
    loaded = []
    for row in rows(f"{statement} WHERE {criterion}", values):
        cells = list(row)
        for position, convert in converters:
            cells[position] = convert(cells[position], None, connection)
        loaded.append(model.from_db(connection.alias, names, cells))
    return loaded


def insert(news: Sequence[models.Model], *, template: str = INSERT) -> None:
    """New rows of one table, with their ids and without signals."""
    if not news:
        return
    statement = _insertion(type(news[0]), template)
    if len(news) == 1:
        rows(statement, _values(news[0]))
    else:
        connection.ensure_connection()
        with connection.wrap_database_errors, psycopg.Cursor(connection.connection) as cursor:
            cursor.executemany(statement, [_values(new) for new in news])
    for new in news:
        new._state.adding, new._state.db = False, connection.alias


def insert_missing(news: Sequence[models.Model]) -> None:
    """As insert(); a row that its table has already is passed over."""
    insert(news, template=INSERT_MISSING)


def insert_quickly(new: models.Model) -> None:
    """A new row, committed as in connections.quick_commit(), in one statement where that takes four."""
    rows(_insertion(type(new), QUICK_INSERT), _values(new))


@cache
def _selection(model: type[models.Model], defer: tuple[str, ...]) -> tuple[str, list[str], list[tuple[int, Any]]]:
    """The SELECT, the names of what it gives, and how values of some places become Python's."""
    fields = [field for field in model._meta.concrete_fields if field.name not in defer]
    columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    converters = [(n, convert) for n, field in enumerate(fields) for convert in field.get_db_converters(connection)]
    selection = f"SELECT {columns} FROM {table}"  # noqa: S608 - the model's own names
    return selection, [field.attname for field in fields], converters


@cache
def _insertion(model: type[models.Model], template: str) -> str:
    fields = _fields(model)
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    return template.format(table=table, columns=columns, values=", ".join(["%s"] * len(fields)))


@cache
def _fields(model: type[models.Model]) -> list[Any]:
    """Its columns that PostgreSQL does not fill in itself."""
    return [
        field
        for field in model._meta.concrete_fields
        if not (field.generated or isinstance(field, models.AutoField | models.BigAutoField))
    ]


def _values(new: models.Model) -> list[Any]:
    values = [(field, getattr(new, field.attname)) for field in _fields(type(new))]
    array = np.ndarray  # looked up once: np is lazy
    return [
        value
        if isinstance(value, array) or (type(value) in NATIVE and type(field) in NATIVE_FIELDS)
        else field.get_db_prep_save(value, connection)
        for field, value in values
    ]

"""Prepared statements, which save planning, and functions that select and insert model instances with them.

Use them for frequent queries and inserts for which planning, or the work of the ORM, takes longer than the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.db.models.base import ModelState
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

from foundation.database import replica
from foundation.database.engine.base import (
    NumberedCursor,
    PublicCursor,
    StatementCursor,
    execute_together,
    pipelined,
)
from foundation.lazy_numpy import np

INSERT = "INSERT INTO {table} ({columns}) VALUES ({values})"
INSERT_MISSING = f"{INSERT} ON CONFLICT DO NOTHING"
# Inserts with an asynchronous commit in one statement. Opening a transaction, switching off the synchronous commit and
# committing would take three more statements.
QUICK_INSERT = """
    WITH quick AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO {table} ({columns}) SELECT {values} FROM quick"""

PLACEHOLDER = re.compile(r"%%|%s|%\((\w+)\)s")

# Values of these types in these fields need no conversion by the ORM.
NATIVE = (str, UUID)
NATIVE_FIELDS = (models.CharField, models.TextField, models.UUIDField)


class VectorDumper(Dumper):
    """Dump an array (dimensions,) in pgvector's binary format. Writing it as text would take much longer.

    The format is the number of dimensions, two unused bytes, and each number as a big-endian float4.
    """

    format = Format.BINARY

    def dump(self, obj: Any) -> Buffer:
        return np.array([len(obj), 0], ">u2").tobytes() + np.asarray(obj, ">f4").tobytes()


psycopg.adapters.register_dumper("numpy.ndarray", VectorDumper)


def rows(
    statement: str,
    values: Mapping[str, Any] | Sequence[Any],
    *,
    binary: bool = False,
    once: bool = False,
    primary: bool = False,
    public: bool = False,
) -> list[tuple[Any, ...]]:
    """Execute a statement and return its rows. With `primary`, it is never executed on a replica.

    A `public` statement is sent without the identity, which saves a statement. It reads or inserts only rows of tables
    without policies. Of other tables it would find no rows, unless a transaction is open that has the identity already.

    Values are sent separately from the SQL, so PostgreSQL must be able to infer the type of each placeholder. If one
    plan for all values would be more expensive, PostgreSQL plans each execution (plan_cache_mode=auto).

    The statement is not prepared if `once` is set, or if DATABASE_PREPARES is off (for connection poolers that don't
    support prepared statements). With `binary`, PostgreSQL sends the rows in binary format, which is quicker for large
    bytea columns. The rows have the same Python types in both formats.
    """
    run = partial(execute, statement=statement, values=values, binary=binary, once=once, public=public)
    return run(connections[DEFAULT_DB_ALIAS]) if primary else replica.read(run)


def execute(
    database: Any,
    statement: str,
    values: Mapping[str, Any] | Sequence[Any],
    *,
    binary: bool = False,
    once: bool = False,
    public: bool = False,
) -> list[tuple[Any, ...]]:
    """Execute a statement on one of Django's connections, as `rows` does."""
    database.ensure_connection()
    cursor_of = PublicCursor if public else NumberedCursor
    with database.wrap_database_errors, cursor_of(database.connection) as cursor:
        cursor.execute(*_ordered(statement, values), prepare=settings.DATABASE_PREPARES and not once, binary=binary)
        return _fetched(cursor)


@contextmanager
def in_one_transaction() -> Iterator[None]:
    """Execute the reading statements of a block as one transaction, so that the identity is sent once.

    Don't wait for inference or for another system in the block. On a replica, each statement stays one of its own,
    because it may be repeated on the primary.
    """
    database = replica.connection_for_reading()
    if database.alias == replica.ALIAS:
        yield
        return
    database.ensure_connection()
    with database.wrap_database_errors, pipelined(database.connection):
        yield


def rows_of_each(*statements: tuple[str, Mapping[str, Any] | Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
    """Execute reading statements that do not need each other's rows, in one round trip; return the rows of each."""
    ordered = [_ordered(statement, values) for statement, values in statements]

    def run(database: Any) -> list[list[tuple[Any, ...]]]:
        database.ensure_connection()
        with database.wrap_database_errors:
            cursors = execute_together(database.connection, ordered, prepare=settings.DATABASE_PREPARES)
            return [_fetched(cursor) for cursor in cursors]

    return replica.read(run)


def _fetched(cursor: psycopg.RawCursor[Any]) -> list[tuple[Any, ...]]:
    # In a pipeline the rows have not arrived yet. `rownumber`, because `description` would describe each column first.
    has_rows = cursor.connection.pgconn.pipeline_status or cursor.rownumber is not None
    return cursor.fetchall() if has_rows else []


def _ordered(statement: str, values: Mapping[str, Any] | Sequence[Any]) -> tuple[str, list[Any]]:
    numbered, names = _numbered(statement)
    return numbered, [values[name] for name in names] if isinstance(values, Mapping) else list(values)


@lru_cache(maxsize=1_000)
def _numbered(statement: str) -> tuple[str, list[str]]:
    """Return a statement with the placeholders $1, $2, …, and the names of their values if they have names.

    psycopg would parse each statement of more than 4,096 characters again.
    """
    numbers: dict[str, int] = {}
    positions = count(1)

    def numbered(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        return f"${numbers.setdefault(match[1], len(numbers) + 1) if match[1] else next(positions)}"

    return PLACEHOLDER.sub(numbered, statement), list(numbers)


def instances(
    model: type[models.Model], criterion: str, values: Mapping[str, Any], *, defer: Sequence[str] = ()
) -> list[Any]:
    """Return the model's instances that match an SQL condition, without the fields in `defer`."""
    columns, build = columns_of(model, tuple(defer))
    table = connection.ops.quote_name(model._meta.db_table)
    selection = f"SELECT {columns} FROM {table} WHERE {criterion}"  # noqa: S608 - the model's own names
    return [build(row) for row in rows(selection, values)]


@cache
def columns_of(model: type[models.Model], defer: tuple[str, ...] = ()) -> tuple[str, Callable[[Sequence[Any]], Any]]:
    """Return the model's columns for a SELECT, without the fields in `defer`, and what builds an instance of a row."""
    fields = [field for field in model._meta.concrete_fields if field.name not in defer]
    table = connection.ops.quote_name(model._meta.db_table)
    names = [field.attname for field in fields]
    converters = [
        (position, convert) for position, field in enumerate(fields) for convert in field.get_db_converters(connection)
    ]

    def build(row: Sequence[Any]) -> models.Model:
        cells = list(row)
        for position, convert in converters:
            cells[position] = convert(cells[position], None, connection)
        return _instance(model, names, cells)

    return ", ".join(f"{table}.{connection.ops.quote_name(str(field.column))}" for field in fields), build


def _instance(model: type[models.Model], names: Sequence[str], cells: Sequence[Any]) -> models.Model:
    """Return what `from_db` returns, in half the time: without signals, and without an __init__ of the model."""
    instance = model.__new__(model)
    instance._state = ModelState()
    instance._state.adding = False
    instance._state.db = connection.alias
    instance.__dict__.update(zip(names, cells, strict=True))
    return instance


def insert(objects: Sequence[models.Model], *, template: str = INSERT, public: bool = False) -> None:
    """Insert new instances of one model, without signals. Ids generated by PostgreSQL are not set on the instances.

    `public` is as in `rows`; it holds for one instance alone.
    """
    if not objects:
        return
    statement = _insertion(type(objects[0]), template)
    if len(objects) == 1:
        rows(statement, _values(objects[0]), primary=True, public=public)
    else:
        connection.ensure_connection()
        with connection.wrap_database_errors, StatementCursor(connection.connection) as cursor:
            cursor.executemany(statement, [_values(instance) for instance in objects])
    for instance in objects:
        instance._state.adding = False
        instance._state.db = connection.alias


def insert_missing(objects: Sequence[models.Model]) -> None:
    """Insert new instances, except those that violate a unique constraint."""
    insert(objects, template=INSERT_MISSING)


def insert_quickly(instance: models.Model, *, public: bool = False) -> None:
    """Insert a new instance with an asynchronous commit, as in `connections.async_commit`."""
    rows(_insertion(type(instance), QUICK_INSERT), _values(instance), primary=True, public=public)


@cache
def _insertion(model: type[models.Model], template: str) -> str:
    fields = _insertable_fields(model)
    columns = ", ".join(connection.ops.quote_name(field.column) for field in fields)
    table = connection.ops.quote_name(model._meta.db_table)
    return template.format(table=table, columns=columns, values=", ".join(["%s"] * len(fields)))


@cache
def _insertable_fields(model: type[models.Model]) -> list[Any]:
    return [
        field
        for field in model._meta.concrete_fields
        if not (field.generated or isinstance(field, models.AutoField | models.BigAutoField))
    ]


def _values(instance: models.Model) -> list[Any]:
    values = [(field, getattr(instance, field.attname)) for field in _insertable_fields(type(instance))]
    array = np.ndarray  # looked up once, because np is a lazy object
    return [
        value
        if isinstance(value, array) or (type(value) in NATIVE and type(field) in NATIVE_FIELDS)
        else field.get_db_prep_save(value, connection)
        for field, value in values
    ]

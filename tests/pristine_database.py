"""Undo the commits of a test, faster than Django's flush.

Django truncates all tables and then creates content types, permissions and groups anew. That takes most of a second,
whatever the test wrote. Here only tables with rows are emptied, and tables that migrations filled get their rows back,
so a test finds the same database whatever ran before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from django.db import connection, transaction
from django.test import TransactionTestCase

from foundation.database import identity

TABLES = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
COPIES = "pristine"  # a schema with a copy of each table that migrations filled


@contextmanager
def kept_pristine() -> Iterator[None]:
    """Remember what the tables contain now, and give it back to them after each test that commits."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        names = [name for (name,) in cursor.fetchall()]
        filled = with_rows(names)
        cursor.execute(f"DROP SCHEMA IF EXISTS {COPIES} CASCADE")  # of an earlier run with --reuse-db
        cursor.execute(f"CREATE SCHEMA {COPIES}")
        for name in filled:
            cursor.execute(f"CREATE TABLE {COPIES}.{name} AS TABLE {name}")
    empty = [name for name in names if name not in filled]
    with patch.object(TransactionTestCase, "_fixture_teardown", lambda _: restore(empty, filled)):
        yield


def restore(empty: list[str], filled: list[str]) -> None:
    with identity.acting_as(None), transaction.atomic(), connection.cursor() as cursor:
        # neither foreign keys nor triggers: afterwards the tables agree with each other again
        cursor.execute("SET LOCAL session_replication_role = replica")
        changed = changed_of(filled)
        for name in [*with_rows(empty), *changed]:
            cursor.execute(f"DELETE FROM {name}")  # noqa: S608 - names from the database catalog
        for name in changed:
            cursor.execute(f"INSERT INTO {name} SELECT * FROM {COPIES}.{name}")  # noqa: S608


def with_rows(names: list[str]) -> list[str]:
    return _names_where("EXISTS (SELECT FROM {table})", names)


def changed_of(names: list[str]) -> list[str]:
    """Return the tables whose rows are not those of their copies."""
    rows = "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {of} t"
    here, copy = rows.format(of="{table}"), rows.format(of=f"{COPIES}.{{table}}")
    return _names_where(f"({here}) IS DISTINCT FROM ({copy})", names)


def _names_where(condition: str, names: list[str]) -> list[str]:
    questions = (f"SELECT '{name}' WHERE {condition.format(table=name)}" for name in names)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(questions))
        return [name for (name,) in cursor.fetchall()]

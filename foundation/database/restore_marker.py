"""The mark of a restore that has not been completed, and the refusal of connections while it stands.

The mark is an empty table with a comment, committed before the first row is loaded and dropped after the last memory
has been erased again. A kill can't skip it, and every process that connects meets it. Only the restore itself, in its
block `ignored`, may use the database meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from django.db import OperationalError, connection, transaction
from django.db.backends.signals import connection_created
from django.dispatch import receiver
from psycopg import sql

FIND = """
    SELECT obj_description(pg_class.oid, 'pg_class') FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace AND nspname = 'public' WHERE relname = 'restore_in_progress'
"""
UNFINISHED = (
    "a restore of {file} has not been completed. The command `restore {file} --continue` completes it, and "
    "the command `restore {file} --start-over` empties the database and restores anew"
)
CHECKED = "commonplace_restore_checked"  # attribute of psycopg's connection

_is_ignored: ContextVar[bool] = ContextVar("restore_marker_is_ignored", default=False)


class RestoreUnfinished(psycopg.OperationalError):
    """`message` is for users: unlike the text of the exception, it does not name the file of the backup."""

    def __init__(self, file: str) -> None:
        super().__init__(UNFINISHED.format(file=file))
        self.message = UNFINISHED.format(file="FILE")


def refusal(raw: psycopg.Connection[Any]) -> RestoreUnfinished | None:
    """Return why this database must not be used, or None if no restore is unfinished in it."""
    row = psycopg.Cursor(raw).execute(FIND).fetchone()
    return RestoreUnfinished(_parse(row[0])["file"]) if row else None


@receiver(connection_created)
def refuse_half_restored(sender: object, connection: Any, **extra: Any) -> None:
    raw = connection.connection
    if _is_ignored.get() or connection.vendor != "postgresql" or getattr(raw, CHECKED, False):
        return
    if unfinished := refusal(raw):
        connection.close()
        raise unfinished
    setattr(raw, CHECKED, True)


def message_of(error: BaseException) -> str:
    """Return a line for the operator if an unfinished restore caused the error, or "" for another error."""
    cause = error if isinstance(error, RestoreUnfinished) else error.__cause__
    return f"The database can't be used: {cause}." if isinstance(cause, RestoreUnfinished) else ""


def refuse() -> None:
    """Raise RestoreUnfinished if a restore is unfinished. Does nothing if the database does not answer."""
    try:
        connection.ensure_connection()
    except OperationalError as error:
        if isinstance(error.__cause__, RestoreUnfinished):
            raise
    finally:
        connection.close()


# -- for the restore itself ------------------------------------------------------------------------------


@contextmanager
def ignored() -> Iterator[None]:
    token = _is_ignored.set(True)
    connection.close()
    try:
        yield
    finally:
        _is_ignored.reset(token)
        connection.close()


def find() -> dict[str, str] | None:
    with connection.cursor() as cursor:
        cursor.execute(FIND)
        row = cursor.fetchone()
    return _parse(row[0]) if row else None


def write(content: dict[str, str]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TABLE public.restore_in_progress ()")
        statement = sql.SQL("COMMENT ON TABLE public.restore_in_progress IS {}")
        cursor.execute(statement.format(sql.Literal(json.dumps(content))))


def remove() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS public.restore_in_progress")


def _parse(comment: str | None) -> dict[str, str]:
    try:
        return {"file": "FILE", **json.loads(comment or "")}
    except (ValueError, TypeError):  # somebody has changed the comment
        return {"file": "FILE"}

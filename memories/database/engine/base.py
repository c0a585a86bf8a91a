"""Cursors that send the identity with each transaction, and the engine that uses them.

The identity is sent as parameters of the transaction, like `SET LOCAL`, so it can't outlast the transaction on a
connection that others use next, and it works behind a pooler that assigns connections per transaction.

- In a transaction, it is sent before the first statement, and again when it has changed.
- A statement outside of a transaction is sent in one pipeline with the identity. PostgreSQL runs a pipeline as one
  transaction, and it takes one round trip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import register_tzloader
from psycopg.pq import TransactionStatus

from memories.database.engine import spans
from memories.database.identity import NOBODY, Identity, current

# Statements that read or write rows. Others, such as VACUUM, may be impossible in a pipeline, and need no identity.
READS_OR_WRITES = re.compile(r"[\s(]*+(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE|TABLE|VALUES|EXPLAIN)\b", re.IGNORECASE)
# attributes of psycopg's connection
SENT = "commonplace_identity"  # the identity that its transaction runs under
ROLE = "commonplace_role"  # the role that it assumes together with an identity, if any


@lru_cache(maxsize=1_000)
def parameters(identity: Identity, role: str) -> tuple[str, list[str]]:
    """Return the statement that sets the identity for the rest of the transaction, and its values."""
    values = {f"commonplace.{name}": value for name, value in vars(identity).items()}
    if role:
        values["role"] = role if identity != NOBODY else "none"
    return _statement(tuple(values)), list(values.values())


def is_about_rows(query: Any) -> bool:
    return isinstance(query, str) and READS_OR_WRITES.match(query) is not None


@cache
def _statement(names: tuple[str, ...]) -> str:
    return "SELECT " + ", ".join(f"set_config('{name}', ${number}, true)" for number, name in enumerate(names, 1))


class SendsIdentity:
    """The part of a cursor that sends the identity."""

    _conn: psycopg.Connection[Any]

    def must_send_identity(self, query: Any) -> bool:
        """Return whether the identity must be sent together with the statement, because no transaction is open.

        In an open transaction, the identity is sent here if the transaction does not run under it yet.
        """
        status = self._conn.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            setattr(self._conn, SENT, NOBODY)
        elif status != TransactionStatus.INTRANS:
            return False
        if getattr(self._conn, SENT, None) == current() or not is_about_rows(query):
            return False
        if status == TransactionStatus.IDLE and self._conn.autocommit:
            return True
        self.send_identity()
        setattr(self._conn, SENT, current())
        return False

    def send_identity(self) -> None:
        statement, values = parameters(current(), getattr(self._conn, ROLE, ""))
        prepares = self._conn.prepare_threshold is not None
        psycopg.RawCursor(self._conn).execute(statement, values, prepare=prepares)


class StatementCursor(SendsIdentity, psycopg.Cursor[Any]):
    """A cursor that sends values separately from the statement, so that the statement can be prepared."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with spans.of_statement(query):
            return self._execute(query, params, **options)

    def _execute(self, query: Any, params: Any, **options: Any) -> Any:
        if self.must_send_identity(query):
            with self._conn.pipeline():
                self.send_identity()
                return super().execute(query, params, **options)
        super().execute(query, params, **options)
        if isinstance(query, str) and query.startswith("ROLLBACK TO"):
            setattr(self._conn, SENT, None)  # unknown: the parameters are those of the savepoint again
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
        with spans.of_statement(query):
            if self.must_send_identity(query):
                with self._conn.pipeline():
                    self.send_identity()
                    return super().executemany(query, params_seq, **options)
            return super().executemany(query, params_seq, **options)


class NumberedCursor(StatementCursor, psycopg.RawCursor[Any]):
    """A StatementCursor for statements with the placeholders $1, $2, …, which psycopg sends without parsing them."""


def execute_together(
    connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Sequence[Any]]], *, prepare: bool
) -> list[NumberedCursor]:
    """Execute several statements in one round trip, and return their cursors. They run in one transaction."""
    cursors = [NumberedCursor(connection) for _ in statements]
    with connection.pipeline():
        if cursors[0].must_send_identity(statements[0][0]):
            cursors[0].send_identity()
        for cursor, (query, values) in zip(cursors, statements, strict=True):
            psycopg.RawCursor.execute(cursor, query, values, prepare=prepare)
    return cursors


class Cursor(StatementCursor, base.Cursor):
    """Django's cursor, which puts the values into the statement."""


class ServerSideCursor(SendsIdentity, base.ServerSideCursor):
    """A cursor for `iterator()`. Outside of a transaction, it outlives the one that declares it."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with spans.of_statement(query):
            if self.must_send_identity(query):
                with self._conn.transaction():
                    self.send_identity()
                    return super().execute(query, params, **options)  # type: ignore[misc]  # the same
            return super().execute(query, params, **options)  # type: ignore[misc]  # the same


class DatabaseWrapper(base.DatabaseWrapper):
    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": Cursor}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        setattr(connection, ROLE, self.settings_dict.get("IDENTITY_ROLE", ""))
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        if name is None:
            return super().create_cursor()
        is_held = self.connection.autocommit
        cursor = ServerSideCursor(self.connection, name=name, scrollable=False, withhold=is_held)  # type: ignore[call-arg]
        register_tzloader(self.timezone, cursor)
        return cursor

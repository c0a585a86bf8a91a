"""Cursors that send the identity with each transaction, and the engine that uses them.

The identity is sent as parameters of the transaction, like `SET LOCAL`, so it can't outlast the transaction on a
connection that others use next, and it works behind a pooler that assigns connections per transaction. The statement
timeout and the parameters of searches are sent together with it (foundation/database/transaction_settings.py).

- In a transaction, it is sent before the first statement, and again when it has changed.
- A statement outside of a transaction is sent in one pipeline with the identity. PostgreSQL runs a pipeline as one
  transaction, and it takes one round trip.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from django.conf import settings
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.postgresql import base
from django.db.backends.postgresql.psycopg_any import register_tzloader
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from foundation.database.breaker import POOLED, WatchedConnection, connection_from
from foundation.database.engine import spans
from foundation.database.transaction_settings import NOTHING, Wanted, identity_statement, statement, wanted

# Statements that read or write rows. Others, such as VACUUM, may be impossible in a pipeline, and need no identity.
READS_OR_WRITES = re.compile(
    r"(?:[\s(]|--[^\n]*+\n)*+(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE|TABLE|VALUES|EXPLAIN)\b", re.IGNORECASE
)
# attributes of psycopg's connection
SENT = "commonplace_sent"  # what its transaction runs under; None: unknown
ROLE = "commonplace_role"  # the role that it assumes together with an identity, if any


def is_about_rows(query: Any) -> bool:
    return isinstance(query, str) and READS_OR_WRITES.match(query) is not None


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return whether each transaction of this connection may run on another connection of a pooler.

    A pooler tells its clients a process id of its own, so that it receives their requests to cancel a statement.
    """
    if settings.DATABASE_POOLER != "auto":
        return bool(settings.DATABASE_POOLER == "transaction")
    row = psycopg.Cursor(connection).execute("SELECT pg_backend_pid()").fetchone()
    return row != (connection.info.backend_pid,)


@contextmanager
def pipelined(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Run the statements of a block in one pipeline, and leave the connection ready for the next statement.

    If a statement fails while others are still being sent, PostgreSQL aborts those, too. psycopg logs a warning about
    each pipeline that it ends with such results, so they are taken first.

    PostgreSQL runs the statements as one transaction, also those whose rows are fetched within the block.
    """
    if connection.pgconn.pipeline_status:  # the end of an inner pipeline would end the transaction
        yield
        return
    with connection.pipeline() as pipeline:
        setattr(connection, SENT, NOTHING)
        try:
            yield
        except psycopg.Error:
            with suppress(psycopg.errors.PipelineAborted):
                pipeline.sync()
            raise


class SendsIdentity:
    """The part of a cursor that sends the identity."""

    _conn: psycopg.Connection[Any]

    def must_send_identity(self, query: Any) -> bool:
        """Return whether the identity must be sent together with the statement, because no transaction is open.

        In an open transaction, the identity is sent here if the transaction does not run under it yet.
        """
        status = self._conn.pgconn.transaction_status
        is_pipelined = bool(self._conn.pgconn.pipeline_status)
        if is_pipelined and status != TransactionStatus.INERROR:
            if is_about_rows(query):
                self.send_identity()
            return False
        if status == TransactionStatus.IDLE:
            setattr(self._conn, SENT, NOTHING)
        elif status != TransactionStatus.INTRANS:
            return False
        if getattr(self._conn, SENT, None) == wanted() or not is_about_rows(query):
            return False
        if status == TransactionStatus.IDLE and self._conn.autocommit:
            return True
        self.send_identity()
        return False

    def send_identity(self) -> None:
        sent: Wanted | None = getattr(self._conn, SENT, None)
        now = wanted()
        role = getattr(self._conn, ROLE, "")
        if sent == now:
            return
        if sent in (None, NOTHING):
            text, values = statement(now, role)
        elif sent.identity != now.identity:
            # The transaction may have set a shorter timeout for itself meanwhile.
            text, values = identity_statement(now.identity, role)
        else:
            return
        prepares = self._conn.prepare_threshold is not None
        psycopg.RawCursor(self._conn).execute(text, values, prepare=prepares)
        setattr(self._conn, SENT, now)


class StatementCursor(SendsIdentity, psycopg.Cursor[Any]):
    """A cursor that sends values separately from the statement, so that the statement can be prepared."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with spans.of_statement(query):
            return self._execute(query, params, **options)

    def _execute(self, query: Any, params: Any, **options: Any) -> Any:
        if self.must_send_identity(query):
            with pipelined(self._conn):
                self.send_identity()
                return super().execute(query, params, **options)
        super().execute(query, params, **options)
        if isinstance(query, str) and query.startswith("ROLLBACK TO"):
            setattr(self._conn, SENT, None)  # unknown: the parameters are those of the savepoint again
        return self

    def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
        with spans.of_statement(query):
            if self.must_send_identity(query):
                with pipelined(self._conn):
                    self.send_identity()
                    return super().executemany(query, params_seq, **options)
            return super().executemany(query, params_seq, **options)


class NumberedCursor(StatementCursor, psycopg.RawCursor[Any]):
    """A StatementCursor for statements with the placeholders $1, $2, …, which psycopg sends without parsing them."""


class PublicCursor(psycopg.RawCursor[Any]):
    """A cursor for numbered statements on tables without policies. It sends no identity, and no timeout either.

    So the time limit of the context is kept here. A connection whose statement exceeds it is closed.
    """

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        with spans.of_statement(query), limited_in_time(self._conn):
            return super().execute(query, params, **options)


@contextmanager
def limited_in_time(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Wait for statements of a block no longer than the time limit of the context.

    Raises OperationalError after that, and closes the connection.
    """
    limit_ms = wanted().limit_ms
    if not limit_ms or not isinstance(connection, WatchedConnection):
        yield
        return
    connection.deadline = time.monotonic() + limit_ms / 1000
    try:
        yield
    except TimeoutError as error:
        connection.close()
        raise psycopg.OperationalError(f"the statement took longer than {limit_ms} ms") from error
    finally:
        connection.deadline = None


def execute_together(
    connection: psycopg.Connection[Any], statements: Sequence[tuple[str, Sequence[Any]]], *, prepare: bool
) -> list[NumberedCursor]:
    """Execute several statements in one round trip, and return their cursors. They run in one transaction."""
    cursors = [NumberedCursor(connection) for _ in statements]
    with pipelined(connection):
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
    _connection_pools: dict[str, ConnectionPool[Any]]  # of all threads, by alias; Django's own attribute

    @property
    def pool(self) -> Any:
        # Django's own pool has no check that ends, and no connections of another class.
        options = self.settings_dict["OPTIONS"].get("pool")
        if not options or self.alias == NO_DB_ALIAS:
            return None
        if self.alias not in self._connection_pools:
            pool = ConnectionPool(
                kwargs={**self.get_connection_params(), "autocommit": True},
                open=False,
                connection_class=WatchedConnection,
                configure=self._configure_connection,  # type: ignore[arg-type]  # the pool ignores the result
                check=WatchedConnection.check,
                **options,
            )
            self._connection_pools.setdefault(self.alias, pool)
        return self._connection_pools[self.alias]

    def get_connection_params(self) -> dict[str, Any]:
        return {**super().get_connection_params(), "cursor_factory": Cursor}

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        if self.pool:
            self.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection = connection_from(self.pool)
        else:
            connection = super().get_new_connection(conn_params)
        setattr(connection, ROLE, self.settings_dict.get("IDENTITY_ROLE", ""))
        return connection

    def _configure_connection(self, connection: Any) -> bool:
        """Prepare no statements on a connection of a pooler. Django and its pool call this for each new connection."""
        setattr(connection, POOLED, is_pooled(connection))
        if getattr(connection, POOLED):
            connection.prepare_threshold = None
        # Where the server has another time zone, Django sets ours here, with the first statement that may be prepared.
        must_commit = super()._configure_connection(connection)  # type: ignore[misc]  # the stubs lack it
        return bool(must_commit) or not connection.autocommit

    def _set_autocommit(self, autocommit: bool) -> None:
        super()._set_autocommit(autocommit)  # type: ignore[misc]  # the stubs lack it
        if not autocommit:
            # The first statement of the transaction may send no identity (PublicCursor), so the next one has to.
            setattr(self.connection, SENT, NOTHING)

    def chunked_cursor(self) -> Any:
        # A cursor on the server outlives the transaction that declares it, but a pooler runs the next one elsewhere.
        self.ensure_connection()
        if getattr(self.connection, POOLED, False) and not self.in_atomic_block:
            return self.cursor()
        return super().chunked_cursor()

    def create_cursor(self, name: str | None = None) -> Any:
        if name is None:
            return super().create_cursor()
        is_held = self.connection.autocommit
        cursor = ServerSideCursor(self.connection, name=name, scrollable=False, withhold=is_held)  # type: ignore[call-arg]
        register_tzloader(self.timezone, cursor)
        return cursor

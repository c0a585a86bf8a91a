"""The database connections of the current thread: release to the pool, sessions of worker threads, commit options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection, connections, models, transaction

from foundation.database.breaker import POOLED
from foundation.database.identity import anonymous
from foundation.database.locks import DIRECT
from foundation.database.transaction_settings import limit_statements
from foundation.operations.errors import from_database_error

DIRECT_WITHIN_S = 2  # seconds within which the database must answer on a direct connection


def is_behind_pooler() -> bool:
    """Return whether a pooler assigns connections of the server to this connection for each transaction."""
    connection.ensure_connection()
    return bool(getattr(connection.connection, POOLED))


def close_if_pooled() -> None:
    """Return the connection to the pool. Call this before waiting for inference or for another system.

    The next query takes a connection again. Does nothing without a pool, or inside a transaction, where such waits are
    not allowed anyway.
    """
    for opened in connections.all(initialized_only=True):  # those of the primary and the replica
        if opened.connection is not None and not opened.in_atomic_block and _is_pooled(opened):
            opened.close()


def _is_pooled(opened: Any) -> bool:
    return bool(opened.settings_dict["OPTIONS"].get("pool"))


@contextmanager
def session() -> Iterator[None]:
    """Give a worker thread a usable connection with the usual statement timeout, and release it at the end.

    The thread has no rights until it acts as somebody. A DatabaseError is raised as the DomainError that
    `from_database_error` makes of it.
    """
    limit_statements(settings.STATEMENT_TIMEOUT_S)
    close_old_connections()
    try:
        with anonymous():
            yield
    except DatabaseError as error:
        raise from_database_error(error) or error from error
    finally:
        close_old_connections()


@contextmanager
def async_commit() -> Iterator[None]:
    """Run a transaction whose commit does not wait for the disk. Use it for rows whose loss does no harm.

    PostgreSQL writes the transaction to disk within three times its wal_writer_delay, by default within 0.6 s. A crash
    of this process loses nothing. A crash of the database server may lose the transactions committed in this interval.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        yield


def analyze_tables(*loaded: type[models.Model]) -> None:
    """Run ANALYZE on tables after a load, so that the next query is planned with current statistics.

    Does nothing inside a transaction. PostgreSQL skips tables that the application's role may not analyze (before
    PostgreSQL 17, only the owner and superusers may). Autovacuum analyzes them later, usually within a minute.
    """
    if connection.in_atomic_block:
        return
    tables = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in loaded)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {tables}")


def direct_connection() -> psycopg.Connection[Any]:
    """Open a connection beside the pool, which running calls may have exhausted.

    Statements may take DIRECT_WITHIN_S seconds. Raises psycopg.Error if the database doesn't answer in time.
    """
    parameters = {name: value for name, value in connection.get_connection_params().items() if name in DIRECT}
    direct = psycopg.connect(**{**parameters, "connect_timeout": DIRECT_WITHIN_S})
    # not an option of the connection, which poolers refuse
    direct.execute(f"SET LOCAL statement_timeout = {DIRECT_WITHIN_S * 1000}")
    return direct

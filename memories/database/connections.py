"""The thread's database connection: given back before a wait, and bounded by the door that is open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.conf import settings
from django.db import DatabaseError, close_old_connections, connection, models, transaction
from django.db.backends.signals import connection_created
from django.dispatch import receiver

from memories.contract.errors import from_database_error

_limit_s: ContextVar[float] = ContextVar("statement_limit_s", default=0.0)
APPLIED = "commonplace_statement_ms"  # on the driver's connection: the limit that it has now


def close_if_pooled() -> None:
    """Gives a pooled connection back, so that nobody holds one while waiting for inference or for another system.

    Called before each such wait; the next query takes a connection again. A no-op without a pool, and inside a
    transaction, where nothing may wait anyway.
    """
    if connection.connection is not None and not connection.in_atomic_block and _is_pooled():
        connection.close()


def _is_pooled() -> bool:
    return bool(connection.settings_dict["OPTIONS"].get("pool"))


def limit_statements(seconds: float) -> None:
    """From here on, in this context, PostgreSQL ends a statement after so long; 0 is without limit. A door says it
    before its first query. The error is translated by `errors.of_database`."""
    _limit_s.set(seconds)


@receiver(connection_created)
def apply_limit(sender: object, connection: Any, **extra: Any) -> None:
    """A pooled connection may come from another door: the limit is set where it differs, which is rare."""
    raw, limit = connection.connection, round(_limit_s.get() * 1000)
    if getattr(raw, APPLIED, 0) != limit:
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, false)", [str(limit)])
        setattr(raw, APPLIED, limit)


@contextmanager
def session() -> Iterator[None]:
    """A worker thread's time with the database: its connection is good when it begins and given back when it ends, and
    its statements are bounded as every call's are. A fault of the database is raised as our own error."""
    limit_statements(settings.STATEMENT_TIMEOUT_S)
    close_old_connections()
    try:
        yield
    except DatabaseError as error:
        raise from_database_error(error) or error from error
    finally:
        close_old_connections()


@contextmanager
def async_commit() -> Iterator[None]:
    """A transaction that does not wait for the disk: PostgreSQL holds it from the commit on, whatever becomes of this
    process, and writes it out within three times its wal_writer_delay (.6 s). For notes about reads, of which a crash
    of the database may lose the last moment."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL synchronous_commit TO off")
        yield


def analyze_tables(*loaded: type[models.Model]) -> None:
    """ANALYZE after a load, so that the next query is planned by what is there now. Where the application's role may
    not (before PostgreSQL 17 only the owner may), PostgreSQL skips it, and autovacuum follows within a minute."""
    if connection.in_atomic_block:
        return
    tables = ", ".join(connection.ops.quote_name(model._meta.db_table) for model in loaded)
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {tables}")

"""The choice of the database for a read: the primary, or a replica while an operation runs that only reads.

A channel opens `reading()` around such an operation. The first read of the operation asks whether the replica has
replayed what the person must see, and either all later reads of the operation go to the replica, or none. The ORM is
routed by ReplicaRouter, and SQL by `connection_for_reading`. Transactions, writes, accounts and permissions stay on
the primary in any case. If a statement fails on the replica for a reason that is the replica's own, it is repeated on
the primary, together with the rest of the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, DatabaseError, InterfaceError, OperationalError, connections
from django.db.models import Model

from foundation.database.identity import current

ALIAS = "replica"
# The apps whose rows are read from the replica, except the tables by which PRIMARY_ONLY decides who may read what.
APPS = frozenset({"memories", "conversation", "knowledge", "graph", "analysis"})
PRIMARY_ONLY = frozenset({"memories_persona", "memories_personamembership"})
# SQLSTATEs of errors that the primary would not raise: a conflict with the replay, a write, and a table or column of a
# migration that is not replayed yet.
OF_A_REPLICA = frozenset({"40001", "25006", "42P01", "42703"})
# SQLSTATEs of a server that shuts down or starts. Errors of connecting have none.
AWAY = frozenset({"57P01", "57P02", "57P03"})

Result = TypeVar("Result")


@dataclass
class Reading:
    """An operation that only reads. `is_on_replica` is None until its first read."""

    is_on_replica: bool | None = None
    lag_s: float | None = None  # set if the replica is not used because it is so far behind


# Decides whether the person may read from the replica. The app of the project sets both if there is a replica.
decide: Callable[[Reading, str], bool] | None = None
on_lost: Callable[[], None] | None = None  # called when a connection to the replica was lost or refused
_reading: ContextVar[Reading | None] = ContextVar("database_reading", default=None)


@contextmanager
def reading() -> Iterator[Reading]:
    """Run an operation that only reads, so that its reads may go to the replica."""
    current_reading = Reading()
    token = _reading.set(current_reading)
    try:
        yield current_reading
    finally:
        _reading.reset(token)


def alias_for_reading() -> str:
    """Return the alias of the database that the next read goes to."""
    current_reading = _reading.get()
    if current_reading is None or current_reading.is_on_replica is False:
        return DEFAULT_DB_ALIAS
    if connections[DEFAULT_DB_ALIAS].in_atomic_block:
        return DEFAULT_DB_ALIAS
    if current_reading.is_on_replica is None:
        email = current().email
        if decide is None or not email:  # not known yet who reads
            return DEFAULT_DB_ALIAS
        current_reading.is_on_replica = False  # while it is being decided
        current_reading.is_on_replica = decide(current_reading, email)
    return ALIAS if current_reading.is_on_replica else DEFAULT_DB_ALIAS


def connection_for_reading() -> Any:
    """Return Django's connection for the next read. Its cursors fall back to the primary."""
    return connections[alias_for_reading()]


def read(work: Callable[[Any], Result]) -> Result:
    """Return `work(connection)` for the connection that reads go to, or for the primary's if the replica fails."""
    connection = connection_for_reading()
    try:
        return work(connection)
    except (DatabaseError, InterfaceError) as error:
        if not may_repeat(connection, error):
            raise
    return work(connections[DEFAULT_DB_ALIAS])


def may_repeat(connection: Any, error: Exception) -> bool:
    """Return whether a statement that failed on this connection is repeated on the primary.

    If so, the rest of the operation reads from the primary, too.
    """
    if connection.alias != ALIAS or connection.in_atomic_block:
        return False
    state = getattr(error.__cause__, "sqlstate", None)
    is_away = is_lost(error, state)
    if state not in OF_A_REPLICA and not is_away:
        return False
    if current_reading := _reading.get():
        current_reading.is_on_replica = False
    if is_away:
        connection.close()
        if on_lost:
            on_lost()
    return True


def is_lost(error: Exception, state: str | None) -> bool:
    """Return whether an error says that there is no connection to the server."""
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return state in AWAY or state.startswith("08")


class ReplicaRouter:
    """Django's router. Without it, everything goes to the primary."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return alias_for_reading() if _is_replicated(model) else DEFAULT_DB_ALIAS

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        current_reading = _reading.get()
        if current_reading is not None and _is_replicated(model):
            current_reading.is_on_replica = False  # later reads of the operation must see what it writes
        return DEFAULT_DB_ALIAS

    def allow_relation(self, first: Model, second: Model, **hints: Any) -> bool:
        return True  # both are rows of one database, wherever they were read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db != ALIAS


def _is_replicated(model: type[Model]) -> bool:
    return model._meta.app_label in APPS and model._meta.db_table not in PRIMARY_ONLY

"""Work that one process at a time may do.

The locks of a process are held by one connection of its own, outside of the pool: long work waits for other systems,
and must not keep a pooled connection meanwhile. When the process dies, PostgreSQL lets go of them by itself.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
from django.db import connection

from memories.contract.errors import DomainError

SEED = 2  # apart from the locks that live as long as a transaction, which hash with 0 and 1
TAKE = "SELECT pg_try_advisory_lock(hashtextextended(%s, %s))"
LET_GO = "SELECT pg_advisory_unlock(hashtextextended(%s, %s))"


class _Holder:
    """The connection that holds this process's locks; there while there are any."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = threading.Lock()
        self.names: set[str] = set()  # PostgreSQL would give one session the same lock twice
        self.connection: psycopg.Connection[tuple[bool]] | None = None

    def take(self, name: str) -> bool:
        with self.guard:
            if name in self.names:
                return False
            if self.connection is None or self.connection.closed:
                self.connection = _connect()
            row = self.connection.execute(TAKE, [name, SEED]).fetchone()
            if row and row[0]:
                self.names.add(name)
            self._close_if_unused()
            return name in self.names

    def let_go(self, name: str) -> None:
        with self.guard:
            self.names.discard(name)
            if self.connection is not None and not self.connection.closed:
                try:
                    self.connection.execute(LET_GO, [name, SEED])
                except psycopg.Error:  # the server went away, and the lock with it
                    self.connection.close()
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self.names and self.connection is not None:
            self.connection.close()
            self.connection = None


def _connect() -> psycopg.Connection[tuple[bool]]:
    if connection.connection is None:
        connection.ensure_connection()  # starts the embedded server where it is down
    parameters = {k: v for k, v in connection.get_connection_params().items() if k in DIRECT}
    return psycopg.connect(**parameters, autocommit=True)


DIRECT = ("host", "port", "user", "password", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey")
_holder = _Holder()


def _current() -> _Holder:
    global _holder
    if _holder.pid != os.getpid():  # a fork: the parent's connection is the parent's
        _holder = _Holder()
    return _holder


@contextmanager
def exclusive(kind: str, pk: UUID, busy: DomainError) -> Iterator[None]:
    """Nobody else is at work on this `kind` meanwhile, or `busy` is raised."""
    name, holder = f"{kind} {pk.hex}", _current()
    if not holder.take(name):
        raise busy
    try:
        yield
    finally:
        holder.let_go(name)


def is_locked(kind: str, pk: UUID) -> bool:
    name, holder = f"{kind} {pk.hex}", _current()
    if not holder.take(name):
        return True
    holder.let_go(name)
    return False

"""Mutexes between processes, on PostgreSQL advisory locks.

One connection outside of the pool holds all locks of a process, because long work waits for other systems and must not
keep a pooled connection meanwhile. If the process dies, PostgreSQL releases its locks.
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

SEED = 2  # seed of the hash of a lock's name; advisory locks elsewhere use the seeds 0, 1, 3 and 4
ACQUIRE = "SELECT pg_try_advisory_lock(hashtextextended(%s, %s))"
RELEASE = "SELECT pg_advisory_unlock(hashtextextended(%s, %s))"


class _Holder:
    """The connection that holds the locks of this process. It is open only while the process holds a lock."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = threading.Lock()
        self.names: set[str] = set()  # locks held; PostgreSQL would grant the same lock to one session twice
        self.connection: psycopg.Connection[tuple[bool]] | None = None

    def acquire(self, name: str) -> bool:
        with self.guard:
            if name in self.names:
                return False
            if self.connection is None or self.connection.closed:
                self.connection = _connect()
            row = self.connection.execute(ACQUIRE, [name, SEED]).fetchone()
            if row and row[0]:
                self.names.add(name)
            self._close_if_unused()
            return name in self.names

    def release(self, name: str) -> None:
        with self.guard:
            self.names.discard(name)
            if self.connection is not None and not self.connection.closed:
                try:
                    self.connection.execute(RELEASE, [name, SEED])
                except psycopg.Error:  # the connection is broken, so PostgreSQL has released the lock
                    self.connection.close()
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if not self.names and self.connection is not None:
            self.connection.close()
            self.connection = None


def _connect() -> psycopg.Connection[tuple[bool]]:
    if connection.connection is None:
        connection.ensure_connection()  # starts the embedded server if it is down
    parameters = {k: v for k, v in connection.get_connection_params().items() if k in DIRECT}
    return psycopg.connect(**parameters, autocommit=True)


DIRECT = (
    "host", "port", "user", "password", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey",
    "target_session_attrs",
)  # fmt: skip
_holder = _Holder()


def _current() -> _Holder:
    global _holder
    if _holder.pid != os.getpid():  # after a fork: the connection belongs to the parent process
        _holder = _Holder()
    return _holder


@contextmanager
def exclusive(kind: str, pk: UUID, busy: DomainError) -> Iterator[None]:
    """Hold the lock on an object for the duration of the block, or raise `busy` if it is taken."""
    name, holder = f"{kind} {pk.hex}", _current()
    if not holder.acquire(name):
        raise busy
    try:
        yield
    finally:
        holder.release(name)


def is_locked(kind: str, pk: UUID) -> bool:
    name, holder = f"{kind} {pk.hex}", _current()
    if not holder.acquire(name):
        return True
    holder.release(name)
    return False

"""Quick refusals while the database can't be reached.

After an attempt to connect has failed, calls are refused for a second instead of waiting for attempts of their own.
Then one call tries again, and the others are refused until it has succeeded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from django.utils.translation import gettext
from psycopg_pool import ConnectionPool, PoolTimeout

PAUSE_S = 1.0  # seconds after a failed attempt in which no call waits for a connection
FIRST_WAIT_S = 0.5  # seconds after which a waiting call looks whether its attempt has failed
IDLE_ONLY_S = 0.01  # while calls are refused, they still take a connection that is open
# An attempt that fails with these words has reached a server, where other connections work and become free again.
IS_FULL = ("too many", "connection slots", "no more connections")


class DatabaseAway(psycopg.OperationalError):
    """The database can't be reached. `message` is meant for callers, the text of the error for operators."""

    @property
    def message(self) -> str:
        return gettext("it can't be reached; try again in a few seconds")


class Breaker:
    """The last failed attempt of this process to connect, if none has succeeded since."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failed_at: float | None = None
        self._next_attempt = 0.0
        self.reason = ""

    def note(self, error: psycopg.OperationalError | None) -> None:
        """Note the outcome of an attempt to connect: its error, or None if it has succeeded."""
        if isinstance(error, PoolTimeout) or (error and any(words in str(error) for words in IS_FULL)):
            return
        with self._guard:
            self._failed_at = time.monotonic() if error else None
            self._next_attempt = time.monotonic() + PAUSE_S
            self.reason = str(error or "")

    def admits(self) -> bool:
        """Return whether a call may wait for a connection. After a failure, one call may in each second."""
        if self._failed_at is None:
            return True
        with self._guard:
            if time.monotonic() < self._next_attempt:
                return False
            self._next_attempt = time.monotonic() + PAUSE_S
            return True

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Note the outcome of a block that connects. Raises DatabaseAway instead of running it in a pause."""
        if not self.admits():
            raise self.error()
        try:
            yield
        except psycopg.OperationalError as error:
            self.note(error)
            raise
        self.note(None)

    def has_failed_since(self, start: float) -> bool:
        """Return whether the last attempt has failed after `start`, a time of time.monotonic()."""
        return self._failed_at is not None and self._failed_at >= start

    def error(self) -> DatabaseAway:
        return DatabaseAway(self.reason)


breaker = Breaker()


class WatchedConnection(psycopg.Connection[Any]):
    """A connection whose opening the breaker notes. Pools open theirs in threads of their own."""

    @classmethod
    def connect(cls, *arguments: Any, **options: Any) -> Self:
        try:
            connection = super().connect(*arguments, **options)
        except psycopg.OperationalError as error:
            breaker.note(error)
            raise
        breaker.note(None)
        return connection


def connection_from(pool: ConnectionPool[Any]) -> Any:
    """Return a connection of the pool.

    Raises DatabaseAway if the database can't be reached, and PoolTimeout if all connections stay in use for too long.
    """
    pool.open()
    started = time.monotonic()
    waits = breaker.admits()
    for seconds in (FIRST_WAIT_S, pool.timeout - FIRST_WAIT_S) if waits else (IDLE_ONLY_S,):
        try:
            return pool.getconn(seconds)
        except PoolTimeout as error:
            if not waits or breaker.has_failed_since(started):
                raise breaker.error() from error
    raise PoolTimeout(
        f"all {pool.max_size} connections of this process were in use for {pool.timeout:.0f} s; "
        "see DATABASE_POOL_SIZE and the pooler's limits"
    )

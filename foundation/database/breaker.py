"""Connections from the pool, with quick refusals while the database can't be reached.

After a failed attempt to connect, calls wait for a fraction of a second instead of seconds. Each call that finds no
connection lets the pool try again, so the first call after the return of the database succeeds.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Self

import psycopg
from django.utils.translation import gettext
from psycopg_pool import ConnectionPool, PoolTimeout

FIRST_WAIT_S = 0.5  # seconds after which a waiting call looks whether an attempt has failed meanwhile
REFUSED_AFTER_S = 0.3  # seconds that a call waits if the last attempt has failed
CHECK_S = 2.0  # seconds that an open connection has to respond before it is used
CHECK_POOLER_S = 4.0  # the same behind a pooler, where it may have to wait until others return a connection
POOLED = "commonplace_pooled"  # attribute of connections: whether they lead to a pooler (engine/base.py)
# An attempt that fails with these words has reached a server, where other connections work and become free again.
IS_FULL = ("too many", "connection slots", "no more connections")


class DatabaseAway(psycopg.OperationalError):
    """The database can't be reached. `message` is meant for callers, the text of the error for operators."""

    @property
    def message(self) -> str:
        return gettext("it can't be reached; try again in a few seconds")


class DatabaseBreaker:
    """The last attempt of this process to reach the database, if it has failed."""

    def __init__(self) -> None:
        self.failed_at: float | None = None  # a time of time.monotonic()
        self.reason = ""

    def note(self, error: psycopg.OperationalError | None) -> None:
        """Note the outcome of an attempt: its error, or None if it has succeeded."""
        if error and any(words in str(error) for words in IS_FULL):
            return
        self.failed_at, self.reason = (time.monotonic(), str(error)) if error else (None, "")

    @property
    def is_open(self) -> bool:
        return self.failed_at is not None

    def has_failed_since(self, start: float) -> bool:
        return self.failed_at is not None and self.failed_at >= start


breaker = DatabaseBreaker()


class WatchedConnection(psycopg.Connection[Any]):
    """A connection of a pool. The breaker notes whether it can be opened and whether it responds in time."""

    deadline: float | None = None  # of a check or a statement, a time of time.monotonic()

    @classmethod
    def connect(cls, *arguments: Any, **options: Any) -> Self:
        try:
            connection = super().connect(*arguments, **options)
        except psycopg.OperationalError as error:
            breaker.note(error)
            raise
        breaker.note(None)
        return connection

    def check(self) -> None:
        """Raise OperationalError if the server does not respond, as when its machine is frozen or cut off."""
        usual = CHECK_POOLER_S if getattr(self, POOLED, False) else CHECK_S
        self.deadline = time.monotonic() + (REFUSED_AFTER_S if breaker.is_open else usual)
        try:
            self.execute("")
        except TimeoutError as error:
            away = psycopg.OperationalError("the server does not respond")
            breaker.note(away)
            raise away from error
        finally:
            self.deadline = None

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        if self.deadline is not None:
            gen = _until(self.deadline, gen)
        return super().wait(gen, *arguments, **options)


def _until(deadline: float, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Pass on what psycopg waits for. It resumes the generator regularly, with 0 if nothing has happened."""
    wanted = next(gen)
    while True:
        ready = yield wanted
        if not ready and time.monotonic() > deadline:
            raise TimeoutError
        try:
            wanted = gen.send(ready)
        except StopIteration as end:
            return end.value


def connection_from(pool: ConnectionPool[Any]) -> Any:
    """Return a connection of the pool.

    Raises DatabaseAway if the database can't be reached, and PoolTimeout if all connections stay in use for too long.
    """
    pool.open()
    started = time.monotonic()
    was_open = breaker.is_open
    for seconds in (REFUSED_AFTER_S,) if was_open else (FIRST_WAIT_S, pool.timeout - FIRST_WAIT_S):
        try:
            return pool.getconn(seconds)
        except PoolTimeout as error:
            if breaker.has_failed_since(started) or (was_open and breaker.is_open):
                raise DatabaseAway(breaker.reason) from error
    raise PoolTimeout(
        f"all {pool.max_size} connections of this process were in use for too long; "
        "see DATABASE_POOL_SIZE and the limits of the pooler"
    )

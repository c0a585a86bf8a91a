"""Mutexes between processes, as leases: rows of the table `leases` that their holder renews while it works.

A lease ends LEASE_S after its last renewal, so a holder that was killed or cut off keeps nobody waiting for longer. Its
end is noticed at once if the holder has a session of its own at PostgreSQL, which then has an advisory lock. Behind a
pooler that assigns connections per transaction, no session belongs to a process, and the lease alone decides.

A holder may be suspended, and go on after its lease has ended. So it writes within `fenced`, which checks the lease in
the transaction of the write and keeps others from taking it over until that transaction ends.

One connection outside of the pool takes, renews and returns all leases of a process, because long work waits for other
systems and must not keep a pooled connection meanwhile.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID, uuid4

import psycopg
from django.conf import settings
from django.db import connection, transaction
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, DomainError

LEASE_S = 30  # seconds until a lease ends that is not renewed
RENEW_S = 8  # seconds between two renewals
SEED = 2  # seed of the hash of a lease's token; advisory locks elsewhere use the seeds 0, 1, 3 and 4
DIRECT = (
    "host", "port", "user", "password", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey",
    "connect_timeout", "target_session_attrs",
)  # fmt: skip

# Whether a row of the table is held: its time is not over, and its holder's session, if it has one, has not ended.
HELD = f"""
    CASE WHEN leases.expires_at <= clock_timestamp() THEN false
         WHEN leases.has_session THEN NOT pg_try_advisory_xact_lock_shared(hashtextextended(leases.token::text, {SEED}))
         ELSE true END"""
IS_HELD = f"SELECT EXISTS (SELECT FROM leases WHERE name = %(name)s AND {HELD})"  # noqa: S608 - a constant
# The first condition keeps a call from waiting for a row that its holder's transaction has locked.
ACQUIRE = f"""
    INSERT INTO leases (name, token, has_session, expires_at)
    SELECT %(name)s::varchar, %(token)s::uuid, %(has_session)s, clock_timestamp() + make_interval(secs => %(seconds)s)
    WHERE NOT EXISTS (SELECT FROM leases WHERE name = %(name)s AND {HELD})
    ON CONFLICT (name) DO UPDATE
    SET token = excluded.token, has_session = excluded.has_session, expires_at = excluded.expires_at WHERE NOT {HELD}
    RETURNING true"""  # noqa: S608 - a constant
RENEW = """
    UPDATE leases SET has_session = %(has_session)s, expires_at = clock_timestamp() + make_interval(secs => %(seconds)s)
    WHERE token = ANY(%(tokens)s) RETURNING token"""
# A row that a transaction of this process still has locked is left to expire.
RELEASE = "DELETE FROM leases WHERE name IN (SELECT name FROM leases WHERE token = %(token)s FOR UPDATE SKIP LOCKED)"
LOCK_SESSION = f"SELECT pg_try_advisory_lock(hashtextextended(%(token)s::text, {SEED}))"
UNLOCK_SESSION = f"SELECT pg_advisory_unlock(hashtextextended(%(token)s::text, {SEED}))"
CHECK = "SELECT token FROM leases WHERE token = ANY(%s)"

log = logging.getLogger(__name__)


class LeaseLost(Conflict):
    """The lease has ended, and another process may have taken over the work."""


@dataclass
class HeldLease:
    name: str
    token: UUID
    locks_row: bool  # whether `fenced` may lock the row: not if that lock would last longer than the lease
    renewed: float  # a time of time.monotonic()
    is_lost: bool = False

    @property
    def has_ended(self) -> bool:
        return self.is_lost or time.monotonic() - self.renewed > LEASE_S


_held: ContextVar[tuple[HeldLease, ...]] = ContextVar("held_leases", default=())


class _Holder:
    """The leases of this process, and their connection and thread. Both exist only while there is a lease."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.guard = threading.Lock()
        self.leases: dict[str, HeldLease] = {}
        self.connection: psycopg.Connection[tuple[object]] | None = None
        self.has_session = False  # whether the connection has a session of its own
        self.is_unused = threading.Event()

    def acquire(self, name: str) -> HeldLease | None:
        with self.guard:
            if name in self.leases:  # PostgreSQL would grant an advisory lock to one session twice
                return None
            lease = HeldLease(name, uuid4(), not connection.in_atomic_block, time.monotonic())
            try:
                if not self._insert(self._connected(), lease):
                    return None
                self.leases[name] = lease
            finally:
                self._close_if_unused()
            if len(self.leases) == 1:
                self.is_unused = threading.Event()
                threading.Thread(target=self._renew_until, args=[self.is_unused], daemon=True, name="leases").start()
            return lease

    def _insert(self, direct: psycopg.Connection[tuple[object]], lease: HeldLease) -> bool:
        if self.has_session:
            direct.execute(LOCK_SESSION, {"token": lease.token})
        values = {"name": lease.name, "token": lease.token, "has_session": self.has_session, "seconds": LEASE_S}
        if direct.execute(ACQUIRE, values).fetchone():
            return True
        if self.has_session:
            direct.execute(UNLOCK_SESSION, {"token": lease.token})
        return False

    def release(self, lease: HeldLease) -> None:
        with self.guard:
            self.leases.pop(lease.name, None)
            try:
                direct = self._connected()
                direct.execute(RELEASE, {"token": lease.token})
                if self.has_session:
                    direct.execute(UNLOCK_SESSION, {"token": lease.token})
            except psycopg.Error:  # the database is away; the lease ends by itself
                log.warning("could not return the lease of %s; it ends within %s s", lease.name, LEASE_S)
            self._close_if_unused()

    def is_held(self, name: str) -> bool:
        with self.guard:
            if name in self.leases:
                return True
            try:
                row = self._connected().execute(IS_HELD, {"name": name}).fetchone()
            finally:
                self._close_if_unused()
            return bool(row and row[0])

    def _renew_until(self, is_unused: threading.Event) -> None:
        while not is_unused.wait(RENEW_S):
            with self.guard:
                if not is_unused.is_set():
                    try:
                        self._renew()
                    except psycopg.Error as error:
                        log.warning("could not renew %s leases: %s", len(self.leases), str(error).strip())

    def _renew(self) -> None:
        started = time.monotonic()
        tokens = [lease.token for lease in self.leases.values()]
        values = {"tokens": tokens, "seconds": LEASE_S}
        direct = self._connected()
        kept = {token for (token,) in direct.execute(RENEW, {**values, "has_session": self.has_session}).fetchall()}
        for lease in self.leases.values():
            if lease.token in kept:
                lease.renewed = started
            else:
                lease.is_lost = True

    def _connected(self) -> psycopg.Connection[tuple[object]]:
        if self.connection is None or self.connection.closed:
            self.connection = _connect()
            row = self.connection.execute("SELECT pg_backend_pid()").fetchone()
            # A pooler tells its clients other process ids than those of the sessions that it lends them.
            is_own = row == (self.connection.info.backend_pid,)
            self.has_session = is_own and settings.DATABASE_POOLER != "transaction"
            if self.has_session:  # the session that had the locks has ended
                for lease in self.leases.values():
                    self.connection.execute(LOCK_SESSION, {"token": lease.token})
        return self.connection

    def _close_if_unused(self) -> None:
        if not self.leases:
            self.is_unused.set()
            if self.connection is not None:
                self.connection.close()
                self.connection = None


def _connect() -> psycopg.Connection[tuple[object]]:
    if threading.current_thread().name != "leases" and connection.connection is None:
        connection.ensure_connection()  # starts the embedded server if it is down
    parameters = {k: v for k, v in connection.get_connection_params().items() if k in DIRECT}
    return psycopg.connect(**parameters, autocommit=True, prepare_threshold=None)


_holder = _Holder()


def _current() -> _Holder:
    global _holder
    if _holder.pid != os.getpid():  # after a fork: the connection and the thread belong to the parent process
        _holder = _Holder()
    return _holder


@contextmanager
def exclusive(kind: str, pk: UUID, busy: DomainError) -> Iterator[None]:
    """Hold the lease of an object for the duration of the block, or raise `busy` if it is taken.

    What the block writes at the end of a step that may take long, it writes within `fenced`.
    """
    lease = _current().acquire(f"{kind} {pk.hex}")
    if lease is None:
        raise busy
    token = _held.set((*_held.get(), lease))
    try:
        yield
    finally:
        _held.reset(token)
        _current().release(lease)


@contextmanager
def fenced() -> Iterator[None]:
    """Run a block in a transaction in which nobody takes over the leases of the current context.

    Raises LeaseLost if one has ended. Does nothing if the context has none.
    """
    leases = _held.get()
    if not leases:
        yield
        return
    with transaction.atomic():
        _check(leases)
        yield


def check() -> None:
    """Raise LeaseLost if a lease of the current context has ended. Call this between the steps of long work."""
    with fenced():
        pass


def _check(leases: tuple[HeldLease, ...]) -> None:
    """Raise LeaseLost if a lease has ended, and lock their rows until the end of the transaction."""
    lock = " FOR KEY SHARE" if all(lease.locks_row for lease in leases) else ""
    with connection.cursor() as cursor:
        cursor.execute(CHECK + lock, [[lease.token for lease in leases]])
        kept = {token for (token,) in cursor.fetchall()}
    if any(lease.has_ended or lease.token not in kept for lease in leases):
        raise LeaseLost(gettext("another process may have taken over this work: try again later"))


def delete_ended() -> int:
    """Delete the leases that ended an hour ago or earlier, which killed processes have left. Return their number."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM leases WHERE expires_at < now() - interval '1 hour'")
        return int(cursor.rowcount)


def is_locked(kind: str, pk: UUID) -> bool:
    return _current().is_held(f"{kind} {pk.hex}")

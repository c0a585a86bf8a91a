"""Callers by bearer token, kept for a few seconds while nothing that they are built from changes.

Triggers send a message when a token, an account, a permission or a persona changes (migration 0018). Each process then
drops all of its entries, so a revocation takes effect within the time of a message, some milliseconds after its commit.
While messages may be missing, nothing is kept or used. TOKEN_CACHE_S limits the age of an entry, should a connection be
dead without anybody noticing.

Tokens of the company's issuer are never kept. Rate limits are counted by each call, whether its caller is kept or not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from foundation.database import pg_notify
from foundation.people.caller import Caller
from memory_project.web.bearer import digest

CHANNEL = "caller_access"
MAX_KEPT = 10_000  # entries


@dataclass(frozen=True)
class _Entry:
    caller: Caller
    basis: object  # what the caller was built from beside the database; compared by identity
    expires_at: datetime | None  # of the token
    kept_until: float  # time.monotonic()


class CallerCache:
    """The cache of one server. It is off outside of the block `following_changes`."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._generation = 0  # grows with each message and each gap, so that no read from before one is kept
        self._guard = threading.Lock()
        self._subscription: pg_notify.Subscriber | None = None

    @contextmanager
    def following_changes(self) -> Iterator[None]:
        if not settings.TOKEN_CACHE_S:
            yield
            return
        self._subscription = pg_notify.listen(CHANNEL, lambda payload: self.forget(), self.forget)
        try:
            yield
        finally:
            self._subscription.close()
            self._subscription = None
            self.forget()

    @property
    def is_on(self) -> bool:
        return self._subscription is not None and self._subscription.is_connected

    def forget(self) -> None:
        with self._guard:
            self._generation += 1
            self._entries.clear()

    def generation(self) -> int:
        """Return the value that `keep` needs. Call this before reading what the caller is built from."""
        return self._generation

    def find(self, text: str, basis: object) -> Caller | None:
        """Return the caller of a token, or None if it has to be read. Costs no query."""
        entry = self._entries.get(digest(text))
        if entry is None or not self.is_on or entry.basis is not basis:
            return None
        if time.monotonic() >= entry.kept_until or (entry.expires_at and entry.expires_at <= timezone.now()):
            return None
        return entry.caller

    def keep(self, text: str, caller: Caller, *, basis: object, expires_at: datetime | None, generation: int) -> None:
        """Keep a caller, unless something has changed since `generation` was read."""
        entry = _Entry(caller, basis, expires_at, time.monotonic() + settings.TOKEN_CACHE_S)
        with self._guard:
            if not self.is_on or generation != self._generation:
                return
            if len(self._entries) >= MAX_KEPT:
                self._entries.clear()
            self._entries[digest(text)] = entry

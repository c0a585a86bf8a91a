"""A circuit breaker: what failed several times in a row is not asked again for a while, so that nobody waits for it."""

from __future__ import annotations

import threading
import time

FAILURES = 2  # in a row, until it opens
PAUSE_S = 15.0  # until one call may try again


class Breaker:
    """Closed: calls pass. Open: they don't, for PAUSE_S; then a single one tries, and its outcome decides."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failures = 0
        self._try_at = 0.0
        self.reason = ""  # why it is open; empty while it is closed

    def allows(self) -> bool:
        with self._guard:
            if not self.reason:
                return True
            if time.monotonic() < self._try_at:
                return False
            self._try_at = time.monotonic() + PAUSE_S  # others wait for this one's outcome
            return True

    def succeed(self) -> None:
        with self._guard:
            self._failures, self.reason = 0, ""

    def fail(self, reason: str) -> None:
        with self._guard:
            self._failures += 1
            if self._failures >= FAILURES:
                self.reason, self._try_at = reason, time.monotonic() + PAUSE_S

"""A circuit breaker: after several failures in a row, calls fail immediately for a while instead of waiting."""

from __future__ import annotations

import threading
import time

FAILURES = 2  # number of failures in a row that open the breaker
PAUSE_S = 15.0  # seconds after a failure or a trial until an open breaker allows another call


class ModelBreaker:
    """A breaker allows all calls while closed, and one call every PAUSE_S seconds while open. A success closes it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._failures = 0
        self._try_at = 0.0
        self.reason = ""  # the last error while open; empty while closed

    def allows(self) -> bool:
        with self._guard:
            if not self.reason:
                return True
            if time.monotonic() < self._try_at:
                return False
            self._try_at = time.monotonic() + PAUSE_S  # no other call for PAUSE_S, unless this one succeeds
            return True

    def succeed(self) -> None:
        with self._guard:
            self._failures = 0
            self.reason = ""

    def fail(self, reason: str) -> None:
        with self._guard:
            self._failures += 1
            if self._failures >= FAILURES:
                self.reason = reason
                self._try_at = time.monotonic() + PAUSE_S

"""State of the replica as this process knows it: whether it answers, its lag, and what it has replayed."""

from __future__ import annotations

import threading
import time
from collections import deque

from django.conf import settings

TRY_AGAIN_S = 5.0  # after a failed connection; one call tries meanwhile, so that the others don't wait for it
SAMPLE_S = 0.1  # the least time between two samples of the log's end
MAX_SAMPLES = 10_000


class Watch:
    """The lag is the age of the oldest sampled end of the primary's log that the replica has not replayed.

    So it needs no clock of another machine, it is right while nothing is written, and it grows if the replica has lost
    its connection to the primary.
    """

    def __init__(self) -> None:
        self.state = "ok"  # ok, away or no replica
        self.lag_s = 0.0
        self.confirmed_xact = 0  # barriers of transactions before this one are known to be on the replica
        self._again_at = 0.0
        self._samples: deque[tuple[float, int]] = deque(maxlen=MAX_SAMPLES)
        self._guard = threading.Lock()

    def summary(self) -> str:
        """Return ok, behind, away or no replica."""
        return "behind" if self.state == "ok" and self.lag_s > settings.DATABASE_REPLICA_MAX_LAG_S else self.state

    def may_try(self) -> bool:
        if self.state == "ok":
            return True
        with self._guard:
            now = time.monotonic()
            if now < self._again_at:
                return False
            self._again_at = now + TRY_AGAIN_S
            return True

    def lost(self) -> None:
        self._pause("away")

    def no_replica(self) -> None:
        """The server was promoted, or belongs to another database, so its rows may differ from the primary's."""
        self._pause("no replica")

    def note(self, flushed: int, replayed: int) -> None:
        """Take a sample: the end of the primary's log on its disk, and how far the replica has replayed it."""
        with self._guard:
            now = time.monotonic()
            self.state = "ok"
            if not self._samples or now - self._samples[-1][0] >= SAMPLE_S:
                self._samples.append((now, flushed))
            while self._samples and self._samples[0][1] <= replayed:
                self._samples.popleft()
            self.lag_s = now - self._samples[0][0] if self._samples else 0.0

    def confirm(self, horizon: int) -> None:
        with self._guard:
            self.confirmed_xact = max(self.confirmed_xact, horizon)

    def _pause(self, state: str) -> None:
        with self._guard:
            self.state = state
            self._again_at = time.monotonic() + TRY_AGAIN_S

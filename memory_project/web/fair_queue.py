"""One person's calls take turns: a few run, the others wait in order, and only a full queue refuses.

So nobody takes the threads and connections that all share, however many calls they send at once.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
from django.conf import settings

from memories.contract.errors import LimitReached


def full() -> LimitReached:
    waiting = settings.CALLS_WAITING
    return LimitReached(
        f"{waiting} of your calls wait already: let some of them end, then call again; "
        f"{settings.CALLS_AT_ONCE} run at once"
    )


class _Line:
    """One person's turn: `running` calls, and how many wait."""

    def __init__(self) -> None:
        self.turns = anyio.Semaphore(settings.CALLS_AT_ONCE)
        self.waiting = 0
        self.inside = 0


class ToolGate:
    """For calls of tools, which wait without a thread. Lives in one event loop."""

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        line = self._lines.setdefault(person, _Line())
        if line.waiting >= settings.CALLS_WAITING:
            raise full()
        line.inside += 1
        line.waiting += 1
        try:
            try:
                await line.turns.acquire()
            finally:
                line.waiting -= 1
            try:
                yield
            finally:
                line.turns.release()
        finally:
            line.inside -= 1
            if not line.inside:
                self._lines.pop(person, None)


class RequestGate:
    """For pages and the REST API, whose requests have a thread each."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: defaultdict[str, int] = defaultdict(int)
        self._waiting: defaultdict[str, int] = defaultdict(int)

    @contextmanager
    def turn(self, person: str) -> Iterator[None]:
        with self._changed:
            if self._running[person] >= settings.CALLS_AT_ONCE:
                if self._waiting[person] >= settings.CALLS_WAITING:
                    raise full()
                self._waiting[person] += 1
                self._changed.wait_for(lambda: self._running[person] < settings.CALLS_AT_ONCE)
                self._leave(self._waiting, person)
            self._running[person] += 1
        try:
            yield
        finally:
            with self._changed:
                self._leave(self._running, person)
                self._changed.notify_all()

    def _leave(self, counts: defaultdict[str, int], person: str) -> None:
        counts[person] -= 1
        if not counts[person]:
            del counts[person]

"""Limits on how many calls of one person run at the same time.

CALLS_AT_ONCE calls run, up to CALLS_WAITING further calls wait, and any more are refused. This prevents one person from
occupying all the threads and database connections that everyone shares.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
from django.conf import settings

from memories.contract.errors import LimitReached


def queue_full() -> LimitReached:
    return LimitReached(
        f"{settings.CALLS_WAITING} of your calls are waiting already and {settings.CALLS_AT_ONCE} run at a time: "
        "let some of them finish, then call again"
    )


class _Queue:
    def __init__(self) -> None:
        self.slots = anyio.Semaphore(settings.CALLS_AT_ONCE)
        self.waiting = 0
        self.total = 0  # waiting and running calls


class ToolGate:
    """Queues for tool calls, which wait without occupying a thread. Works within one event loop."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}

    @asynccontextmanager
    async def turn(self, person: str) -> AsyncIterator[None]:
        queue = self._queues.setdefault(person, _Queue())
        if queue.waiting >= settings.CALLS_WAITING:
            raise queue_full()
        queue.total += 1
        queue.waiting += 1
        try:
            try:
                await queue.slots.acquire()
            finally:
                queue.waiting -= 1
            try:
                yield
            finally:
                queue.slots.release()
        finally:
            queue.total -= 1
            if not queue.total:
                self._queues.pop(person, None)


class RequestGate:
    """Queues for pages and the REST API, where each waiting request occupies its own thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: defaultdict[str, int] = defaultdict(int)
        self._waiting: defaultdict[str, int] = defaultdict(int)

    @contextmanager
    def turn(self, person: str) -> Iterator[None]:
        with self._changed:
            if self._running[person] >= settings.CALLS_AT_ONCE:
                if self._waiting[person] >= settings.CALLS_WAITING:
                    raise queue_full()
                self._waiting[person] += 1
                self._changed.wait_for(lambda: self._running[person] < settings.CALLS_AT_ONCE)
                self._decrement(self._waiting, person)
            self._running[person] += 1
        try:
            yield
        finally:
            with self._changed:
                self._decrement(self._running, person)
                self._changed.notify_all()

    def _decrement(self, counts: defaultdict[str, int], person: str) -> None:
        counts[person] -= 1
        if not counts[person]:  # so that the dictionary contains only active people
            del counts[person]

"""Turns for requests, shared out fairly, so that nobody waits long because of somebody else's requests.

A waiting request costs a future and its open connection, and neither a thread nor a database connection. A queue works
within one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from django.conf import settings

# A call that has run for this many seconds mostly waits for another system. Younger calls mostly compute.
YOUNG_S = 1.0
BUSY_S = 2.0  # a sender counts as busy until this many seconds after the end of its last call
ACTIVE_S = 300.0  # a sender counts as active until this many seconds after the end of its last call

TURN_KEY = "commonplace.turn"  # in the ASGI scope: the request's turn, which a long stream ends early


class QueueFull(Exception):
    pass


@dataclass(eq=False)
class QueueTurn:
    """The turn of one request. `end` may be called early, and again."""

    _queue: FairQueue
    _sender: str
    started: float = 0.0
    _has_ended: bool = False

    def end(self) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._queue._end(self._sender, self)


@dataclass(eq=False)
class _Share:
    """The waiting and running requests of one sender. Urgent requests are in the first of the two queues."""

    waiting: tuple[deque[asyncio.Future[QueueTurn]], deque[asyncio.Future[QueueTurn]]] = field(
        default_factory=lambda: (deque(), deque())
    )
    running: set[QueueTurn] = field(default_factory=set)
    last_started: float = 0.0

    def count_waiting(self, *, urgent_only: bool = False) -> int:
        lines = self.waiting[:1] if urgent_only else self.waiting
        return sum(not future.done() for line in lines for future in line)

    def next_in_line(self) -> asyncio.Future[QueueTurn] | None:
        for queue in self.waiting:
            while queue:
                if not queue[0].done():  # a request whose client has gone is cancelled
                    return queue[0]
                queue.popleft()
        return None


class FairQueue:
    """Admits requests of many senders.

    Of each sender, at most `at_once` requests run and at most `waiting` of each urgency wait. Of all senders, at most
    `in_all` run. The next turn goes to the sender who has the fewest running requests, and among these to the one who
    has waited longest since its last turn.

    Requests that compute at the same time slow each other down. While another sender is active, only one young request
    of a sender therefore runs. While another sender is busy, a sender with `at_once` more requests waiting pauses after
    each request for as long as it took, so that it takes no more than half of the time. A few urgent requests do not
    pause.

    With `pace_s`, a turn lasts at least so many seconds, which limits the rate of requests.
    """

    def __init__(self, *, at_once: int, in_all: int, waiting: int, pace_s: float = 0.0) -> None:
        self.at_once = at_once
        self.in_all = in_all
        self.waiting = waiting
        self.pace_s = pace_s
        self._shares: dict[str, _Share] = {}  # of the senders with waiting or running requests
        self._last_active: OrderedDict[str, float] = OrderedDict()
        self._rests_until: dict[str, float] = {}
        self._running = 0

    async def take(self, sender: str, *, is_urgent: bool = False) -> QueueTurn:
        """Wait for a turn. Raises QueueFull if too many requests of the sender are waiting."""
        share = self._shares.setdefault(sender, _Share())
        line = share.waiting[0 if is_urgent else 1]
        if sum(not future.done() for future in line) >= self.waiting + (self.at_once > len(share.running)):
            raise QueueFull
        future: asyncio.Future[QueueTurn] = asyncio.get_running_loop().create_future()
        line.append(future)
        self._touch(sender)
        self._dispatch()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # the turn was given while the request was being cancelled
                future.result().end()
            self._forget_if_idle(sender)
            raise

    def count_waiting(self) -> int:
        return sum(share.count_waiting() for share in list(self._shares.values()))

    def count_running(self) -> int:
        return self._running

    def _touch(self, sender: str) -> None:
        now = asyncio.get_running_loop().time()
        self._last_active[sender] = now
        self._last_active.move_to_end(sender)
        while (oldest := next(iter(self._last_active))) not in self._shares and (
            self._last_active[oldest] < now - ACTIVE_S
        ):
            del self._last_active[oldest]
            self._rests_until.pop(oldest, None)

    def _dispatch(self) -> None:
        loop = asyncio.get_running_loop()
        while self._running < self.in_all:
            now = loop.time()
            ready = [(name, share) for name, share in self._shares.items() if self._may_start(name, share, now)]
            if not ready:
                return
            sender, share = min(ready, key=lambda entry: (len(entry[1].running), entry[1].last_started))
            future = share.next_in_line()
            assert future is not None  # checked by _may_start
            turn = QueueTurn(self, sender, now)
            share.running.add(turn)
            share.last_started = turn.started
            self._running += 1
            loop.call_later(YOUNG_S, self._dispatch)  # then the sender may start another one
            future.set_result(turn)

    def _may_start(self, sender: str, share: _Share, now: float) -> bool:
        if len(share.running) >= self.at_once or share.next_in_line() is None:
            return False
        last_other = next((at for name, at in reversed(self._last_active.items()) if name != sender), None)
        if last_other is None:
            return True
        if any(now - turn.started < YOUNG_S for turn in share.running):
            return False
        is_urgent = 0 < share.count_waiting(urgent_only=True) <= self.at_once  # not if they are a flood themselves
        return is_urgent or now - last_other > BUSY_S or now >= self._rests_until.get(sender, 0.0)

    def _end(self, sender: str, turn: QueueTurn) -> None:
        loop = asyncio.get_running_loop()
        if (rest_s := turn.started + self.pace_s - loop.time()) > 0:
            loop.call_later(rest_s, self._release, sender, turn)
        else:
            self._release(sender, turn)

    def _release(self, sender: str, turn: QueueTurn) -> None:
        self._shares[sender].running.discard(turn)
        self._running -= 1
        share = self._shares[sender]
        if share.count_waiting() >= self.at_once:
            loop = asyncio.get_running_loop()
            rest_s = min(loop.time() - turn.started, YOUNG_S)
            self._rests_until[sender] = loop.time() + rest_s
            loop.call_later(rest_s, self._dispatch)
        self._touch(sender)
        self._forget_if_idle(sender)
        self._dispatch()

    def _forget_if_idle(self, sender: str) -> None:
        share = self._shares.get(sender)
        if share and not share.running and share.next_in_line() is None:
            del self._shares[sender]


def queue_full() -> str:
    return (
        f"{settings.CALLS_WAITING} of your calls are waiting already and at most {settings.CALLS_AT_ONCE} run at a "
        "time: let some of them finish, then call again"
    )

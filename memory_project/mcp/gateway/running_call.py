"""A running call of an upstream's tool, which may outlast the request that began it.

A server of an earlier protocol revision asks its question in the middle of a call. A client of the current revision
answers it in another request. In between the call waits here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
import mcp.types as types

from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from memory_project.mcp.confirmations import ANSWER_S
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.failures import TimedOut
from memory_project.mcp.gateway.pool import SessionPool

if TYPE_CHECKING:
    from memory_project.mcp.gateway.session import UpstreamSession

REPORT_EVERY_S = 0.1
LONGEST = 20  # times the upstream's time limit that a call may take while it reports progress

Answer = types.ElicitResult | types.ErrorData
Event = types.CallToolResult | types.InputRequiredResult | types.ElicitRequestParams | DomainError
Report = Callable[[float, float | None, str | None], Awaitable[None]]


class RunningCall:
    def __init__(self, session: UpstreamSession, caller: Caller, params: types.CallToolRequestParams) -> None:
        self.caller = caller
        self.upstream: Upstream = session.upstream
        self.tool = params.name
        self.report: Report | None = None  # to the client of the request that waits now
        self.can_ask = False  # whether that client can ask its person
        self.waits_until = 0.0  # for an answer; monotonic seconds
        self._session = session
        self._params = params
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()
        self._work = anyio.CancelScope()
        self._limit = anyio.CancelScope()
        self._reported_at = 0.0

    async def run(self, pool: SessionPool) -> None:
        """Carry out the call and store its outcome for `next`. Never raises."""
        with self._work:
            outcome: Event
            error: DomainError | None = None
            try:
                async with pool.slot(self.upstream, self.caller):
                    outcome = await self._in_time()
            except DomainError as failed:
                outcome = error = failed
            pool.note(self.upstream, self.caller, error)
            self._events.put_nowait(outcome)

    async def next(self) -> Event:
        """Return the result, an error, or a question. If this is cancelled, so is the call."""
        try:
            return await self._events.get()
        except anyio.get_cancelled_exc_class():
            self.cancel()
            raise

    def answer(self, answer: Answer) -> None:
        self._answers.put_nowait(answer)

    def cancel(self) -> None:
        self._work.cancel()

    async def _in_time(self) -> types.CallToolResult | types.InputRequiredResult:
        self._last_moment = anyio.current_time() + LONGEST * self.upstream.timeout_s
        with self._limit:
            self._extend()
            return await self._session.call(self._params, self._progress, self._ask if self.can_ask else None)
        raise TimedOut(self.upstream)

    def _extend(self) -> None:
        self._limit.deadline = min(anyio.current_time() + self.upstream.timeout_s, self._last_moment)

    async def _progress(self, progress: float, total: float | None, message: str | None) -> None:
        self._extend()
        now = time.monotonic()
        if self.report is None or (now - self._reported_at < REPORT_EVERY_S and progress != total):
            return  # an upstream may report more often than is good for the client
        self._reported_at = now
        with suppress(Exception):  # the client may have gone, which cancels the call by other means
            await self.report(progress, total, message)

    async def _ask(self, params: types.ElicitRequestParams) -> Answer:
        self._limit.deadline = float("inf")
        self.waits_until = time.monotonic() + ANSWER_S
        try:
            self._events.put_nowait(params)
            with anyio.move_on_after(ANSWER_S):
                return await self._answers.get()
            return types.ElicitResult(action="cancel")
        finally:
            self._last_moment = anyio.current_time() + LONGEST * self.upstream.timeout_s
            self._extend()

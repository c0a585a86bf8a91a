"""The connections of this process to upstreams: opened when needed, kept while used, closed when idle.

A connection belongs to one upstream, one credential and one connection of a client, because servers keep state in it.
Only those of upstreams that declare `shares_session` are shared.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
from anyio import to_thread

from foundation.operations import errors
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from memory_project.mcp.gateway import status
from memory_project.mcp.gateway.credential_owners import NOBODY, is_stored, owner
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.failures import Lost, TimedOut

# Imported when a connection is opened: they bring HTTP clients and OAuth, and most servers have no upstream.
if TYPE_CHECKING:
    from memory_project.mcp.gateway.credentials import Credential
    from memory_project.mcp.gateway.session import UpstreamSession

log = logging.getLogger(__name__)

IDLE_S = 300.0  # seconds without a call after which a connection is closed
MAX_SESSIONS = 64  # open connections to one upstream, in each process
RELIST_S = 60.0  # age of a connection's list at which a call lists anew, so that a changed tool is noticed
LOOK_EVERY_S = 10.0  # seconds between two looks for new declarations and idle connections
FAILURES = 5  # failures in a row after which calls are refused for a while
PAUSES_S = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)


@dataclass
class UpstreamBreaker:
    """Refuses calls for growing pauses, after FAILURES failures in a row or a connection that could not be opened.

    The next call after a pause is the trial.
    """

    failures: int = 0
    open_until: float = 0.0
    version: str = ""  # of the credential

    def check(self, name: str) -> None:
        left = self.open_until - time.monotonic()
        if left > 0:
            raise errors.Degraded(f"{name}: has just failed; calls go on in {left:.0f} s")

    def failed(self, *, at_once: bool = False) -> None:
        self.failures = max(self.failures + 1, FAILURES if at_once else 0)
        if self.failures >= FAILURES:
            pause = PAUSES_S[min(self.failures - FAILURES, len(PAUSES_S) - 1)]
            self.open_until = time.monotonic() + pause

    def succeeded(self) -> None:
        self.failures = 0
        self.open_until = 0.0


@dataclass
class Slots:
    """Places for running calls: of one upstream, and of one person there."""

    in_all: anyio.Semaphore
    per_person: dict[str, anyio.Semaphore] = field(default_factory=dict)


Key = tuple[str, str, str]  # upstream, owner of the credential, connection of the client


class SessionPool:
    def __init__(self) -> None:
        self._sessions: dict[Key, UpstreamSession] = {}
        self._opening: defaultdict[Key, anyio.Lock] = defaultdict(anyio.Lock)
        self._breakers: defaultdict[tuple[str, str], UpstreamBreaker] = defaultdict(UpstreamBreaker)
        self._slots: dict[str, Slots] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._changed = anyio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Own the connections for the time of a block, and keep the lists of upstreams current."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._keep)
            try:
                yield
            finally:
                self._tasks = None
                for session in self._sessions.values():
                    session.close()
                with anyio.move_on_after(3, shield=True):
                    await self._all_closed()
                tasks.cancel_scope.cancel()

    def start(self, work: Any, *arguments: Any) -> None:
        """Run a coroutine function in the background. Raises errors.Degraded while the server stops."""
        if self._tasks is None:
            raise errors.Degraded("the server is stopping")
        self._tasks.start_soon(work, *arguments)

    @asynccontextmanager
    async def slot(self, upstream: Upstream, caller: Caller) -> AsyncIterator[None]:
        """Wait for a place among the running calls. Raises LimitReached if none becomes free in time."""
        slots = self._slots.setdefault(upstream.name, Slots(anyio.Semaphore(upstream.calls_at_once)))
        person = slots.per_person.setdefault(caller.email, anyio.Semaphore(upstream.calls_per_person))
        taken: list[anyio.Semaphore] = []
        try:
            with anyio.move_on_after(upstream.timeout_s) as waiting:
                for semaphore in (person, slots.in_all):
                    await semaphore.acquire()
                    taken.append(semaphore)
            if waiting.cancelled_caught:
                raise errors.LimitReached(f"{upstream.name}: other calls took all places for {upstream.timeout_s:g} s")
            yield
        finally:
            for semaphore in taken:
                semaphore.release()
            if person.value == upstream.calls_per_person and not person.statistics().tasks_waiting:
                slots.per_person.pop(caller.email, None)

    async def session(self, upstream: Upstream, caller: Caller) -> UpstreamSession:
        """Return an open connection for the caller, with a list of tools that is at most RELIST_S seconds old."""
        key = (
            upstream.name,
            owner(upstream, caller),
            "" if upstream.shares_session else caller.connection or caller.email,
        )
        async with self._opening[key]:
            session = self._sessions.get(key)
            if session is not None and is_stored(upstream):
                # the person, or an operator, may have replaced or removed it in another process
                credential = await self._credential(upstream, caller, session)
                if session.version != credential.version:
                    session.close()
            if session is None or not session.is_open or session.upstream != upstream:
                if session is not None:
                    session.close()
                session = await self._open(key, upstream, caller)
            if session.has_changed or time.monotonic() - session.listed_at > RELIST_S:
                await self._list(session)
            return session

    def note(self, upstream: Upstream, caller: Caller, error: DomainError | None) -> None:
        """Count a call's success or failure for the breaker. Errors that the upstream answers with are successes."""
        breaker = self._breakers[upstream.name, owner(upstream, caller)]
        if isinstance(error, Lost | TimedOut):
            breaker.failed()
        else:
            breaker.succeeded()

    async def _open(self, key: Key, upstream: Upstream, caller: Caller) -> UpstreamSession:
        breaker = self._breakers[key[:2]]
        credential = await self._credential(upstream, caller)
        if breaker.version != credential.version:  # another credential may succeed
            breaker.succeeded()
            breaker.version = credential.version
        breaker.check(upstream.name)
        self._make_room(upstream.name)
        from memory_project.mcp.gateway.session import UpstreamSession  # noqa: PLC0415 - see above

        session = UpstreamSession(
            upstream, credential.headers, credential.auth, lambda: self._note_changed(session), credential.version
        )
        self.start(session.own)
        await session.ready.wait()
        if not session.is_open:
            breaker.failed(at_once=True)
            await to_thread.run_sync(status.note_failure, upstream.name, session.problem)
            raise errors.Upstream(f"{upstream.name}: {session.problem or 'the connection ended at once'}")
        self._sessions[key] = session
        return session

    async def _credential(
        self, upstream: Upstream, caller: Caller, session: UpstreamSession | None = None
    ) -> Credential:
        from memory_project.mcp.gateway import credentials  # noqa: PLC0415 - see above

        try:
            return await to_thread.run_sync(credentials.for_connection, upstream, caller)
        except DomainError as error:
            if session is not None:
                session.close()
            if upstream.credentials == "service":  # what one person lacks says nothing about the upstream
                await to_thread.run_sync(status.note_failure, upstream.name, error.message)
            raise

    async def _list(self, session: UpstreamSession) -> None:
        try:
            tools, resources, templates = await session.list_offer()
            await to_thread.run_sync(status.record, session.upstream, tools, resources, templates, session.server)
        except DomainError as error:
            await to_thread.run_sync(status.note_failure, session.upstream.name, error.message)
            raise

    def _note_changed(self, session: UpstreamSession) -> None:
        session.has_changed = True
        self._changed.set()

    def _make_room(self, name: str) -> None:
        own = [(key, session) for key, session in self._sessions.items() if key[0] == name]
        for key, session in own:
            if not session.is_open:
                del self._sessions[key]
        idle = sorted((s.used_at, key) for key, s in own if s.is_open and not s.running)
        if len(own) >= MAX_SESSIONS and not idle:
            raise errors.LimitReached(f"{name}: {MAX_SESSIONS} connections are in use; try again")
        for _, key in idle[: max(len(own) - MAX_SESSIONS + 1, 0)]:
            self._sessions.pop(key).close()

    async def _keep(self) -> None:
        """Close idle connections, and list upstreams that are new, have said that they changed, or were not in use."""
        while True:
            try:
                self._close_idle()
                await self._list_due()
            except DomainError as error:  # for example, the database is away
                log.warning("could not look after the upstreams: %s", error.message)
            except Exception:  # the loop must go on
                log.exception("could not look after the upstreams")
            with anyio.move_on_after(LOOK_EVERY_S):
                await self._changed.wait()
            self._changed = anyio.Event()

    def _close_idle(self) -> None:
        now = time.monotonic()
        for key, session in list(self._sessions.items()):
            if not session.is_open or (not session.running and now - session.used_at > IDLE_S):
                session.close()
                del self._sessions[key]
                self._opening.pop(key, None)

    async def _list_due(self) -> None:
        for session in list(self._sessions.values()):
            if session.is_open and session.has_changed:
                self.start(self._try_list, session.upstream, NOBODY, session)
        for upstream, caller in await to_thread.run_sync(status.due):
            self.start(self._try_list, upstream, caller, None)

    async def _try_list(self, upstream: Upstream, caller: Caller, session: UpstreamSession | None) -> None:
        try:
            session = session or await self.session(upstream, caller)
            if session.has_changed or time.monotonic() - session.listed_at > LOOK_EVERY_S:
                await self._list(session)
        except DomainError as error:
            log.warning("could not list the tools of an upstream: %s", error.message)
        except Exception:  # the other upstreams must go on
            log.exception("could not list the tools of the upstream %s", upstream.name)

    async def _all_closed(self) -> None:
        while any(session.is_open for session in self._sessions.values()):
            await anyio.sleep(0.01)

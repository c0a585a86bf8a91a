"""Calls of upstream tools: the same permissions, limits, audit and attached memories as for our own tools.

A call waits for the upstream outside of the worker threads and of the person's turns, so that a slow upstream takes
neither from anybody.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

import anyio
import mcp.types as types
from anyio import to_thread
from django.conf import settings
from mcp.server.mcpserver import Context

from foundation.database import connections, identity
from foundation.operations import errors
from foundation.operations.errors import DomainError, Forbidden
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from foundation.work.fair_queue import TURN_KEY
from memory_project.mcp.confirmations import asks_in_results, can_ask
from memory_project.mcp.gateway import entities, questions, registry, results
from memory_project.mcp.gateway.declaration import Upstream
from memory_project.mcp.gateway.models import PinState
from memory_project.mcp.gateway.pool import SessionPool
from memory_project.mcp.gateway.registry import ProxiedTool
from memory_project.mcp.gateway.running_call import Event, RunningCall
from memory_project.mcp.responses import AttachedContent, CallContext, Cancelled, asks_for_context, report_failure
from memory_project.mcp.workers import Running, in_thread
from memory_project.operating.observability.calls import UPSTREAM
from memory_project.web import rate_limits

if TYPE_CHECKING:
    from memory_project.mcp.authenticated_server import IdentifiedServer

log = logging.getLogger(__name__)


@dataclass
class Gateway:
    """The upstreams of one server. `toolsets` are those that it offers; None means that each request chooses."""

    server: IdentifiedServer
    toolsets: Sequence[str] | None = None
    is_read_only: bool = False
    pool: SessionPool = field(default_factory=SessionPool)
    waiting: Counter[str] = field(default_factory=Counter)  # calls of each person that are not finished
    _asking: dict[str, RunningCall] = field(default_factory=dict)

    def tool(self, name: str) -> ProxiedTool | None:
        """Return an upstream's tool by the name that clients use, whoever asks, even if it is held back.

        Makes no query.
        """
        snapshot = registry.current()
        tool = snapshot.tools.get(name) or snapshot.held_back.get(name)
        return tool if tool is not None and self._is_offered(tool) else None

    def tools_for(self, caller: Caller) -> dict[str, ProxiedTool]:
        return {name: tool for name, tool in registry.tools_of(caller).items() if self._is_offered(tool)}

    def fingerprint(self, caller: Caller) -> str:
        """Return a text that changes with the list of the tools that the caller may use."""
        return " ".join(f"{name} {tool.pin_hash}" for name, tool in sorted(self.tools_for(caller).items()))

    def _is_offered(self, tool: ProxiedTool) -> bool:
        if self.is_read_only and not tool.hints.read_only:
            return False
        return self.offers(tool.upstream)

    def offers(self, upstream: Upstream) -> bool:
        """Return whether the server offers an upstream, to connections that may use it."""
        return self.toolsets is None or not {"all", registry.TOOLSET, upstream.name}.isdisjoint(self.toolsets)

    async def call(
        self, tool: ProxiedTool, arguments: Mapping[str, Any], context: Context[Any, Any] | None
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Call a tool of an upstream. Errors become the result, as those of our own tools do."""
        request = context.request_context.request if context else None
        call = _OneCall(self, tool, dict(arguments), context, request)
        try:
            return await call.carry_out()
        except DomainError as error:
            return await call.failed(error)
        except Exception:
            log.exception("%s failed", tool.name)
            return await call.failed(errors.Degraded("something went wrong; the details are in the server's log"))
        except BaseException:  # the client has cancelled the call, or has gone
            with suppress(DomainError):  # the server is stopping
                self.pool.start(call.was_cancelled)
            raise
        finally:
            call.leave()

    def keep(self, running: RunningCall) -> str:
        """Keep a call that waits for its person, and return its state for the client."""
        now = time.monotonic()
        self._asking = {key: kept for key, kept in self._asking.items() if kept.waits_until > now}
        key = token_urlsafe(16)
        self._asking[key] = running
        return key

    def kept(self, key: str, caller: Caller, tool: ProxiedTool) -> RunningCall:
        """Return the call that waits for an answer.

        Raises Conflict if this process has none of this caller and tool.
        """
        running = self._asking.get(key)
        wanted = (caller.email, caller.connection, tool.upstream.name, tool.upstream_tool)
        if running is None or wanted != (
            running.caller.email,
            running.caller.connection,
            running.upstream.name,
            running.tool,
        ):
            raise errors.Conflict("the call no longer waits for this answer: call again")
        return self._asking.pop(key)


@dataclass
class _OneCall:
    gateway: Gateway
    tool: ProxiedTool
    arguments: dict[str, Any]
    context: Context[Any, Any] | None
    request: Any
    caller: Caller | None = None
    started: float = field(default_factory=time.perf_counter)
    lookup: CallContext | None = None
    is_over: bool = False
    is_counted: bool = False

    async def carry_out(self) -> types.CallToolResult | types.InputRequiredResult:
        server = self.gateway.server
        self.caller = await server.in_turn(self.request, self._admitted, running=Running())
        self._enter(self.caller)
        if turn := self.request is not None and self.request.scope.get(TURN_KEY):
            turn.end()  # waiting for another server takes no turn
        running = await self._running()
        while True:
            event = await self._next_of(running)
            if isinstance(event, DomainError):
                raise event
            if isinstance(event, types.CallToolResult):
                return await self._finish(event)
            if isinstance(event, types.InputRequiredResult):
                asked = await questions.pass_on(event, self.tool.upstream, self.context)
                if isinstance(asked, types.InputRequiredResult):
                    self.is_over = True
                    return asked
                running = await self._start(answers=asked, state=event.request_state)
            elif self.context is not None and asks_in_results(self.context):
                self.is_over = True
                return questions.as_result(event, self.tool.upstream, self.gateway.keep(running))
            else:
                running.answer(await questions.ask_directly(event, self.tool.upstream, self.context))

    async def _next_of(self, running: RunningCall) -> Event:
        """Return the next event of the call. Memories are looked up beside the first one."""
        if self.lookup is not None or not asks_for_context(self.context):
            return await running.next()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look_up)
            event = await running.next()
        return event

    async def _look_up(self) -> None:
        await in_thread(self._begin_lookup, running=Running(), limiter=self.gateway.server.threads())

    def _begin_lookup(self) -> None:
        assert self.caller is not None
        with identity.acting_as(self.caller):
            self.lookup = CallContext(self.caller, self._call({}, entities.declared_in(self.tool, self.arguments)))
            self.lookup.begin()

    def _call(self, data: Mapping[str, Any], named: Sequence[str] | None) -> Call:
        platform = self.tool.upstream.platform
        return Call(self.tool.name, self.arguments, data, is_proxied=True, named=named, platform=platform)

    def _enter(self, caller: Caller) -> None:
        """Count the call. Raises LimitReached, because from now on no queue bounds how many calls a person has."""
        if self.gateway.waiting[caller.email] >= settings.CALLS_WAITING + settings.CALLS_AT_ONCE:
            raise errors.LimitReached("too many of your calls are waiting for other servers; wait for some of them")
        self.gateway.waiting[caller.email] += 1
        self.is_counted = True

    def leave(self) -> None:
        if self.is_counted and self.caller is not None:
            self.gateway.waiting[self.caller.email] -= 1
            if not self.gateway.waiting[self.caller.email]:
                del self.gateway.waiting[self.caller.email]

    def _admitted(self, caller: Caller) -> Caller:
        """Return the caller, or raise why the call is not allowed. Runs in a worker thread."""
        snapshot = registry.refreshed()
        name = self.tool.name
        offered = snapshot.tools.get(name) or snapshot.held_back.get(name, self.tool)
        if not offered.is_open_to(caller):
            raise Forbidden(f"the persona {caller.persona!r}, or this connection, may not use {name}")
        if name not in snapshot.tools:
            reasons = {
                PinState.REFUSED: "was refused by an operator",
                PinState.GONE: "is no longer offered by its server",
            }
            reason = reasons.get(offered.state, "is held back until an operator has looked at it")
            raise Forbidden(f"{name} {reason}")
        self.tool = offered
        rate_limits.check(caller, writes=offered.writes(self.arguments))
        return caller

    async def _running(self) -> RunningCall:
        """Return the new call, or the one that waits for the answer that this request brings."""
        state = self.context.request_state if self.context else None
        if not state:
            return await self._start()
        assert self.context is not None
        assert self.caller is not None
        kind, _, rest = state.partition(":")
        if kind == questions.KEPT:
            running = self.gateway.kept(rest, self.caller, self.tool)
            self._attach_client(running)
            running.answer(questions.answer_in(self.context))
            return running
        return await self._start(answers=self.context.input_responses, state=rest)

    async def _start(self, *, answers: Any = None, state: str | None = None) -> RunningCall:
        assert self.caller is not None
        session = await self.gateway.pool.session(self.tool.upstream, self.caller)
        listed_hash = session.hashes.get(self.tool.upstream_tool, "")
        if not listed_hash:
            raise errors.Upstream(f"{self.tool.name}: {self.tool.upstream.name} no longer offers it")
        if listed_hash != self.tool.pin_hash:
            raise Forbidden(
                f"{self.tool.name} has changed since it was approved: it is held back until an operator has looked"
            )
        params = types.CallToolRequestParams(
            name=self.tool.upstream_tool, arguments=self.arguments, input_responses=answers, request_state=state
        )
        running = RunningCall(session, self.caller, params)
        self._attach_client(running)
        self.gateway.pool.start(running.run, self.gateway.pool)
        return running

    def _attach_client(self, running: RunningCall) -> None:
        running.report = self.context.report_progress if self.context else None
        running.can_ask = can_ask(self.context)

    async def _finish(self, result: types.CallToolResult) -> types.CallToolResult:
        """Attach memories and write the audit event, in a worker thread."""
        self.is_over = True
        limiter = self.gateway.server.threads()
        return await in_thread(self._enriched, result, running=Running(), limiter=limiter)

    def _enriched(self, result: types.CallToolResult) -> types.CallToolResult:
        assert self.caller is not None
        data = results.data_of(result)
        attached = AttachedContent()
        with identity.acting_as(self.caller):
            if not result.is_error and self.lookup is not None:
                named = entities.declared_in(self.tool, self.arguments, result)
                attached = self.lookup.finish(self._call(data, named))
            failed = errors.Upstream(results.first_text(result)) if result.is_error else None
            self._audit(data, failed, attached)
        return results.delivered(result, self.tool.upstream.name, attached)

    async def failed(self, error: DomainError) -> types.CallToolResult:
        self.is_over = True
        limiter = self.gateway.server.threads()
        await in_thread(self._note_failure, error, running=Running(), limiter=limiter)
        return results.failure(error)

    async def was_cancelled(self) -> None:
        if self.is_over:
            return
        cancelled = Cancelled("the client disconnected or cancelled the call")
        await to_thread.run_sync(self._note_failure_in_session, cancelled)

    def _note_failure_in_session(self, error: DomainError) -> None:
        with connections.session():
            self._note_failure(error)

    def _note_failure(self, error: DomainError) -> None:
        with identity.acting_as(self.caller):
            if self.caller is not None:
                report_failure(self.caller, Call(self.tool.name, self.arguments, {}), error)
            self._audit({"error": error.message, "code": error.code}, error)

    def _audit(
        self, data: Mapping[str, Any], error: DomainError | None, attached: AttachedContent | None = None
    ) -> None:
        duration_ms = (time.perf_counter() - self.started) * 1000
        self.gateway.server.audit(
            self.caller,
            self.tool.name,
            self.arguments,
            data,
            error,
            duration_ms,
            attached,
            only_read=self.tool.hints.read_only,
            label=UPSTREAM,
        )

"""An MCP server that knows who is calling: identity, turns, the worker thread and the audit of every call."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from django.conf import settings
from mcp.server.mcpserver import MCPServer

from memories.contract.errors import DomainError, Forbidden
from memories.database import connections
from memories.identity.caller import Caller
from memory_project import audit
from memory_project.mcp.auth import caller_of_request
from memory_project.mcp.responses import AttachedContent, outcome
from memory_project.mcp.workers import Running, in_thread
from memory_project.web.fair_queue import ToolGate

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Identify = Callable[[Any], Caller | None]


class IdentifiedServer(MCPServer[Any]):
    """The SDK's server, each of whose calls has a caller.

    `identify` takes the HTTP request, or None on stdio; without it each request brings its token, and nothing outlives
    a request.
    """

    def __init__(self, identify: Identify | None, **options: Any) -> None:
        self.is_stateless = identify is None
        self._identify = identify or caller_of_request
        self._gate = ToolGate()
        self._threads: anyio.CapacityLimiter | None = None  # made in the event loop
        super().__init__("commonplace", title="Commonplace", log_level="WARNING", **options)

    def _caller(self, request: Any) -> Caller:
        caller = self._identify(request)
        if caller is None:
            raise Forbidden("this connection has no identity")
        return caller

    async def caller(self, request: Any) -> Caller:
        """Who is on this connection. Raises Forbidden, and Degraded while the database is away."""
        if self.is_stateless:
            return self._caller(request)  # the request has brought its caller
        return await to_thread.run_sync(self._identified, request)

    def _identified(self, request: Any) -> Caller:
        with connections.session():
            return self._caller(request)

    async def in_turn(self, request: Any, work: Callable[..., Result], *arguments: Any, running: Running) -> Result:
        """The work, for the caller, in a thread of its own, when it is their turn: they are identified there too, since
        a second thread costs a call as much as a query. Raises LimitReached, Forbidden, and Degraded."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(settings.CALLS_IN_ALL)
        line = self._caller(request).email if self.is_stateless else ""  # a lasting connection is one person's
        async with self._gate.turn(line):
            return await in_thread(self._for_caller, request, work, *arguments, running=running, limiter=self._threads)

    def _for_caller(self, request: Any, work: Callable[..., Result], *arguments: Any) -> Result:
        return work(self._caller(request), *arguments)

    def audit(
        self,
        caller: Caller | None,
        name: str,
        arguments: Mapping[str, Any],
        answer: Mapping[str, Any],
        error: DomainError | None,
        duration_ms: float,
        beside: AttachedContent | None = None,
        *,
        only_read: bool = False,
    ) -> None:
        try:
            audit.record(
                caller=caller,
                tool=name,
                outcome=outcome(error),
                code=error.code if error else "",
                message=error.message if error else "",
                duration_ms=duration_ms,
                arguments=arguments,
                answer=answer,
                request_chars=len(json.dumps(arguments, default=str)),
                response_chars=len(json.dumps(answer, ensure_ascii=False)),
                context_ms=beside.took_ms if beside else 0.0,
                shown_ids=beside.record_ids if beside else (),
                only_read=only_read,
            )
        except Exception:  # the call is over: whoever made it gets its answer
            log.exception("the call of %s could not be written to the audit", name)

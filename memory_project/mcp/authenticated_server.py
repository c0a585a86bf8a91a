"""The part of the MCP server that identifies the caller, queues and runs each call, and writes the audit log."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import anyio
from anyio import to_thread
from django.conf import settings
from mcp.server.mcpserver import MCPServer

from foundation.database import connections, identity
from foundation.operations.errors import DomainError, Forbidden, LimitReached
from foundation.people.caller import Caller
from foundation.work.fair_queue import FairQueue, QueueFull, queue_full
from memory_project import audit
from memory_project.mcp.confirmations import state_security
from memory_project.mcp.responses import AttachedContent, outcome
from memory_project.mcp.workers import Running, in_thread
from memory_project.operating.observability import calls

log = logging.getLogger(__name__)

Result = TypeVar("Result")
Identify = Callable[[Any], Caller | None]
SCOPE_KEY = "commonplace.caller"  # in the ASGI scope


class IdentifiedServer(MCPServer[Any]):
    """The SDK's server, with a Caller for each request.

    A stdio server passes `identify`, which returns the Caller. Without it, this is a stateless HTTP server:
    RequireToken identifies the caller of each request, and the server keeps no state between requests.
    """

    def __init__(self, identify: Identify | None, **options: Any) -> None:
        self.is_stateless = identify is None
        self._identify = identify or caller_from_scope
        # over HTTP, a request has waited for its turn before it comes here
        self._queue: FairQueue | None = None if self.is_stateless else stdio_queue()
        self._threads: anyio.CapacityLimiter | None = None  # created within the event loop
        security = state_security(caller_from_scope if self.is_stateless else None)
        super().__init__(
            "commonplace", title="Commonplace", log_level="WARNING", request_state_security=security, **options
        )

    def _caller(self, request: Any) -> Caller:
        caller = self._identify(request)
        if caller is None:
            raise Forbidden("this connection has no identity")
        return caller

    async def caller(self, request: Any) -> Caller:
        """Return the caller of a request.

        Raises Forbidden if the request has no caller, and Degraded if the database is unavailable.
        """
        if self.is_stateless:
            return self._caller(request)  # reads the request and not the database, so no thread is needed
        return await to_thread.run_sync(self._identified, request)

    def _identified(self, request: Any) -> Caller:
        with connections.session():
            return self._caller(request)

    async def in_turn(self, request: Any, work: Callable[..., Result], *arguments: Any, running: Running) -> Result:
        """Wait for the caller's turn, then run `work(caller, *arguments)` in a worker thread.

        Raises LimitReached if too many calls of the caller are waiting, Forbidden if the request has no caller, and the
        errors of `work`, where database errors become DomainErrors.
        """
        try:
            turn = await self._queue.take("") if self._queue else None
        except QueueFull:
            raise LimitReached(queue_full()) from None
        try:
            # the same thread identifies the caller, because switching to a second thread takes as long as a query
            return await in_thread(self._for_caller, request, work, *arguments, running=running, limiter=self.threads())
        finally:
            if turn:
                turn.end()

    def threads(self) -> anyio.CapacityLimiter:
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(settings.CALLS_IN_ALL)
        return self._threads

    def _for_caller(self, request: Any, work: Callable[..., Result], *arguments: Any) -> Result:
        caller = self._caller(request)
        with identity.acting_as(caller):
            return work(caller, *arguments)

    def audit(
        self,
        caller: Caller | None,
        name: str,
        arguments: Mapping[str, Any],
        answer: Mapping[str, Any],
        error: DomainError | None,
        duration_ms: float,
        attached: AttachedContent | None = None,
        *,
        only_read: bool = False,
        label: str = "",
    ) -> None:
        """Write the call to the audit log, and count it under its name, or under `label`."""
        channel = caller.channel if caller else ""
        calls.tool_called(channel, label or name, error.code if error else "", duration_ms / 1000)
        try:
            audit.record(
                caller,
                tool=name,
                outcome=outcome(error),
                code=error.code if error else "",
                message=error.message if error else "",
                duration_ms=duration_ms,
                arguments=arguments,
                answer=answer,
                request_chars=len(json.dumps(arguments, default=str)),
                response_chars=len(json.dumps(answer, ensure_ascii=False)),
                context_ms=attached.took_ms if attached else 0.0,
                context_count=len(attached.record_ids) if attached else 0,
                only_read=only_read,
            )
        except Exception:  # the call has been executed, so the client must get its response
            log.exception("could not write the call of %s to the audit log", name)


def caller_from_scope(request: Any) -> Caller | None:
    return None if request is None else request.scope.get(SCOPE_KEY)


def stdio_queue() -> FairQueue:
    limit = settings.CALLS_AT_ONCE  # stdio serves one person
    return FairQueue(at_once=limit, in_all=limit, waiting=settings.CALLS_WAITING)

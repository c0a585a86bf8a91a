"""The id and the span of each request."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_project.operating.observability import request_context, tracing
from memory_project.web.client_address import is_trusted_proxy

HEADER = "X-Request-ID"
VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")


class RequestIds:
    """ASGI middleware that opens the span of a request, gives it an id, and adds the id to the response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        # outsiders must neither choose ids nor decide that their requests are recorded
        headers = Headers(scope=scope) if _is_from_proxy(scope) else Headers()
        with tracing.request_span(scope["method"], headers) as span:
            given = headers.get(HEADER, "")
            own = given if VALID.fullmatch(given) else tracing.trace_id() or request_context.new_id()

            async def send_with_id(message: Message) -> None:
                if message["type"] == "http.response.start":
                    MutableHeaders(scope=message)[HEADER] = own
                    span.answered(message["status"])
                await send(message)

            with request_context.within(own):
                await self.app(scope, receive, send_with_id)


def _is_from_proxy(scope: Scope) -> bool:
    peer = scope.get("commonplace.peer") or scope.get("client")
    return is_trusted_proxy(peer[0]) if peer else False

"""Limits on the size of requests and on the time they take to arrive.

They protect the web server from clients that send too much or too slowly.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

# seconds within which all headers of a request must arrive, from the start of the connection or, for a later request on
# the same connection, from its first byte
HEADERS_WITHIN_S = 10.0
BODY_WITHIN_S = 60.0  # seconds within which the body of a request must arrive after its headers


class HeadersInTime(H11Protocol):
    """uvicorn's HTTP protocol, extended to close a connection if the headers of a request do not arrive in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEADERS_WITHIN_S, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_served = self._is_served()
        if is_served and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        elif not is_served and self._deadline is None:  # the next request of a keep-alive connection has begun
            self._deadline = self.loop.call_later(HEADERS_WITHIN_S, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_served() and not self.transport.is_closing():
            self.transport.close()

    def _is_served(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, contrary to uvicorn's types
        return cycle is not None and not cycle.response_complete


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


class LimitBody:
    """ASGI middleware that refuses a body that is too large (413) or arrives too slowly (408)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        body = _Body(receive)
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if body.refused and not started:  # drop the application's response, because the refusal is sent below
                return
            started = True
            await send(message)

        try:
            body.check_length(scope)
            await self.app(scope, body.receive, watched)
        except _Refused:
            pass
        finally:
            if body.refused and not started:
                await send_refusal(body.refused, scope, send)


class _Body:
    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._size = 0
        self._is_complete = False
        self.refused: _Refused | None = None
        self._deadline = asyncio.get_running_loop().time() + BODY_WITHIN_S

    def check_length(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > settings.MAX_BODY_BYTES:
                raise self._refuse(413, too_large())

    def _refuse(self, status: int, message: str) -> _Refused:
        self.refused = _Refused(status, message)
        return self.refused

    async def receive(self) -> Message:
        if self._is_complete:  # only the disconnect message can still follow; it has no time limit
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._refuse(408, f"the request did not arrive within {BODY_WITHIN_S:g} s") from None
        self._size += len(message.get("body", b""))
        if self._size > settings.MAX_BODY_BYTES:
            raise self._refuse(413, too_large())
        self._is_complete = not message.get("more_body", False)
        return message


def too_large() -> str:
    return f"the request is too large; allowed: at most {settings.MAX_BODY_BYTES:,} bytes"


async def send_refusal(refused: _Refused, scope: Scope, send: Send) -> None:
    if is_for_programs(scope["path"]):
        kind, text = b"application/json", json.dumps({"error": refused.message, "code": "limit"})
    else:
        kind = b"text/html; charset=utf-8"
        title = "Request too slow" if refused.status == 408 else "Request too large"
        text = render_to_string("fault.html", {"title": title, "message": refused.message})
    # the connection is closed because the rest of the body is not read
    headers = [(b"content-type", kind), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


def is_for_programs(path: str) -> bool:
    return path == "/mcp" or path.startswith(("/mcp/", "/api/"))


def uvicorn_options() -> dict[str, Any]:
    return {
        "http": HeadersInTime,
        "log_level": "warning",
        "access_log": False,
        "timeout_graceful_shutdown": GRACE_S,
        "h11_max_incomplete_event_size": 64 * 1024,
    }


GRACE_S = 10  # seconds that running calls have to finish when the server stops

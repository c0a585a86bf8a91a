"""Limits on the number of connections, on the size of requests and on the time they take to arrive.

They protect the web server from clients that send too much or too slowly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

from django.conf import settings
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from memory_project.web.client_address import is_trusted_proxy, sender_of
from memory_project.web.refusals import refuse

# seconds within which all headers of a request must arrive, from the start of the connection or, for a later request on
# the same connection, from its first byte
HEADERS_WITHIN_S = 10.0
# With more connections than this waiting for headers, in each process, the time is shorter. A crowd of clients that
# connect at the same time has it nevertheless.
MAX_HALF_OPEN, MAX_HALF_OPEN_PER_ADDRESS = 200, 20
CROWDED_HEADERS_WITHIN_S = 1.0
# The parser has no limits of its own for what it must keep until it is complete: headers, trailers, a chunk's size.
MAX_INCOMPLETE_BYTES = 64 * 1024
MAX_PIPELINED = 16  # requests of one connection that wait for the response of an earlier one
UPLOADS = ("/memories/import/", "/api/v1/imports/")  # paths that take files of IMPORT_MAX_BYTES from signed-in people
UPLOAD_WITHIN_S = 900.0
BODY_WITHIN_S = 60.0  # seconds within which the body of a request must arrive after its headers


class BadRequest(Exception):
    """Raised in a callback of the parser, which makes uvicorn respond with 400 and close the connection."""


class StrictProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with what its parser leaves to others: limits, the Host header, and trailers."""

    _incomplete_bytes = 0  # received since the parser last completed headers, a part of a body, or a message
    _has_completed = False
    _are_headers_complete = False

    def data_received(self, data: bytes) -> None:
        self._has_completed = False
        super().data_received(data)
        self._incomplete_bytes = 0 if self._has_completed else self._incomplete_bytes + len(data)
        if self._incomplete_bytes > MAX_INCOMPLETE_BYTES and not self.transport.is_closing():
            self.send_400_response("Too much of the request is incomplete.")

    def on_message_begin(self) -> None:
        self._are_headers_complete = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # A proxy sets headers, and may pass on trailers as they are, so a trailer must not count as a header.
        if not self._are_headers_complete:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._has_completed = self._are_headers_complete = True
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            raise BadRequest("there must be one Host header")
        if len(self.pipeline) >= MAX_PIPELINED:
            raise BadRequest("too many requests wait on this connection")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_completed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_completed = True
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Do not fill the log because of strangers. The request is served without the upgrade."""


class HeadersInTime(StrictProtocol):
    """uvicorn's HTTP protocol, extended to limit connections.

    A connection is half-open until the headers of a request have arrived, and is closed if they do not arrive in time.
    Of one address, at most CONNECTIONS_PER_ADDRESS connections stay open. Proxies in TRUSTED_PROXIES may have any
    number.
    """

    # by sender; the sender "" stands for all trusted proxies
    _half_open: ClassVar[Counter[str]] = Counter()
    _open: ClassVar[Counter[str]] = Counter()

    _deadline: asyncio.TimerHandle | None = None
    _sender = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        self._sender = "" if is_trusted_proxy(address) else sender_of(address)
        self._open[self._sender] += 1
        if self._sender and self._open[self._sender] > settings.CONNECTIONS_PER_ADDRESS:
            return transport.abort()
        self._wait_for_headers()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_served = self._is_served()
        if is_served and self._deadline is not None:
            self._stop_waiting()
        elif not is_served and self._deadline is None:  # the next request of a keep-alive connection has begun
            self._wait_for_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._open[self._sender] -= 1
        if not self._open[self._sender]:
            del self._open[self._sender]
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        self._deadline = self.loop.call_later(CROWDED_HEADERS_WITHIN_S, self._give_up_if_crowded)
        self._half_open[self._sender] += 1

    def _stop_waiting(self) -> None:
        if self._deadline is None:
            return
        self._deadline.cancel()
        self._deadline = None
        self._half_open[self._sender] -= 1
        if not self._half_open[self._sender]:
            del self._half_open[self._sender]

    def _give_up_if_crowded(self) -> None:
        is_crowded = bool(self._sender) and self._half_open[self._sender] > MAX_HALF_OPEN_PER_ADDRESS
        if is_crowded or self._half_open.total() > MAX_HALF_OPEN:
            return self._give_up()
        self._deadline = self.loop.call_later(HEADERS_WITHIN_S - CROWDED_HEADERS_WITHIN_S, self._give_up)

    def _give_up(self) -> None:
        self._stop_waiting()
        if not self._is_served() and not self.transport.is_closing():
            self.transport.abort()  # close() would wait for a client that does not read

    def _is_served(self) -> bool:
        cycle: Any = self.cycle  # None before the first request, contrary to uvicorn's types
        return cycle is not None and not cycle.response_complete


class RequestRefused(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class LimitBody:
    """ASGI middleware that refuses a body that is too large (413) or arrives too slowly (408)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        is_upload = scope["path"] in UPLOADS
        body = BoundedBody(
            receive,
            settings.IMPORT_MAX_BYTES if is_upload else settings.MAX_BODY_BYTES,
            UPLOAD_WITHIN_S if is_upload else BODY_WITHIN_S,
        )
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
        except RequestRefused:
            pass
        finally:
            if (refused := body.refused) and not started:
                # the connection is closed because the rest of the body is not read
                await refuse(scope, send, refused.status, refused.message, headers={"connection": "close"})


class BoundedBody:
    """The body of a request, which may have `max_bytes` and must arrive within `within_s` seconds from now."""

    def __init__(self, receive: Receive, max_bytes: int, within_s: float) -> None:
        self._receive = receive
        self._max_bytes = max_bytes
        self._within_s = within_s
        self._size = 0
        self._deadline = asyncio.get_running_loop().time() + within_s
        self.is_complete = False
        self.refused: RequestRefused | None = None

    def check_length(self, scope: Scope) -> None:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > self._max_bytes:
                raise self._too_large()

    def _refuse(self, status: int, message: str) -> RequestRefused:
        self.refused = RequestRefused(status, message)
        return self.refused

    def _too_large(self) -> RequestRefused:
        return self._refuse(413, f"the request is too large; allowed: at most {self._max_bytes:,} bytes")

    async def receive(self) -> Message:
        """Return the next message. Raises Refused if the body exceeds one of its limits."""
        if self.is_complete:  # only the disconnect message can still follow; it has no time limit
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise self._refuse(408, f"the request did not arrive within {self._within_s:g} s") from None
        self._size += len(message.get("body", b""))
        if self._size > self._max_bytes:
            raise self._too_large()
        self.is_complete = not message.get("more_body", False)
        return message


def uvicorn_options() -> dict[str, Any]:
    return {
        "http": HeadersInTime,
        "log_level": "warning",
        "access_log": False,
        "log_config": None,  # its lines look like all others
        "proxy_headers": False,  # uvicorn would trust all programs on this machine; see client_address.py
        "timeout_graceful_shutdown": settings.DRAIN_TIMEOUT_S,
        "ws": "none",
    }

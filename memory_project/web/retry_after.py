"""The header Retry-After of responses that say that something is unavailable."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = 5  # by then, a database or web server that has only been restarted is back


class RetryAfter:
    """ASGI middleware that tells clients when to repeat a request that was answered with status 503."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_time(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 503:
                MutableHeaders(scope=message).setdefault("Retry-After", str(SECONDS))
            await send(message)

        await self.app(scope, receive, send_with_time)

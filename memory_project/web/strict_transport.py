"""HTTP Strict Transport Security: browsers that have seen the header use https only."""

from __future__ import annotations

from django.conf import settings
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class StrictTransport:
    """ASGI middleware that adds the header to all responses if COMMONPLACE_URL is https.

    The request's own scheme doesn't matter: a proxy usually forwards it as http, and browsers ignore the header unless
    they have received it over https.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = settings.HSTS_SECONDS
        if scope["type"] != "http" or not seconds or not settings.COMMONPLACE_URL.startswith("https:"):
            return await self.app(scope, receive, send)

        async def with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("Strict-Transport-Security", f"max-age={seconds}")
            await send(message)

        await self.app(scope, receive, with_header)

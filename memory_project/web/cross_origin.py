"""Access from web pages of other origins (CORS) to MCP and to the endpoints that its clients need to sign in."""

from __future__ import annotations

from django.conf import settings
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_project.web.refusals import is_mcp

SIGN_IN_PATHS = ("/.well-known/", "/oauth/token", "/oauth/register", "/oauth/revoke")
EXPOSED = ("Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After", "X-Request-ID")


class CrossOrigin:
    """ASGI middleware that answers preflights and adds the headers to all responses, also to refusals.

    Only the origins in MCP_ORIGINS are allowed. Cookies are never sent along, so a page can act only with a token that
    somebody gave it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.open_app = CORSMiddleware(
            app,
            allow_origins=settings.MCP_ORIGINS,
            allow_methods=("GET", "POST"),
            allow_headers=("*",),  # some of MCP's headers are named after arguments of tools
            expose_headers=EXPOSED,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] == "http" and (is_mcp(scope["path"]) or scope["path"].startswith(SIGN_IN_PATHS))
        app = self.open_app if is_open and settings.MCP_ORIGINS else self.app
        await app(scope, receive, send)

"""The MCP server as an ASGI application: tokens, choice of tools, and protection of hosts."""

from __future__ import annotations

from collections.abc import Sequence

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_project.mcp import mcp_apps
from memory_project.mcp.auth import RequireToken
from memory_project.mcp.hosts import CheckHost
from memory_project.mcp.server import CommonplaceServer
from memory_project.mcp.tool_selection import ChooseTools
from memory_project.web.mcp_paths import CHOOSING, PATH


def http_app(server: CommonplaceServer, default: Sequence[str] | None = None) -> ASGIApp:
    """Return the server as an ASGI application for /mcp and below.

    Clients that choose no toolsets get those in `default`, or all if it is None. The host application must run
    `server.session_manager`. The application is stateless, so that it can run in several processes, and responds with
    event streams, so that it can report progress.
    """
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # CheckHost protects
    sdk_app = server.streamable_http_app(stateless_http=True, transport_security=security)
    app = RequireToken(mcp_apps.RememberExtension(sdk_app), server.offered.values(), server.caller_cache)
    return OnlyPost(CheckHost(ChooseTools(app, server.offered.values(), default)))


def mcp_routes(app: ASGIApp) -> list[Route]:
    return [Route(path, endpoint=app) for path in (PATH, f"{CHOOSING}{{choice:path}}")]


class OnlyPost:
    """ASGI middleware that refuses other methods.

    GET would open a stream for notifications and DELETE would end a session, and a stateless server has neither.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "POST":
            return await self.app(scope, receive, send)
        body = {"error": f"{scope['method'][:20]} is not supported; allowed: POST", "code": "invalid"}
        await JSONResponse(body, status_code=405, headers={"Allow": "POST"})(scope, receive, send)

"""Protection of /mcp against DNS rebinding: requests for other hosts and from pages of other origins are refused."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class CheckHost:
    """ASGI middleware that applies ALLOWED_HOSTS, with Django's wildcards, and MCP_ORIGINS.

    The SDK's own protection knows no wildcards.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        origin = headers.get("origin", "")
        if not is_allowed_host(host):
            return await _refuse(421, "Host: is not one of this server; see ALLOWED_HOSTS", scope, receive, send)
        if origin and not is_allowed_origin(origin, host):
            return await _refuse(403, "Origin: may not call this server; see MCP_ORIGINS", scope, receive, send)
        await self.app(scope, receive, send)


def is_allowed_host(host: str) -> bool:
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_allowed_origin(origin: str, host: str) -> bool:
    """Return whether the origin is one of MCP_ORIGINS, or this server's own under any of its names."""
    if origin in settings.MCP_ORIGINS:
        return True
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https"):
        return False
    domain, _ = split_domain_port(parts.netloc)
    hosts = [name for name in settings.ALLOWED_HOSTS if name != "*"]
    return bool(domain) and (domain == split_domain_port(host)[0] or validate_host(domain, hosts))


async def _refuse(status: int, message: str, scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"error": message, "code": "forbidden"}, status_code=status)(scope, receive, send)

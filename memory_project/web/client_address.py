"""The address of the client, behind the proxies that the operator names in TRUSTED_PROXIES."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network
from typing import cast

from django.conf import settings
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


class ClientAddress:
    """ASGI middleware that puts the client's address into the scope, where everything else reads it.

    X-Forwarded-For and X-Forwarded-Proto count only if a proxy in TRUSTED_PROXIES has sent the request. The client is
    the last address in X-Forwarded-For that is not itself such a proxy. A value that is not an address is ignored.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.forwarded = cast(ASGIApp, ProxyHeadersMiddleware(self._check, settings.TRUSTED_PROXIES))  # type: ignore[arg-type]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "commonplace.peer": scope.get("client")}
        await self.forwarded(scope, receive, send)

    async def _check(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("client"):
            try:
                ip_address(scope["client"][0])
            except ValueError:
                scope = {**scope, "client": scope["commonplace.peer"]}
        await self.app(scope, receive, send)


def is_trusted_proxy(address: str) -> bool:
    try:
        ip = ip_address(address)
    except ValueError:
        return False
    return any(ip in ip_network(entry) for entry in settings.TRUSTED_PROXIES)


def sender_of(address: str) -> str:
    """Return what one client is counted under: its IPv4 address, or the /64 network of its IPv6 address.

    Whoever has an IPv6 address usually has all addresses of its /64 network.
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, IPv6Address):
        return str(ip.ipv4_mapped) if ip.ipv4_mapped else str(ip_network((int(ip), 64), strict=False))
    return str(ip)

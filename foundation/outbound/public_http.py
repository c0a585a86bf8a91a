"""HTTP requests to addresses that people enter. They reach public hosts only, never this machine or its network.

Otherwise whoever enters an address could read and change what only this server can reach (server-side request forgery).
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx

# Only this network is assigned to global IPv6 addresses.
GLOBAL_UNICAST = IPv6Network("2000::/3")
# Parts of it that are not global, or lead to an IPv4 address that is part of them: Teredo and other protocols of the
# IETF, documentation, 6to4. Some of them are missing in `is_global` of older Pythons.
NOT_GLOBAL = [IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
NOT_GLOBAL_IPV4 = [IPv4Network(text) for text in ("192.0.0.0/24", "192.88.99.0/24")]  # the IETF's, relays of 6to4


class NotPublic(httpx.ConnectError):
    """The host has no address, or one that is not public. The message says which."""


def is_public(address: str) -> bool:
    """Return whether the address is a global unicast address. An IPv4 address inside of an IPv6 address counts."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    if isinstance(ip, IPv4Address):
        is_unicast = ip.is_global and not ip.is_multicast and not ip.is_reserved
        return is_unicast and not any(ip in network for network in NOT_GLOBAL_IPV4)
    # NAT64 (64:ff9b::/96), IPv4-compatible, site-local and multicast addresses are outside of GLOBAL_UNICAST
    return ip.is_global and ip in GLOBAL_UNICAST and not any(ip in network for network in NOT_GLOBAL)


def public_addresses(host: str, port: int) -> list[str]:
    """Resolve a host name. Raises NotPublic if there is no address, or any that is not public."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotPublic(f"{host} could not be resolved ({getattr(error, 'strerror', None) or error})") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    if private := [address for address in addresses if not is_public(address)]:
        raise NotPublic(f"{host} resolves to {private[0]}, which is not a public address")
    return addresses


class PublicTransport(httpx.BaseTransport):
    """A transport of httpx.Client that checks the host of each request, also after a redirect.

    It connects to the addresses that it has checked, because a second look-up could return others (DNS rebinding).
    """

    def __init__(self) -> None:
        self._transport = httpx.HTTPTransport()  # uses no proxy, which would look up the host again

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        addresses = public_addresses(request.url.host, _port(request.url))
        for number, address in enumerate(addresses, 1):
            try:
                return self._transport.handle_request(_to_address(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise AssertionError("public_addresses returns at least one address")

    def close(self) -> None:
        self._transport.close()


class AsyncPublicTransport(httpx.AsyncBaseTransport):
    """The same for httpx.AsyncClient, whose requests can be cancelled at any point."""

    def __init__(self) -> None:
        self._transport = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        addresses = await asyncio.to_thread(public_addresses, request.url.host, _port(request.url))
        for number, address in enumerate(addresses, 1):
            try:
                return await self._transport.handle_async_request(_to_address(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise AssertionError("public_addresses returns at least one address")

    async def aclose(self) -> None:
        await self._transport.aclose()


def _port(url: httpx.URL) -> int:
    return url.port or (443 if url.scheme == "https" else 80)


def _to_address(request: httpx.Request, address: str) -> httpx.Request:
    """Return the request for a connection to this address of its host."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,  # among them Host
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},  # the certificate is that of the host
    )

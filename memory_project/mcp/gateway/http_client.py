"""The HTTP client for upstreams: bounded responses, and for declarations in the admin public hosts only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import httpx2
from anyio import to_thread

from foundation.outbound.public_http import NotPublic, public_addresses
from memory_project.mcp.gateway.declaration import Upstream

CONNECT_S = 10.0
FLOOD = 10  # times the size of a message that one response, which may be a stream of messages, may have


class TooLarge(httpx2.StreamError):
    """The upstream sent more than its declaration allows."""


class UpstreamTransport(httpx2.AsyncBaseTransport):
    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._transport = httpx2.AsyncHTTPTransport(trust_env=False)  # a proxy would look up the host again

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._upstream.must_be_public(request.url.host):
            request = await _to_public_address(request)
        response = await self._transport.handle_async_request(request)
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        limit = self._upstream.max_bytes * (FLOOD if is_stream else 1)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, limit)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._limit
        async for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise TooLarge(f"sent more than {self._limit} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _to_public_address(request: httpx2.Request) -> httpx2.Request:
    """Return the request for a connection to an address of its host that was checked to be public."""
    port = request.url.port or (443 if request.url.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_S):
            addresses = await to_thread.run_sync(public_addresses, request.url.host, port, abandon_on_cancel=True)
    except NotPublic as error:
        raise httpx2.ConnectError(str(error), request=request) from None
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=addresses[0]),
        headers=request.headers,  # among them Host
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},  # the certificate is that of the host
    )


def http_client(upstream: Upstream, headers: dict[str, str], auth: httpx2.Auth | None = None) -> httpx2.AsyncClient:
    """Return a client whose single waits are bounded by the upstream's time limit."""
    timeout = httpx2.Timeout(CONNECT_S, read=max(upstream.timeout_s, 300.0))  # a stream may be silent for minutes
    return httpx2.AsyncClient(
        headers=headers, auth=auth, timeout=timeout, transport=UpstreamTransport(upstream), follow_redirects=False
    )

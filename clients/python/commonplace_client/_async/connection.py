"""Sending requests: authentication, repetitions, errors and pages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self
from uuid import uuid4

import httpx

from commonplace_client._retries import pause_after_failure, pause_after_refusal
from commonplace_client._values import check_address, check_path
from commonplace_client._version import __version__
from commonplace_client.errors import CommonplaceError, ConnectionLost, from_response

API = "/api/v1/"
Parameters = Sequence[tuple[str, str]]


class Connection:
    """A connection to one server as one person.

    `url` and `token` are read from COMMONPLACE_URL and COMMONPLACE_TOKEN if they are not given. A request that failed
    for a reason that passes is repeated up to `retries` times, with pauses of `max_wait` seconds in all. `timeout` is
    in seconds. `transport` is passed to httpx, for tests and proxies.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30,
        retries: int = 3,
        max_wait: float = 30,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        url = (url or os.environ.get("COMMONPLACE_URL", "")).strip()
        token = (token or os.environ.get("COMMONPLACE_TOKEN", "")).strip()
        check_address(url)
        if not token:
            raise ValueError("There is no token: pass `token`, or set COMMONPLACE_TOKEN.")
        self.retries = retries
        self.max_wait = max_wait
        self._http = httpx.AsyncClient(
            base_url=url.rstrip("/") + API,
            headers={
                "Authorization": f"Bearer {token}",
                "Accept": "application/json",
                "User-Agent": f"commonplace-client/{__version__}",
            },
            timeout=timeout,
            transport=transport,
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Parameters = (),
        body: Mapping[str, Any] | None = None,
        etag: str | None = None,
        idempotency_key: str | None = None,
    ) -> httpx.Response:
        """Send a request to a path below /api/v1/, and return the successful response.

        For operations that have no method of their own. Each POST has an Idempotency-Key, so that a repetition does
        nothing twice. Pass your own key to repeat a request after a crash of your program.
        """
        check_path(path)
        method = method.upper()
        headers = {"If-Match": etag} if etag else {}
        if method == "POST":
            headers["Idempotency-Key"] = idempotency_key or uuid4().hex
        json = {} if body is None and method == "POST" else body
        request = self._http.build_request(method, path, params=list(params) or None, json=json, headers=headers)
        return await self._send(request)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        error: CommonplaceError
        cause: httpx.RequestError | None
        waited = 0.0
        for attempt in range(self.retries + 1):
            try:
                response = await self._http.send(request)
            except httpx.RequestError as failure:
                text = f"No answer from {request.url.host}: {str(failure) or type(failure).__name__}"
                error, cause = ConnectionLost(text), failure
                pause = pause_after_failure(request.method, failure, attempt)
            else:
                if response.is_success:
                    return response
                error, cause = from_response(response), None
                pause = pause_after_refusal(request.method, response, attempt)
            if pause is None or attempt == self.retries or waited + pause > self.max_wait:
                raise error from cause
            await asyncio.sleep(pause)
            waited += pause
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _get(self, path: str, params: Parameters = ()) -> Any:
        return _content(await self.request("GET", path, params=params))

    async def _post(self, path: str, body: Mapping[str, Any], etag: str | None = None) -> Any:
        return _content(await self.request("POST", path, body=body, etag=etag))

    async def _versioned(
        self,
        method: str,
        path: str,
        *,
        params: Parameters = (),
        body: Mapping[str, Any] | None = None,
        etag: str | None = None,
    ) -> Any:
        """Return the answer with the version of the object under `etag`."""
        response = await self.request(method, path, params=params, body=body, etag=etag)
        return {**_content(response), "etag": response.headers.get("ETag", "")}

    async def _items(self, path: str, params: Parameters) -> AsyncIterator[Any]:
        """Yield the items of all pages."""
        while True:
            page = await self._get(path, params)
            for item in page["items"]:
                yield item
            if not page["next"]:
                return
            # Only the parameters of the link: the server may know itself under another address than this client,
            # and the token must not go anywhere else.
            params = httpx.URL(page["next"]).params.multi_items()


def _content(response: httpx.Response) -> Any:
    try:
        content = response.json()
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise CommonplaceError(
            f"{response.url.host} did not answer with JSON: is this the address of Commonplace?",
            status=response.status_code,
        )
    return content

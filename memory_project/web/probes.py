"""Probes of orchestrators and monitoring: /livez, /readyz and /metrics.

They are answered before admission, which queues requests, and without a look at the host name: a kubelet or Prometheus
sends the address of the container as Host.
"""

from __future__ import annotations

import json
from hmac import compare_digest
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from django.conf import settings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_project.operating.observability import exposition
from memory_project.web import readiness
from memory_project.web.bearer import bearer

ANY_HOST = "/healthz"  # Django answers it, and would refuse a host that is not in ALLOWED_HOSTS
AT_ONCE = 2  # look-ups that run at a time; further ones wait


class Probes:
    """ASGI middleware that answers the paths in PATHS."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.paths = {"/livez": self._live, "/readyz": self._ready, "/metrics": self._metrics}
        self._limiter: CapacityLimiter | None = None  # created within the event loop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        if scope["path"] == ANY_HOST:
            return await self.app(_with_own_host(scope), receive, send)
        answer = self.paths.get(scope["path"])
        if answer is None:
            return await self.app(scope, receive, send)
        if scope["method"] not in ("GET", "HEAD"):
            response: Response = _plain(405, "method not allowed", {"Allow": "GET, HEAD"})
        else:
            response = await answer(Headers(scope=scope))
        response.headers["Cache-Control"] = "no-store"
        await response(scope, receive, send)

    async def _live(self, headers: Headers) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, headers: Headers) -> Response:
        problem = await to_thread.run_sync(readiness.problem, limiter=self._threads())
        return JSONResponse({"status": problem or "ready"}, status_code=503 if problem else 200)

    async def _metrics(self, headers: Headers) -> Response:
        if not settings.METRICS_TOKEN:
            return _plain(404, "not found")
        if not compare_digest(bearer(headers.get("authorization", "")).encode(), settings.METRICS_TOKEN.encode()):
            return _plain(401, "METRICS_TOKEN is required as a bearer token", {"WWW-Authenticate": "Bearer"})
        body = await to_thread.run_sync(exposition.render, limiter=self._threads())
        return Response(body, media_type=exposition.CONTENT_TYPE)

    def _threads(self) -> CapacityLimiter:
        if self._limiter is None:
            self._limiter = CapacityLimiter(AT_ONCE)
        return self._limiter


def _plain(status: int, error: str, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps({"error": error}), status, headers, "application/json")


def _with_own_host(scope: Scope) -> Scope:
    host = urlsplit(settings.COMMONPLACE_URL).netloc.encode()
    return {**scope, "headers": [(b"host", host), *((k, v) for k, v in scope["headers"] if k != b"host")]}

"""Rate limits of REST requests, counted together with those of MCP calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from foundation.people.permissions import caller_from_request
from memory_project.web import rate_limits

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which imports this module


class CallerLimits(BaseThrottle):
    """Counts each request before its view runs."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return True, or raise TooManyRequests. The view announces `windows` in its headers."""
        changes = getattr(view, "changes", None)
        writes = bool(changes and changes(request.method or ""))
        windows = rate_limits.count(caller_from_request(request, channel="rest"), writes=writes)
        view.windows = windows  # type: ignore[attr-defined]
        if windows and windows[-1].is_exceeded:
            raise windows[-1].error()
        return True


def headers(windows: Sequence[rate_limits.RateWindow]) -> dict[str, str]:
    """Return the headers RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers)."""
    if not windows:
        return {}
    policies = [f'"{window.name}";q={window.quota};w={window.length_s}' for window in windows]
    states = [f'"{window.name}";r={max(window.quota - window.count, 0)};t={window.reset_s}' for window in windows]
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}

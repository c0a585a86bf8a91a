"""Rate limits of REST requests, counted together with those of MCP calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from memories.identity.permissions import caller_from_request
from memory_project import rate_limits

if TYPE_CHECKING:
    from rest_framework.views import APIView  # which imports this module

READS = ("GET", "HEAD", "OPTIONS")


class CallerLimits(BaseThrottle):
    """Counts each request to any view, before the view runs. A view whose POST only reads sets `only_reads`."""

    def allow_request(self, request: Request, view: APIView) -> bool:
        """Return True, or raise TooManyRequests."""
        writes = request.method not in READS and not getattr(view, "only_reads", False)
        rate_limits.check(caller_from_request(request, channel="rest"), writes=writes)
        return True

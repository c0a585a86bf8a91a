"""The exception handler of the REST API."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from memories.contract.errors import DomainError, Invalid, LimitReached, TooManyRequests, from_database_error


def handle_exception(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return a response with the keys "error" and "code", which the errors of MCP tools have too.

    Returns None for an unexpected exception, which Django then reports as a server error.
    """
    if isinstance(error, DatabaseError):
        error = from_database_error(error) or error
    if isinstance(error, RecursionError):
        error = Invalid("the body is nested too deeply")
    if isinstance(error, UnicodeError):
        error = Invalid("the body contains an unpaired surrogate", allowed="Unicode text")
    if isinstance(error, RequestDataTooBig):
        error = LimitReached("the body is too large")
    if isinstance(error, DomainError):
        headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooManyRequests) else None
        return Response({"error": error.message, "code": error.code}, status=error.status, headers=headers)
    response = exception_handler(error, context)
    if response is not None:
        code = {401: "forbidden", 403: "forbidden", 404: "not_found", 429: "limit"}.get(response.status_code, "invalid")
        detail = getattr(error, "detail", str(error))
        response.data = {"error": str(detail), "code": code}
    return response

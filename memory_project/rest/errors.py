"""The exception handler of the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from foundation.operations.errors import DomainError, Invalid, LimitReached, TooManyRequests, from_database_error
from memory_project.web.problems import MEDIA_TYPE, problem

CODES = {401: "forbidden", 403: "forbidden", 404: "not_found", 406: "invalid", 429: "limit"}  # "invalid" for others


class Stale(DomainError):
    """The object is no longer in the state that the request's If-Match names. `current` is its state now."""

    code = "conflict"
    status = 412

    def __init__(self, message: str, *, current: Any, etag: str) -> None:
        self.current = current
        self.etag = etag
        super().__init__(message)


class PreconditionMissing(DomainError):
    """The request changes an object, but does not name the state that the caller saw."""

    code = "invalid"
    status = 428


def handle_exception(error: Exception, context: dict[str, Any]) -> Response | None:
    """Return problem details with the tools' error codes.

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
        return _problem(error.status, error.message, error.code, _members(error), _headers(error))
    response = exception_handler(error, context)
    if response is None:
        return None
    code = CODES.get(response.status_code, "invalid")
    headers = {name: value for name, value in response.headers.items() if name.lower() != "content-type"}
    return _problem(response.status_code, str(getattr(error, "detail", error)), code, {}, headers)


def _members(error: DomainError) -> dict[str, Any]:
    members: dict[str, Any] = {name: value for name in ("field", "allowed") if (value := getattr(error, name, ""))}
    return {**members, "current": error.current} if isinstance(error, Stale) else members


def _headers(error: DomainError) -> dict[str, str]:
    if isinstance(error, TooManyRequests):
        return {"Retry-After": str(error.retry_after_s)}
    return {"ETag": error.etag} if isinstance(error, Stale) else {}


def _problem(status: int, detail: str, code: str, members: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    return Response(
        problem(status, detail, code, members), status=status, headers=dict(headers), content_type=MEDIA_TYPE
    )

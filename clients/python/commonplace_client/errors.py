"""Exceptions, one for each error code of the server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

PREVIEW = 200  # characters shown of an answer that is not JSON


class CommonplaceError(Exception):
    """Base class. Raised itself for answers without a code, such as a failure of the server.

    `message` is the server's explanation. `status` is the HTTP status, or 0 if there was no answer.
    """

    def __init__(self, message: str, *, status: int = 0, field: str = "", allowed: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.field = field
        self.allowed = allowed


class Invalid(CommonplaceError):
    """A value is not valid. `field` names it, and `allowed` says what would be valid."""


class NotFound(CommonplaceError):
    """The object does not exist, or you may not see it."""


class Forbidden(CommonplaceError):
    """You may not do this, or the token is missing, wrong or expired."""


class Conflict(CommonplaceError):
    """The object's state rules out the operation."""


class StaleEdit(Conflict):
    """Somebody has changed the object since you read it. `current` is its state now, and `etag` names that state."""

    def __init__(self, message: str, *, current: Mapping[str, Any], etag: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.current = current
        self.etag = etag


class LimitReached(CommonplaceError):
    """A limit on size, duration or number of requests is exceeded.

    `retry_after` is the number of seconds after which the request can succeed, or None if it has to be smaller.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class Degraded(CommonplaceError):
    """A component that the operation needs is unavailable. Try again later."""


class Upstream(CommonplaceError):
    """Another system, such as the data catalog, has failed."""


class ConnectionLost(CommonplaceError):
    """There was no answer. The server may or may not have performed the request."""


BY_CODE: dict[str, type[CommonplaceError]] = {
    "invalid": Invalid,
    "not_found": NotFound,
    "forbidden": Forbidden,
    "conflict": Conflict,
    "limit": LimitReached,
    "degraded": Degraded,
    "upstream": Upstream,
}
# For answers of proxies, which don't know the codes
BY_STATUS: dict[int, type[CommonplaceError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: LimitReached,
    429: LimitReached,
    503: Degraded,
}


def from_response(response: httpx.Response) -> CommonplaceError:
    """Return the exception for an unsuccessful response whose body has been read."""
    problem = problem_of(response)
    message = str(problem.get("detail") or problem.get("title") or _preview(response))
    details: dict[str, Any] = {
        "status": response.status_code,
        "field": str(problem.get("field", "")),
        "allowed": str(problem.get("allowed", "")),
    }
    if response.status_code == 412:
        current = problem.get("current")
        etag = response.headers.get("ETag", "")
        return StaleEdit(message, current=current if isinstance(current, dict) else {}, etag=etag, **details)
    kind = BY_CODE.get(str(problem.get("code")), BY_STATUS.get(response.status_code, CommonplaceError))
    if kind is LimitReached:
        return LimitReached(message, retry_after=retry_after(response), **details)
    return kind(message, **details)


def retry_after(response: httpx.Response) -> float | None:
    """Return the seconds of the header Retry-After. Dates are ignored because the clocks may differ."""
    try:
        seconds = float(response.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None


def problem_of(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _preview(response: httpx.Response) -> str:
    if response.is_redirect:
        target = response.headers.get("Location", "")
        return f"redirected to {target[:PREVIEW]}: use the address of the server itself"
    return f"{response.status_code} {response.reason_phrase}: {response.text[:PREVIEW]}".strip(": ")

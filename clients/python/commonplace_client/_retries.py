"""Rules for repeating a request, and the pauses before it."""

from __future__ import annotations

import random

import httpx

from commonplace_client.errors import problem_of, retry_after

FIRST_PAUSE = 0.5  # seconds, doubled with each attempt
# The request was not sent, so that repeating it is safe for every method.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
LOST = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError, httpx.ProxyError)
# POST is repeated with the same Idempotency-Key. PATCH and DELETE have none: a repetition of one that was performed
# would be refused as a stale edit.
SAFE_TO_REPEAT = ("GET", "POST")


def pause_after_failure(method: str, error: httpx.RequestError, attempt: int) -> float | None:
    """Return the seconds to wait before repeating a request without an answer, or None if it must not be repeated."""
    if isinstance(error, NEVER_SENT) or (method in SAFE_TO_REPEAT and isinstance(error, LOST)):
        return _backoff(attempt)
    return None


def pause_after_refusal(method: str, response: httpx.Response, attempt: int) -> float | None:
    """Return the seconds to wait before repeating a refused request, or None if repeating it would not help."""
    problem = problem_of(response)
    is_temporary = response.status_code == 429 or (
        method in SAFE_TO_REPEAT
        and (
            response.status_code == 503
            # of a proxy: the server's own failures have a code, and another system's failure is not repeated
            or (response.status_code in (502, 504) and "code" not in problem)
            # the first request with this key is still running
            or (response.status_code == 409 and problem.get("field") == "Idempotency-Key")
        )
    )
    if not is_temporary:
        return None
    return max(retry_after(response) or 0, _backoff(attempt))


def _backoff(attempt: int) -> float:
    return FIRST_PAUSE * (1 << attempt) * random.uniform(0.5, 1)

"""Operations of people: those that only read may read from the replica, and others are noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from foundation.database import replica
from memory_project.operating.replica import routing

HEADER = "Commonplace-Replica-Lag"
ONLY_READS = "_only_reads"  # attribute of a POST request that has changed nothing: its reading


@contextmanager
def route_reads(email: str, *, only_reads: bool) -> Iterator[replica.Reading]:
    """Run an operation of this person. A failed one is noted, too, because it may have committed a part."""
    if only_reads:
        with replica.reading() as current:
            yield current
        return
    try:
        yield replica.Reading()
    finally:
        if settings.DATABASE_REPLICA_URL:
            routing.note_write(email)


@contextmanager
def reading_post(request: Any) -> Iterator[None]:
    """Let a POST request that changes nothing read from the replica. `request` is REST framework's."""
    with replica.reading() as current:
        yield
    setattr(request._request, ONLY_READS, current)


def read_from_replica(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Let GET requests read from the replica, and note the changes of others.

    This is the innermost middleware, so that sessions and accounts are read before.
    """
    if not settings.DATABASE_REPLICA_URL:
        return get_response

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.method in ("GET", "HEAD", "OPTIONS"):
            with replica.reading() as current:
                return _with_header(get_response(request), current)
        try:
            response = get_response(request)
        finally:
            posted: replica.Reading | None = getattr(request, ONLY_READS, None)
            user = getattr(request, "user", None)  # of a REST request, the token's user
            if user is not None and user.is_authenticated and posted is None:
                routing.note_write(user.email)
        return _with_header(response, posted) if posted else response

    return middleware


def _with_header(response: HttpResponse, current: replica.Reading) -> HttpResponse:
    if current.lag_s is not None:
        response[HEADER] = str(round(current.lag_s, 1))
    return response

"""The id of the current request: in its response, in log lines, in the audit log and in error responses.

If requests are traced, it is the id of the trace, unless a trusted proxy has sent an X-Request-ID.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from memory_project.operating.observability import tracing

_request_id: ContextVar[str] = ContextVar("request_id", default="")


def request_id() -> str:
    """Return the id of the current request or task, or "" outside of one."""
    return _request_id.get()


def reference() -> str:
    """Return the id by which an operator finds this request: its trace if it is traced, otherwise the request's id."""
    return tracing.trace_id() or request_id()


def new_id() -> str:
    return uuid.uuid4().hex


@contextmanager
def within(value: str) -> Iterator[None]:
    token = _request_id.set(value)
    try:
        yield
    finally:
        _request_id.reset(token)

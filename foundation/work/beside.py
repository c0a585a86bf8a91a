"""Work that a channel does beside a call, while the tool waits for another system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class WorkBeside(Protocol):
    def __call__(self, *, platform: str, dialect: str) -> None: ...


_work: ContextVar[WorkBeside | None] = ContextVar("beside", default=None)


@contextmanager
def ready(work: WorkBeside) -> Iterator[None]:
    """Let a tool that is called in the block do this work beside its own."""
    token = _work.set(work)
    try:
        yield
    finally:
        _work.reset(token)


def begin(*, platform: str = "", dialect: str = "") -> None:
    """Do the work beside this call, if there is any. Tools call this when they have sent their request.

    `platform` and `dialect` are those of the warehouse that the tool asks.
    """
    if work := _work.get():
        work(platform=platform, dialect=dialect)

"""A call in its worker thread, which ends when its client goes away."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import psycopg
from anyio import to_thread
from django.db import connections

from memories import lazy_numpy
from memories.database import connections as database

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Running:
    """The thread takes its database connection here, so that another one can end the statement that it waits for."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._has_ended = False
        self._ending = threading.Lock()  # else a statement of whoever has the connection next could be ended
        self._wrapper: Any = None

    def call(self, work: Callable[..., Result], *arguments: Any) -> Result:
        """In the worker thread."""
        lazy_numpy.load()
        self._wrapper = connections["default"]
        with database.session():
            try:
                return work(*arguments)
            finally:  # also when the client has cancelled, and the call ends in the middle of its work
                with self._ending:
                    self._has_ended = True

    async def end_with_client(self) -> None:
        """Sleeps beside the call; when the client leaves, ends its statement. The work itself notices at its next
        word of progress."""
        try:
            await anyio.sleep_forever()
        finally:
            if not self._has_ended:
                self.is_stopped = True
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._end_statement)

    def _end_statement(self) -> None:
        with self._ending:
            raw: psycopg.Connection[Any] | None = getattr(self._wrapper, "connection", None)
            if raw is not None and not self._has_ended:
                try:
                    raw.cancel_safe(timeout=2.0)
                except psycopg.Error:
                    log.exception("the statement of a call without a client goes on until its limit")


async def in_thread(
    work: Callable[..., Result], *arguments: Any, running: Running, limiter: anyio.CapacityLimiter
) -> Result:
    """Raises what the work raises, bare: a task group would wrap it."""
    answers: list[Result] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.end_with_client)

        def call() -> None:
            try:
                answers.append(running.call(work, *arguments))
            except Exception as error:
                errors.append(error)

        await to_thread.run_sync(call, limiter=limiter)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return answers[0]

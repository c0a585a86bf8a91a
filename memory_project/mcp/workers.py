"""Worker threads of tool calls. If the client disconnects, the SQL statement of its call is cancelled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
import psycopg
from anyio import to_thread
from django.db import connections

from foundation import lazy_numpy
from foundation.database import connections as database

log = logging.getLogger(__name__)

Result = TypeVar("Result")


class Running:
    """A running call, with the database connection whose statement is cancelled if the client disconnects."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._has_ended = False
        # without the lock, a statement of the next call on the same connection could be cancelled
        self._ending = threading.Lock()
        self._wrappers: list[Any] = []

    def call(self, work: Callable[..., Result], *arguments: Any) -> Result:
        lazy_numpy.load()
        self._wrappers = [connections[alias] for alias in connections]  # the primary and the replica
        with database.session():
            try:
                return work(*arguments)
            finally:  # also if a progress report has ended the work because the client has cancelled
                with self._ending:
                    self._has_ended = True

    async def cancel_with_client(self) -> None:
        """Sleep until the client disconnects, which cancels this task, then cancel the call's SQL statement.

        Work outside the database ends at its next progress report.
        """
        try:
            await anyio.sleep_forever()
        finally:
            if not self._has_ended:
                self.is_stopped = True
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._cancel_statement)

    def _cancel_statement(self) -> None:
        with self._ending:
            for raw in [wrapper.connection for wrapper in self._wrappers if not self._has_ended]:
                if raw is None:
                    continue
                try:
                    raw.cancel_safe(timeout=2.0)
                except psycopg.Error:
                    log.exception("could not cancel the statement of a disconnected client; it runs until its timeout")


async def in_thread(
    work: Callable[..., Result], *arguments: Any, running: Running, limiter: anyio.CapacityLimiter
) -> Result:
    # The result and the error are passed in lists, because a task group would wrap an exception in an ExceptionGroup.
    results: list[Result] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.cancel_with_client)

        def call() -> None:
            try:
                results.append(running.call(work, *arguments))
            except Exception as error:
                errors.append(error)

        await to_thread.run_sync(call, limiter=limiter)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]
    return results[0]

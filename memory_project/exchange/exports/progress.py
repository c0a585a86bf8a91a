"""Progress of an export, saved by a thread with a connection of its own.

The connection that reads the rows is in a transaction that can't write.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from django.db import connections

from foundation.database import identity
from foundation.people.caller import Caller
from memory_project.exchange.exports.models import Export


class ExportProgress:
    def __init__(self, export: Export, caller: Caller) -> None:
        self.export = export
        self.caller = caller
        self.executor = ThreadPoolExecutor(1, thread_name_prefix="export-progress")
        self.saving: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.executor.submit(connections.close_all)
        self.executor.shutdown()

    def report(self, done: int, total: int) -> None:
        """Save the number of rows, unless the last one is still being saved."""
        if self.saving is None or self.saving.done() or done == total:
            self.saving = self.executor.submit(self._save, done, total)

    def _save(self, done: int, total: int) -> None:
        with identity.acting_as(self.caller):
            Export.objects.filter(pk=self.export.pk).update(rows_done=done, rows_total=total)

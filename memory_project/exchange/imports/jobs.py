"""The work of workers on imports: they are parsed, taken over or undone."""

from __future__ import annotations

from collections.abc import Callable, Generator

from django.db.models import QuerySet

from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.work import jobs
from foundation.work.jobs import JobKind
from memory_project.exchange.imports import files, staging, taking_over
from memory_project.exchange.imports.models import WORKING, Import, ImportState

FILE_IS_GONE = (
    "the file is not on the machine of this worker: import it again. With several machines, COMMONPLACE_FILES must "
    "name a folder that all of them share"
)
WORK: dict[str, Callable[[Caller, Import], Generator[object, None, None]]] = {
    ImportState.PARSING: staging.parse,
    ImportState.TAKING_OVER: taking_over.take,
    ImportState.UNDOING: taking_over.undo,
}


class ImportJobs(JobKind[Import]):
    name = "import"
    since = "worked_at"

    def unfinished(self) -> QuerySet[Import]:
        return Import.objects.filter(state__in=WORKING)

    def caller_of(self, row: Import) -> Caller:
        """Return the owner. What was stored can be undone also by an owner who has lost the persona of the import."""
        try:
            return super().caller_of(row)
        except Forbidden:
            if row.state != ImportState.UNDOING:
                raise
            row.persona = ""
            return super().caller_of(row)

    def slices(self, caller: Caller, row: Import) -> Generator[object, None, None]:
        try:
            yield from WORK[row.state](caller, row)
        except staging.Stopped:
            row.refresh_from_db()
            if row.state == ImportState.CANCELED:  # the slice may have written its files after the cancel
                files.delete(row.pk)
        except FileNotFoundError:
            staging.fail(row, FILE_IS_GONE)

    def fail(self, row: Import, reason: str) -> None:
        staging.fail(row, reason)


def queue(staged: Import) -> None:
    """Let workers go on with an import, once the transaction is committed."""
    jobs.add(ImportJobs.name, staged.pk, staged.created_by)

"""Exports as files: start one, write it in a worker, download it, and delete it.

A file belongs to the person who has asked for it. It is deleted after a day, and before if a memory that it contains
is erased, or if its owner is wiped or deactivated.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from functools import partial
from typing import IO
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity, locks
from foundation.operations.errors import Conflict, LimitReached, NotFound, from_database_error
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.work import jobs
from foundation.work.jobs import JobKind
from memory_project.exchange.exports import files
from memory_project.exchange.exports.formats import export_format
from memory_project.exchange.exports.models import Export, ExportState
from memory_project.exchange.exports.progress import ExportProgress
from memory_project.exchange.exports.stream import PERSONA, export_rows, scope_of

KEPT = timedelta(days=1)
MAX_EXPORTS = 10  # of a person, at a time
UNFINISHED = (ExportState.WAITING, ExportState.RUNNING)
RUNS = 3  # how often an export is written again because a memory was erased meanwhile


def start_export(caller: Caller, *, scope: str = "person", persona: str = "", format: str = "zip") -> Export:
    """Save an export, which a worker writes.

    Raises Forbidden as `scope_of`, Conflict if the same export is being written, and LimitReached if the caller has
    MAX_EXPORTS.
    """
    chosen = scope_of(caller, scope=scope, persona=persona)
    wanted = export_format(format)
    mine = exports_of(caller)
    if mine.filter(scope=scope, persona=persona, format=wanted.name, state__in=UNFINISHED).exists():
        raise Conflict(gettext("the same export is being written already"), field="scope")
    if mine.count() >= MAX_EXPORTS:
        raise LimitReached(
            gettext(
                "you have %(max_exports)s exports, the most there may be: download one of them, or wait until one "
                "expires"
            )
            % {"max_exports": MAX_EXPORTS},
            field="scope",
        )
    with transaction.atomic():
        export = Export.objects.create(
            created_by=caller.email,
            scope=chosen.name,
            persona=chosen.persona,
            format=wanted.name,
            expires_at=timezone.now() + KEPT,
        )
        jobs.add(ExportJobs.name, export.pk, caller.email)
    return export


def exports_of(caller: Caller) -> QuerySet[Export]:
    """Return the caller's own exports that have not expired. Admins, too, see only their own."""
    return Export.objects.filter(created_by=caller.email, expires_at__gt=timezone.now())


def get_export(caller: Caller, *, export_id: UUID | str) -> Export:
    export = exports_of(caller).filter(pk=validate(Id, export_id, "export_id")).first()
    if export is None:
        raise NotFound(gettext("no such export of yours, or it has expired"), field="export_id")
    return export


def open_export(caller: Caller, *, export_id: UUID | str) -> tuple[Export, IO[bytes]]:
    """Return the caller's own finished export and its file.

    Raises NotFound, Conflict if there is no file yet, and Forbidden if the caller could not start the export today.
    """
    export = get_export(caller, export_id=export_id)
    scope_of(caller, scope=export.scope, persona=export.persona)
    if export.state != ExportState.DONE:
        raise Conflict(gettext("has no file, because it is %(state)s") % {"state": export.state}, field="export_id")
    try:
        return export, files.path_of(export).open("rb")
    except FileNotFoundError:
        raise NotFound(
            gettext(
                "the file is not on this machine: start the export again. With several machines, COMMONPLACE_FILES "
                "must name a folder that all of them share"
            ),
            field="export_id",
        ) from None


def delete_export(caller: Caller, *, export_id: UUID | str) -> None:
    export = get_export(caller, export_id=export_id)
    Export.objects.filter(pk=export.pk).delete()
    transaction.on_commit(partial(files.delete, export))


# -- in a worker -------------------------------------------------------------------------------------------


class ExportJobs(JobKind[Export]):
    """The file is written in one slice, because its rows are read in one transaction."""

    name = "export"
    is_long = True

    def persona_of(self, row: Export) -> str:
        return ""  # the column of this name says whose rows it has

    def unfinished(self) -> QuerySet[Export]:
        return Export.objects.filter(state__in=UNFINISHED)

    def slices(self, caller: Caller, row: Export) -> Generator[object, None, None]:
        _write(caller, row)
        yield None

    def fail(self, row: Export, reason: str) -> None:
        files.delete(row)
        unfinished = Export.objects.filter(pk=row.pk, state__in=UNFINISHED)
        unfinished.update(state=ExportState.FAILED, error=reason, finished_at=timezone.now())


def _write(caller: Caller, export: Export) -> None:
    """Write the file, with the present permissions of the person who has asked for it.

    Raises Conflict if a memory was erased during each of RUNS attempts.
    """
    for _ in range(RUNS):
        if not Export.objects.filter(pk=export.pk, state__in=UNFINISHED).update(state=ExportState.RUNNING):
            files.delete(export)  # the export was deleted, and the file of an attempt may be left
            return
        try:
            size = _write_file(caller, export)
        except DatabaseError as error:
            if domain_error := from_database_error(error):
                raise domain_error from error
            raise
        if _finish(export, state=ExportState.DONE, size=size):
            return
    raise Conflict("memories were erased while it was written: start it again")


def _write_file(caller: Caller, export: Export) -> int:
    with ExportProgress(export, caller) as progress, files.draft(export) as (out, noted):
        scope = scope_of(caller, scope=export.scope, persona=export.persona)
        wanted = export_format(export.format)
        rows = export_rows(scope, names=wanted.kinds, progress=progress.report)
        wanted.write(files.noting(rows, noted), out)
    return files.path_of(export).stat().st_size


def _finish(export: Export, **values: object) -> bool:
    """Save the outcome. Return False if the export was put back because a memory was erased, or was deleted.

    The row is locked by the update, so an erasure comes either before it and puts the export back, or after it and
    finds the file.
    """
    running = Export.objects.filter(pk=export.pk, state=ExportState.RUNNING)
    with locks.fenced():
        if running.update(finished_at=timezone.now(), **values):
            return True
    if not Export.objects.filter(pk=export.pk).exists():
        files.delete(export)
    return False


# -- deletion ----------------------------------------------------------------------------------------------


def delete_with_memory(record_id: UUID) -> int:
    """Delete the files that contain a memory, and have those written again that are being written."""
    reason = "a memory in it was erased: start the export again"
    return _delete_now_and_after_commit(Export.objects.all(), [record_id], reason)


def delete_narrowed(record_ids: Sequence[UUID]) -> None:
    """Delete the files of personas that contain a memory which fewer people may read now."""
    reason = "a memory in it is shared with fewer people now: start the export again"
    _delete_now_and_after_commit(Export.objects.filter(scope=PERSONA), record_ids, reason)


def _delete_now_and_after_commit(exports: QuerySet[Export], record_ids: Sequence[UUID], reason: str) -> int:
    """Delete the files of these exports with the memories, and return how many there are now.

    An export that begins during the transaction still sees the memories as they were, so it is looked at afterwards.
    """
    delete = partial(_delete_containing, exports, record_ids, reason)
    transaction.on_commit(delete, robust=True)
    return delete()


@identity.service("copies")
def _delete_containing(exports: QuerySet[Export], record_ids: Sequence[UUID], reason: str) -> int:
    exports.filter(state=ExportState.RUNNING).update(state=ExportState.WAITING)
    count = 0
    for export in exports.filter(state=ExportState.DONE):
        if any(files.contains(export, record_id) for record_id in record_ids):
            Export.objects.filter(pk=export.pk).update(state=ExportState.FAILED, error=reason)
            transaction.on_commit(partial(files.delete, export))
            count += 1
    return count


def delete_of_person(email: str) -> int:
    """Delete all exports of a person who is deactivated or wiped."""
    rows = Export.objects.filter(created_by=email)
    exports = list(rows)
    rows.delete()
    transaction.on_commit(partial(files.delete_folder, email))
    return len(exports)


def delete_expired() -> int:
    expired = list(Export.objects.filter(expires_at__lte=timezone.now()))
    Export.objects.filter(pk__in=[export.pk for export in expired]).delete()
    for export in expired:
        files.delete(export)
    known = set(Export.objects.exclude(state=ExportState.FAILED).values_list("pk", flat=True))
    files.delete_unknown(known)
    return len(expired)

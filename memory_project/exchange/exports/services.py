"""Exports as files: start one, write it in a worker, download it, and delete it.

A file belongs to the person who has asked for it. It is deleted after a day, and before if a memory that it contains
is erased, or if its owner is wiped or deactivated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import IO
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext
from django_q.tasks import async_task

from foundation.database import identity, locks
from foundation.operations.errors import Conflict, DomainError, Forbidden, LimitReached, NotFound, from_database_error
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.exchange.exports import files
from memory_project.exchange.exports.formats import export_format
from memory_project.exchange.exports.models import Export, ExportState
from memory_project.exchange.exports.progress import ExportProgress
from memory_project.exchange.exports.stream import PERSONA, export_rows, scope_of

KEPT = timedelta(days=1)
MAX_EXPORTS = 10  # of a person, at a time
UNFINISHED = (ExportState.WAITING, ExportState.RUNNING)
STRANDED = timedelta(minutes=10)  # an export that has waited for so long may have lost its place in the queue
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
        # An unfinished export queues the next one when it ends. Its row is locked, so that it can't end meanwhile.
        unfinished = list(mine.filter(state__in=UNFINISHED).select_for_update())
        export = Export.objects.create(
            created_by=caller.email,
            scope=chosen.name,
            persona=chosen.persona,
            format=wanted.name,
            expires_at=timezone.now() + KEPT,
        )
        if not unfinished:  # at most one export of a person is queued, so that other people's work is done in between
            transaction.on_commit(partial(_queue, export.pk))
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
    if export.state in UNFINISHED:
        transaction.on_commit(partial(_queue_next, export.created_by))


# -- in a worker -------------------------------------------------------------------------------------------


def _queue(export_id: UUID) -> None:
    async_task("memory_project.tasks.write_export", export_id.hex)


def _queue_next(owner: str) -> None:
    """Queue the export of a person that has waited longest."""
    waiting = Export.objects.filter(created_by=owner, state=ExportState.WAITING).order_by("created_at")
    if export_id := waiting.values_list("pk", flat=True).first():
        _queue(export_id)


def queue_stranded() -> int:
    """Queue an export of each person of whom one waits and none is being written. Return the number of people."""
    since = timezone.now() - STRANDED
    waiting = Export.objects.filter(state=ExportState.WAITING, created_at__lt=since)
    running = Export.objects.filter(state=ExportState.RUNNING)
    written = {export.created_by for export in running if locks.is_locked("export", export.pk)}
    owners = set(waiting.exclude(created_by__in=written).values_list("created_by", flat=True))
    for owner in owners:
        _queue_next(owner)
    return len(owners)


def write(export_id: UUID | str) -> None:
    """Write the file of an export, with the current permissions of the person who has asked for it.

    Does nothing if another worker writes it, or if it is finished or deleted. A run that was killed is repeated.
    """
    export = Export.objects.filter(pk=validate(Id, export_id, "export_id"), state__in=UNFINISHED).first()
    if export is None:
        return
    try:
        with locks.exclusive("export", export.pk, Conflict(gettext("is being written"))):
            try:
                _write(export)
            finally:
                _queue_next(export.created_by)
    except Conflict:
        return


def _write(export: Export) -> None:
    for _ in range(RUNS):
        if not Export.objects.filter(pk=export.pk, state__in=UNFINISHED).update(state=ExportState.RUNNING):
            break
        try:
            size = _write_file(export)
        except Exception as error:
            domain_error = error if isinstance(error, DomainError) else from_database_error(error)
            message = domain_error.message if domain_error else f"stopped by {type(error).__name__}"
            _finish(export, state=ExportState.FAILED, error=message)
            if domain_error is None:
                raise
            return
        if _finish(export, state=ExportState.DONE, size=size):
            return
    files.delete(export)
    reason = "memories were erased while it was written: start it again"
    unfinished = Export.objects.filter(pk=export.pk, state__in=UNFINISHED)
    unfinished.update(state=ExportState.FAILED, error=reason, finished_at=timezone.now())


def _write_file(export: Export) -> int:
    person = get_user_model().objects.filter(email=export.created_by).first()
    if person is None:
        raise Forbidden(gettext("this account no longer exists"))
    caller = build_caller(person, channel="worker")
    with identity.acting_as(caller), ExportProgress(export, caller) as progress, files.draft(export) as (out, noted):
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
    Export.objects.filter(state=ExportState.RUNNING).update(state=ExportState.WAITING)
    return _delete_containing(Export.objects.all(), record_id, "a memory in it was erased: start the export again")


@identity.service("copies")
def delete_narrowed(record_ids: Sequence[UUID]) -> None:
    """Delete the files of personas that contain a memory which fewer people may read now."""
    shared = Export.objects.filter(scope=PERSONA)
    shared.filter(state=ExportState.RUNNING).update(state=ExportState.WAITING)
    for record_id in record_ids:
        _delete_containing(shared, record_id, "a memory in it is shared with fewer people now: start the export again")


def _delete_containing(exports: QuerySet[Export], record_id: UUID, reason: str) -> int:
    count = 0
    for export in exports.filter(state=ExportState.DONE):
        if files.contains(export, record_id):
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

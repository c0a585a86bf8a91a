"""Background work on imports: slices that follow one another until an import is parsed, taken over or undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone
from django_q.tasks import async_task

from memories.contract.errors import Conflict, DomainError
from memories.database import identity
from memories.database.locks import LeaseLost, exclusive
from memories.identity.permissions import build_caller
from memory_project.imports import staging, taking_over
from memory_project.imports.models import WORKING, Import, ImportState

FILE_IS_GONE = (
    "the file is not on the machine of this worker: import it again. With several machines, COMMONPLACE_FILES must "
    "name a folder that all of them share"
)
SLICE_S = 5.0  # seconds of work after which other tasks get their turn
IDLE = timedelta(minutes=2)  # a working import without progress for this long has lost its worker
WORK: dict[str, Callable[..., None]] = {
    ImportState.PARSING: staging.parse,
    ImportState.TAKING_OVER: taking_over.take,
    ImportState.UNDOING: taking_over.undo,
}


def queue(staged: Import) -> None:
    """Let a worker go on with an import once the transaction is committed.

    Only the first of a person's running imports has a task, and each finished one starts the next. So one person's
    uploads never stand before other people's work more than once.
    """
    transaction.on_commit(lambda: _start_first(staged.created_by))


def _start_first(owner: str) -> None:
    first = Import.objects.filter(created_by=owner, state__in=WORKING).order_by("created_at", "pk").first()
    if first is not None:
        async_task("memory_project.imports.tasks.go_on", first.pk.hex)


def go_on(import_id: str) -> str:
    """Work on an import for a slice, as its owner, and queue the next slice if it is not finished."""
    staged = Import.objects.filter(pk=import_id, state__in=WORKING).first()
    person = staged and get_user_model().objects.filter(email=staged.created_by).first()
    if staged is None or person is None:
        return "nothing to do"
    try:
        with exclusive("import", staged.pk, Conflict("is being worked on elsewhere")):
            work(staged, person)
    except Conflict as error:
        return error.message
    queue(staged)  # its next slice, or the person's next import
    return f"{staged.state}, {staged.rows_read} rows read"


def work(staged: Import, person: Any, seconds: float = SLICE_S) -> None:
    """Work on an import for about `seconds`, as its owner and with the permissions that the owner has now."""
    caller = build_caller(person, channel="worker", persona=staged.persona)
    with identity.acting_as(caller):
        staged.refresh_from_db()
        try:
            if staged.is_working:
                WORK[staged.state](caller, staged, until=time.monotonic() + seconds)
        except LeaseLost:  # another worker goes on with it
            raise
        except staging.Stopped:
            staged.refresh_from_db()
        except DomainError as error:
            staging.fail(staged, error.message)
        except FileNotFoundError:
            staging.fail(staged, FILE_IS_GONE)


def go_on_with_all() -> int:
    """Queue the imports that have lost their worker, and delete files that belong to none. Return the number queued."""
    staging.delete_unknown_files()
    running = Import.objects.filter(state__in=WORKING).order_by("created_by", "created_at", "pk")
    first_of_each = running.distinct("created_by")
    lost = [staged for staged in first_of_each if staged.worked_at < timezone.now() - IDLE]
    for staged in lost:
        queue(staged)
    return len(lost)

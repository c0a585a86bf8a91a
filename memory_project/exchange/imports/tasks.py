"""Background work on imports: slices that follow one another until an import is parsed, taken over or undone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django_q.tasks import async_task

from foundation.database import identity
from foundation.database.locks import LeaseLost, exclusive
from foundation.operations.errors import Conflict, DomainError, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.exchange.imports import files, slices, staging, taking_over
from memory_project.exchange.imports.models import Import, ImportState

FILE_IS_GONE = (
    "the file is not on the machine of this worker: import it again. With several machines, COMMONPLACE_FILES must "
    "name a folder that all of them share"
)
SLICE_S = 5.0  # seconds of work after which other tasks get their turn
WORK: dict[str, Callable[..., None]] = {
    ImportState.PARSING: staging.parse,
    ImportState.TAKING_OVER: taking_over.take,
    ImportState.UNDOING: taking_over.undo,
}


def queue(staged: Import) -> None:
    """Let a worker go on with an import, or with another one of the same person, once the transaction is committed."""
    transaction.on_commit(partial(_queue_one_of, staged.created_by))


def _queue_one_of(owner: str) -> None:
    if staged := slices.claim(owner):
        async_task("memory_project.exchange.imports.tasks.go_on", staged.pk.hex)


def go_on(import_id: str) -> str:
    """Work on an import for a slice, as its owner, and queue the next slice of the person's imports."""
    staged = slices.begin(import_id)
    person = staged and get_user_model().objects.filter(email=staged.created_by).first()
    if staged is None or person is None:
        return "nothing to do"
    try:
        with exclusive("import", staged.pk, Conflict("is being worked on elsewhere")):
            work(staged, person)
    except Conflict as error:
        return error.message
    queue(staged)
    return f"{staged.state}, {staged.rows_read} rows read"


def work(staged: Import, person: Any, seconds: float = SLICE_S) -> None:
    """Work on an import for about `seconds`, as its owner and with the permissions that the owner has now."""
    caller, refusal = _caller_for(staged, person)
    if caller is None:
        staging.fail(staged, refusal)
        return
    with identity.acting_as(caller):
        staged.refresh_from_db()
        try:
            if refusal and staged.is_working and staged.state != ImportState.UNDOING:
                staging.fail(staged, refusal)
            elif staged.is_working:
                WORK[staged.state](caller, staged, until=time.monotonic() + seconds)
        except LeaseLost:  # another worker goes on with it
            raise
        except staging.Stopped:
            staged.refresh_from_db()
            if staged.state == ImportState.CANCELED:  # the slice may have written its files after the cancel
                files.delete(staged.pk)
        except DomainError as error:
            staging.fail(staged, error.message)
        except FileNotFoundError:
            staging.fail(staged, FILE_IS_GONE)


def _caller_for(staged: Import, person: Any) -> tuple[Caller | None, str]:
    """Return the owner as a caller, and why the import can't go on under its persona, if the owner has lost it.

    What was stored can be undone all the same. A person whose account is disabled is no caller.
    """
    try:
        return build_caller(person, channel="worker", persona=staged.persona), ""
    except Forbidden as error:
        refusal = error.message
    try:
        return build_caller(person, channel="worker"), refusal
    except Forbidden as error:
        return None, error.message


def go_on_with_all() -> int:
    """Queue the imports of people whose slice has lost its worker or its place in the queue. Return how many people.

    Also deletes files that belong to no import.
    """
    files.delete_unknown()
    owners = slices.stranded()
    for owner in owners:
        _queue_one_of(owner)
    return len(owners)

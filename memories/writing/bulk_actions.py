"""One act on many rows: each by the same service call as alone, done in slices, so that a page can show how far it
is, and undone as a whole. What is refused says why, and the rest is done. A worker goes on when the page is closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import OperationalError, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django_q.tasks import async_task

from memories import services
from memories.contract.errors import Conflict, DomainError, Invalid, NotFound, check_choice, check_count
from memories.contract.fields import Id, Reason
from memories.contract.operations import validate
from memories.contract.registry import Registry
from memories.database.locks import exclusive
from memories.identity.caller import Caller
from memories.identity.permissions import build_caller
from memories.models import Batch
from memories.operations import Forget, Reassign, Restore, Share, Supersede, Verify
from memories.writing.undo import undo as undo_change

MAX_UNITS = 5_000
AT_ONCE = 20  # rows in one transaction
DEADLOCK = "40P01"  # PostgreSQL's SQLSTATE
PAUSE_S = 0.2
SLICE_S = 0.8  # how long one request works before it shows how far it is


@dataclass(frozen=True)
class ActionInput:
    """What was said with an act: why, and what was chosen where the act offers a choice."""

    note: str = ""
    choice: str = ""


@dataclass(frozen=True)
class BulkAction:
    """`do` is a service call for one row, without network or inference unless it `is_slow`; `inverse` names the act
    that takes it back."""

    says: str
    do: Callable[[Caller, UUID, ActionInput], object]
    inverse: str = ""
    kind: str = "memory"
    is_slow: bool = False  # each row is carried out outside of the batch's transaction


def _taken_back(change: str) -> BulkAction:
    return BulkAction("Back as it was", lambda c, pk, words: undo_change(caller=c, record_id=pk, change=change))


BULK_ACTIONS: Registry[BulkAction] = Registry("acts in bulk")
MEMORY_ACTIONS: dict[str, BulkAction] = {
    "forget": BulkAction(
        "Forgotten",
        lambda c, pk, words: services.forget(Forget.read({"record_id": pk, "reason": words.note}), caller=c),
        "undo_forget",
    ),
    "restore": BulkAction(
        "Restored",
        lambda c, pk, words: services.restore(Restore.read({"record_id": pk, "reason": words.note}), caller=c),
        "undo_restore",
    ),
    "verify": BulkAction(
        "Still true",
        lambda c, pk, words: services.verify(Verify.read({"record_id": pk, "note": words.note}), caller=c),
        "undo_verify",
    ),
    "share": BulkAction(
        "Shared",
        lambda c, pk, words: services.share(
            Share.read({"record_id": pk, "visibility": words.choice, "reason": words.note}), caller=c
        ),
        "undo_share",
    ),
    "reassign": BulkAction(
        "Moved to another persona",
        lambda c, pk, words: services.reassign(
            Reassign.read({"record_id": pk, "persona": words.choice, "reason": words.note}), caller=c
        ),
        "undo_reassign",
    ),
    "correct": BulkAction(
        "Corrected",
        lambda c, pk, words: services.supersede(
            Supersede.read({"record_id": pk, "content": words.choice, "reason": words.note}), caller=c
        ),
        is_slow=True,
    ),
    **{f"undo_{change}": _taken_back(change) for change in ("forget", "restore", "verify", "share", "reassign")},
}


def start(
    *,
    caller: Caller,
    act: str,
    unit_ids: Sequence[UUID | str],
    note: str = "",
    choice: str = "",
    back_to: str = "",
) -> Batch:
    """Keeps what is to be done and does the first slice."""
    check_choice("act", act, BULK_ACTIONS)
    note = validate(Reason, note, "note")
    ids = sorted({validate(Id, pk, "ids") for pk in unit_ids})  # in one order everywhere: none wait in a circle
    if not ids:
        raise Invalid("is empty: nothing was chosen", field="ids", allowed=f"1 to {MAX_UNITS:,}")
    check_count("ids", ids, MAX_UNITS)
    return _begin(caller, _save(caller, act, ids, ActionInput(note, choice), back_to, None))


def _begin(caller: Caller, batch: Batch) -> Batch:
    """The first slice at once; a worker does what is left, whether or not somebody looks on."""
    batch = resume(caller=caller, batch_id=batch.pk)
    if batch.finished_at is None:
        transaction.on_commit(partial(async_task, "memories.tasks.finish_batch", batch.pk.hex))
    return batch


def _save(
    caller: Caller, act: str, ids: Sequence[UUID], words: ActionInput, back_to: str, undoes: Batch | None
) -> Batch:
    return Batch.objects.create(
        created_by=caller.email,
        persona=caller.persona,
        act=act,
        unit_ids=list(ids),
        note=words.note,
        choice=words.choice,
        back_to=back_to[:500],
        undoes=undoes,
    )


def get_batch(*, caller: Caller, batch_id: UUID | str) -> Batch:
    """One's own; nobody else's."""
    pk = validate(Id, batch_id, "batch_id")
    batch = Batch.objects.select_related("undoes").filter(pk=pk, created_by=caller.email).first()
    if batch is None:
        raise NotFound("no such batch of yours", field="batch_id")
    return batch


def owned_by(caller: Caller) -> QuerySet[Batch]:
    """One's own batches, running and past."""
    return Batch.objects.filter(created_by=caller.email).select_related("undoes")


def finish(batch_id: UUID | str) -> None:
    """In a worker: goes on as the person who started it, with the rights of now, until it is done."""
    batch = Batch.objects.filter(pk=validate(Id, batch_id, "batch_id"), finished_at=None).first()
    person = batch and get_user_model().objects.filter(email=batch.created_by).first()
    if batch is None or person is None:
        return
    caller = build_caller(person, channel="worker", persona=batch.persona)  # type: ignore[arg-type]  # it satisfies Person
    while batch.finished_at is None:
        batch = resume(caller=caller, batch_id=batch.pk)


def resume(*, caller: Caller, batch_id: UUID | str) -> Batch:
    """Does the next slice. Rows and their outcomes are saved together, so that a kill loses or repeats nothing."""
    batch = get_batch(caller=caller, batch_id=batch_id)
    deadline = time.monotonic() + SLICE_S
    while batch.finished_at is None and time.monotonic() < deadline:
        try:
            batch = _step(caller, batch) if BULK_ACTIONS[batch.act].is_slow else _slice(caller, batch)
        except OperationalError as error:  # somebody else was chosen to go on: the slice is undone, and done again
            if getattr(error.__cause__, "sqlstate", "") != DEADLOCK:
                raise
    return batch


def _slice(caller: Caller, batch: Batch) -> Batch:
    with transaction.atomic():
        batch = Batch.objects.select_for_update().get(pk=batch.pk)
        position = len(batch.outcomes)
        batch.outcomes += [_act_on(caller, batch, unit) for unit in batch.unit_ids[position : position + AT_ONCE]]
        if len(batch.outcomes) == len(batch.unit_ids):
            batch.finished_at = timezone.now()
        batch.save(update_fields=["outcomes", "finished_at"])
    return batch


def _step(caller: Caller, batch: Batch) -> Batch:
    """The next row of an act that waits for other systems: one at a time, and outside of a transaction. A row whose
    outcome was lost with its process is asked again: applying what is applied is no fault, other acts refuse it."""
    try:
        with exclusive("batch", batch.pk, Conflict("is at work elsewhere", field="batch_id")):
            batch = Batch.objects.get(pk=batch.pk)
            position = len(batch.outcomes)
            if position < len(batch.unit_ids):
                batch.outcomes.append(_act_on(caller, batch, batch.unit_ids[position]))
            if len(batch.outcomes) == len(batch.unit_ids):
                batch.finished_at = batch.finished_at or timezone.now()
            batch.save(update_fields=["outcomes", "finished_at"])
    except Conflict:  # somebody else is at it: look again in a moment
        time.sleep(PAUSE_S)
        batch = Batch.objects.get(pk=batch.pk)
    return batch


def _act_on(caller: Caller, batch: Batch, unit: UUID) -> str:
    act, words = BULK_ACTIONS[batch.act], ActionInput(batch.note, batch.choice)
    try:
        with nullcontext() if act.is_slow else transaction.atomic():
            act.do(caller, unit, words)
    except DomainError as error:
        return error.message
    return ""


def undo(*, caller: Caller, batch_id: UUID | str) -> Batch:
    """A batch of the inverse act over what was done, once."""
    batch = get_batch(caller=caller, batch_id=batch_id)
    inverse = BULK_ACTIONS[batch.act].inverse
    if not inverse:
        raise Conflict("can't be undone", field="batch_id")
    if batch.finished_at is None:
        raise Conflict("is not done yet", field="batch_id")
    with transaction.atomic():
        Batch.objects.select_for_update().get(pk=batch.pk)
        if Batch.objects.filter(undoes=batch).exists():
            raise Conflict("was undone already", field="batch_id")
        back = _save(caller, inverse, completed_units(batch), ActionInput(), batch.back_to, batch)
    return _begin(caller, back)


def completed_units(batch: Batch) -> list[UUID]:
    return [unit for unit, outcome in zip(batch.unit_ids, batch.outcomes, strict=False) if not outcome]

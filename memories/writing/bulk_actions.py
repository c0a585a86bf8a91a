"""Bulk actions: one action on many rows, run in slices. Most of them can be undone as a whole.

A bulk action calls the service for a single row once per row. If the service refuses a row, the outcome of the row is
the error message, and the other rows are changed nevertheless. A page can show the progress after each slice. A worker
finishes the batch even if the page is closed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, transaction
from django.db.models import Func, IntegerField, QuerySet
from django.utils import timezone, translation
from django.utils.translation import gettext

from foundation.database.locks import LeaseLost, exclusive, fenced
from foundation.operations.errors import Conflict, DomainError, Invalid, NotFound, check_choice, check_count
from foundation.operations.fields import Id, Reason
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from foundation.registry import Registry
from foundation.work import jobs
from foundation.work.jobs import JobKind
from memories import services
from memories.models import Batch, MemoryRecord
from memories.writing import quotations
from memories.writing.text_places import BATCH_CHOICES

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_UNITS = 5_000  # maximum number of rows in a batch
AT_ONCE = 20  # number of rows changed in one transaction
DEADLOCK = "40P01"  # PostgreSQL's SQLSTATE deadlock_detected
PAUSE_S = 0.2  # seconds to wait while another process works on the batch
CANCELED = "canceled"  # outcome of the rows that were left when a batch was canceled
UNCHANGED = "needs no change"  # outcome of a row that the action left as it was, so that undo leaves it out
SLICE_S = 0.8  # seconds after which a slice ends, so that the page can show the progress


@dataclass(frozen=True)
class ActionInput:
    note: str = ""  # reason for the action
    choice: str = ""  # for example a visibility, a persona or a corrected text, if the action needs one
    seen: str = ""  # token of the row's state that the person saw, if the rows have such tokens
    until: datetime | None = None  # of an undo: when the action that it undoes had ended; later changes are kept


def all_rows(caller: Caller, rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows


@dataclass(frozen=True)
class BulkAction:
    """Action of the portal and the admin on several rows at once, with its words and its rules.

    The service called by `do` decides about each row. `offered` only keeps rows out of a selection that would be
    refused.
    """

    do: Callable[[Caller, UUID, ActionInput], object]  # changes one row
    title: StrOrPromise  # for example Forget
    done: StrOrPromise  # what was done, for example Forgotten
    description: StrOrPromise = ""  # what it does, for the page that asks for a confirmation
    inverse: str = ""  # name of the action that undoes this one
    kind: str = "memory"  # kind of the rows: memory, insight, …
    is_slow: bool = False  # `do` uses the network or a model, so it runs outside of the batch's transaction
    note_missing: StrOrPromise = ""  # why a note is needed, to follow the name of its field; "" if it is optional
    notes: Mapping[str, StrOrPromise] = field(default_factory=dict)  # suggested notes, with their labels
    choice_label: StrOrPromise = ""  # what has to be chosen or entered; "" for nothing
    choices: Callable[[Caller], Sequence[tuple[str, str]]] | None = None  # what there is to choose from
    takes_text: bool = False  # a text is entered for a single row, in place of a choice
    offered: Callable[[Caller, QuerySet[Any]], QuerySet[Any]] = all_rows  # filters to rows that the caller may act on
    versions: Callable[[Collection[Any]], Mapping[UUID, str]] | None = None  # returns tokens of the rows' states


BULK_ACTIONS: Registry[BulkAction] = Registry("bulk actions")


def checked(act: str, unit_ids: Sequence[UUID | str]) -> tuple[BulkAction, list[UUID]]:
    """Return the action of this name, and the ids in the order in which all batches lock rows: deadlocks are rare."""
    check_choice("act", act, BULK_ACTIONS)
    ids = sorted({validate(Id, pk, "ids") for pk in unit_ids})
    if not ids:
        raise Invalid(gettext("is empty: no rows were selected"), field="ids", allowed=f"1 to {MAX_UNITS:,}")
    check_count("ids", ids, MAX_UNITS)
    return BULK_ACTIONS[act], ids


def start(
    caller: Caller,
    *,
    act: str,
    unit_ids: Sequence[UUID | str],
    note: str = "",
    choice: str = "",
    back_to: str = "",
    seen: Mapping[UUID, str] | None = None,
) -> Batch:
    """Save a batch, run its first slice, and let a worker run the remaining slices.

    `seen` holds a token for the state in which the person saw a row. If the row has changed, the action is refused.
    """
    action, ids = checked(act, unit_ids)
    note = validate(Reason, note, "note")
    if action.note_missing and not note:
        raise Invalid(str(action.note_missing), field="note")
    if action.choice_label and not choice:
        raise Invalid(gettext("is missing"), field="choice")
    if action.takes_text and len(ids) > 1:
        raise Invalid(gettext("is too large: the text replaces a single memory"), field="ids", allowed="1")
    return _begin(caller, _save(caller, act, ids, ActionInput(note, choice), back_to, seen=seen or {}))


def _begin(caller: Caller, batch: Batch) -> Batch:
    batch = resume(caller, batch_id=batch.pk)
    if batch.finished_at is None:
        jobs.add(BulkActionJobs.name, batch.pk, batch.created_by)
    return batch


def _save(
    caller: Caller,
    act: str,
    ids: Sequence[UUID],
    entered: ActionInput,
    back_to: str,
    *,
    undoes: Batch | None = None,
    seen: Mapping[UUID, str],
) -> Batch:
    with transaction.atomic():
        batch = Batch.objects.create(
            created_by=caller.email,
            persona=caller.persona,
            act=act,
            unit_ids=list(ids),
            note=entered.note,
            choice=entered.choice,
            back_to=back_to[:500],
            undoes=undoes,
            seen={pk.hex: seen[pk] for pk in ids if seen.get(pk)},
        )
        quotations.save_batch_quotations(batch)
    return batch


def get_batch(caller: Caller, *, batch_id: UUID | str) -> Batch:
    pk = validate(Id, batch_id, "batch_id")
    batch = Batch.objects.select_related("undoes").filter(pk=pk, created_by=caller.email).first()
    if batch is None:
        raise NotFound(gettext("no such batch"), field="batch_id")
    return batch


def owned_by(caller: Caller) -> QuerySet[Batch]:
    return Batch.objects.filter(created_by=caller.email).select_related("undoes")


# The number of outcomes that are errors
REFUSED = "(SELECT count(*) FROM jsonb_array_elements_text(%(expressions)s) AS outcome WHERE outcome <> '')"


COUNTS: dict[str, Any] = {
    "unit_count": Func("unit_ids", function="cardinality", output_field=IntegerField()),
    "processed": Func("outcomes", function="jsonb_array_length", output_field=IntegerField()),
    "refused": Func("outcomes", template=REFUSED, output_field=IntegerField()),
}


def with_counts(rows: QuerySet[Batch]) -> QuerySet[Batch]:
    """Annotate batches with `unit_count`, `processed` and `refused`, in place of their long columns."""
    return rows.defer("unit_ids", "outcomes", "seen").annotate(**COUNTS)


class BulkActionJobs(JobKind[Batch]):
    """The slices of a bulk action that are left when the request ends that has started it."""

    name = "bulk action"

    def unfinished(self) -> QuerySet[Batch]:
        return Batch.objects.filter(finished_at=None)

    def slices(self, caller: Caller, row: Batch) -> Generator[object, None, None]:
        while row.finished_at is None:
            row = _run_next(caller, row)
            yield None

    def fail(self, row: Batch, reason: str) -> None:
        _end(row, reason)


def cancel(caller: Caller, *, batch_id: UUID | str) -> Batch:
    """Leave the rows as they are that are not processed yet. Raises Conflict if the batch is finished."""
    batch = get_batch(caller, batch_id=batch_id)
    if not _end(batch, CANCELED):
        raise Conflict(gettext("is finished already"), field="batch_id")
    return get_batch(caller, batch_id=batch_id)


def _end(batch: Batch, reason: str) -> bool:
    """End a batch with this outcome of the rows that are left. Return False if it has ended already."""
    with transaction.atomic():
        unfinished = Batch.objects.select_for_update().filter(pk=batch.pk, finished_at=None).first()
        if unfinished is None:
            return False
        unfinished.outcomes += [reason] * (len(unfinished.unit_ids) - len(unfinished.outcomes))
        unfinished.finished_at = timezone.now()
        unfinished.save(update_fields=["outcomes", "finished_at"])
    return True


def resume(caller: Caller, *, batch_id: UUID | str) -> Batch:
    """Process rows for about SLICE_S seconds, and return the batch.

    Except for slow actions, rows and their outcomes are saved in one transaction, so a crash neither loses nor repeats
    a row.
    """
    batch = get_batch(caller, batch_id=batch_id)
    deadline = time.monotonic() + SLICE_S
    while batch.finished_at is None and time.monotonic() < deadline:
        batch = _run_next(caller, batch)
    return batch


def _run_next(caller: Caller, batch: Batch) -> Batch:
    try:
        return _run_slow_row(caller, batch) if BULK_ACTIONS[batch.act].is_slow else _run_slice(caller, batch)
    except OperationalError as error:
        # PostgreSQL has resolved a deadlock by rolling back this transaction. Its rows are processed again.
        if getattr(error.__cause__, "sqlstate", "") != DEADLOCK:
            raise
    return batch


def _run_slice(caller: Caller, batch: Batch) -> Batch:
    with fenced(), transaction.atomic():
        batch = Batch.objects.select_for_update().get(pk=batch.pk)
        if batch.finished_at is not None:
            return batch
        position = len(batch.outcomes)
        batch.outcomes += [run_row(caller, batch, unit) for unit in batch.unit_ids[position : position + AT_ONCE]]
        if len(batch.outcomes) == len(batch.unit_ids):
            batch.finished_at = timezone.now()
        batch.save(update_fields=["outcomes", "finished_at"])
    return batch


def _run_slow_row(caller: Caller, batch: Batch) -> Batch:
    """Run a slow action on the next row, outside of a transaction.

    If the process ends before the outcome is saved, the action is repeated on the row. If the action had completed, the
    repetition changes nothing or is refused.
    """
    try:
        with exclusive("batch", batch.pk, Conflict(gettext("is being processed elsewhere"), field="batch_id")):
            batch = Batch.objects.get(pk=batch.pk)
            if batch.finished_at is not None:
                return batch
            position = len(batch.outcomes)
            outcome = run_row(caller, batch, batch.unit_ids[position])
            with fenced(), transaction.atomic():
                batch = Batch.objects.select_for_update().get(pk=batch.pk)
                batch.outcomes[position : position + 1] = [outcome]  # of a batch that was canceled meanwhile, too
                if len(batch.outcomes) == len(batch.unit_ids):
                    batch.finished_at = timezone.now()
                batch.save(update_fields=["outcomes", "finished_at"])
    except LeaseLost:
        raise
    except Conflict:  # another process works on this batch
        time.sleep(PAUSE_S)
        batch = Batch.objects.get(pk=batch.pk)
    return batch


@translation.override(settings.LANGUAGE_CODE)  # the errors are stored
def run_row(caller: Caller, batch: Batch, unit: UUID) -> str:
    action = BULK_ACTIONS[batch.act]
    until = batch.undoes.finished_at if batch.undoes else None
    entered = ActionInput(batch.note, batch.choice, batch.seen.get(unit.hex, ""), until)
    started = timezone.now()
    try:
        with nullcontext() if action.is_slow else transaction.atomic():
            result = action.do(caller, unit, entered)
            if isinstance(result, services.Remembered) and result.record.content == batch.choice:
                quotations.save_quotations([result.record.pk], BATCH_CHOICES, batch.pk, whole=True)
    except DomainError as error:
        return error.message
    is_unchanged = isinstance(result, MemoryRecord) and result.updated_at < started
    return UNCHANGED if is_unchanged else ""


def undo(caller: Caller, *, batch_id: UUID | str) -> Batch:
    """Start a batch of the inverse action on the rows that were changed.

    Raises Conflict if the action has no inverse, or if the batch is unfinished or was already undone.
    """
    batch = get_batch(caller, batch_id=batch_id)
    inverse = BULK_ACTIONS[batch.act].inverse
    if not inverse:
        raise Conflict(gettext("can't be undone"), field="batch_id")
    if batch.finished_at is None:
        raise Conflict(gettext("is still running"), field="batch_id")
    with transaction.atomic():
        Batch.objects.select_for_update().get(pk=batch.pk)
        if Batch.objects.filter(undoes=batch).exists():
            raise Conflict(gettext("was already undone"), field="batch_id")
        undoing = _save(caller, inverse, completed_units(batch), ActionInput(), batch.back_to, undoes=batch, seen={})
    return _begin(caller, undoing)


def completed_units(batch: Batch) -> list[UUID]:
    return [unit for unit, outcome in zip(batch.unit_ids, batch.outcomes, strict=False) if not outcome]

"""Taking over: the chosen rows of an import become memories, in the background.

Each batch is one transaction with the rows' outcomes, so a killed worker neither loses nor repeats a row.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity, locks
from foundation.operations.errors import Conflict, DomainError, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import services
from memories.operations import Restore, Supersede, VisibilityName
from memories.validity.rules import outside_note
from memories.validity.scopes.choices import scope_for
from memories.writing.bulk_import import remember_batch, take_back
from memory_project.exchange.imports import files, staging
from memory_project.exchange.imports.conversation_rows import import_turn_rows
from memory_project.exchange.imports.formats.commonplace import RESTORED_MEMORY
from memory_project.exchange.imports.models import Import, ImportRow, ImportState, RowOutcome
from memory_project.exchange.imports.restoring import restore
from memory_project.exchange.imports.rows import TakeOverOutcome

BATCH = 200
UNDOABLE = (ImportState.DONE, ImportState.TAKING_OVER, ImportState.FAILED, ImportState.CANCELED)
CANCELABLE = (ImportState.PARSING, ImportState.PARSED, ImportState.TAKING_OVER)
finished = Signal()  # sent with the import `staged`, in the transaction in which its last row was taken over
UNDONE = "its import was undone"
STAYS = "stays:"  # begins the reason of a row that an undo has left
MEMORIES = ("memory", RESTORED_MEMORY, "turn")  # kinds of rows that became memories
Importer = Callable[[Caller, Import, Sequence[ImportRow]], list[TakeOverOutcome]]


def start(caller: Caller, *, import_id: UUID | str, visibility: str = "", applies_to_all: bool = False) -> Import:
    """Start taking over the chosen rows.

    `visibility` holds for rows that name none, or for all rows; an empty text means private.
    """
    with transaction.atomic():
        staged = _locked(caller, import_id)
        if staged.state != ImportState.PARSED:
            raise Conflict(
                gettext("can't be taken over: it is %(state)s") % {"state": staged.get_state_display().lower()},
                field="import_id",
            )
        staged.visibility = validate(VisibilityName, visibility, "visibility") if visibility else ""
        staged.applies_to_all = applies_to_all and bool(visibility)
        staged.state = ImportState.TAKING_OVER
        staged.worked_at = timezone.now()
        staged.save(update_fields=["visibility", "applies_to_all", "state", "worked_at"])
    return staged


def take(caller: Caller, staged: Import) -> Generator[object, None, None]:
    """Take rows over until none is left, and yield after each batch."""
    while True:
        with locks.fenced(), transaction.atomic():
            rows = list(waiting(staged).select_for_update()[:BATCH])
            if not rows:
                staging.advance(staged, state=ImportState.DONE, finished_at=timezone.now())
                finished.send(Import, staged=staged)
                return
            kind = rows[0].kind
            is_version = rows[0].outcome == RowOutcome.CONFLICTING
            same = [row for row in rows if row.kind == kind and (row.outcome == RowOutcome.CONFLICTING) == is_version]
            importer = _correct if is_version else IMPORTERS.get(kind, _restore)
            _note(same, importer(caller, staged, same))
            staging.advance(staged, worked_at=timezone.now())
        yield None


def waiting(staged: Import) -> QuerySet[ImportRow]:
    """Return the chosen rows that have yet to be taken over, in the order of the file."""
    outcomes = (RowOutcome.NEW, RowOutcome.CONFLICTING)
    return ImportRow.objects.filter(of=staged, is_chosen=True, outcome__in=outcomes).order_by("number")


def _note(rows: Sequence[ImportRow], outcomes: Sequence[TakeOverOutcome]) -> None:
    for row, outcome in zip(rows, outcomes, strict=True):
        row.outcome = RowOutcome(outcome.outcome)
        row.reason = outcome.reason[: staging.MAX_REASON] or row.reason  # what was not read of it is still true
        row.reference = outcome.reference
        row.data = row.data if outcome.outcome != "kept" else {}
        if outcome.outcome == "duplicate" and outcome.reference:
            row.existing = UUID(outcome.reference)  # so that erasing that memory finds the row
    ImportRow.objects.bulk_update(rows, ["outcome", "reason", "reference", "data", "existing"])


def _remember(caller: Caller, staged: Import, rows: Sequence[ImportRow]) -> list[TakeOverOutcome]:
    operations: dict[int, Any] = {}
    outcomes: dict[int, TakeOverOutcome] = {}
    for row in rows:
        try:
            operations[row.number] = _operation(staged, row)
            scope_for(caller, operations[row.number].scope)
        except DomainError as error:  # it was valid when it was staged; an entity may be gone from the catalog
            operations.pop(row.number, None)
            outcomes[row.number] = TakeOverOutcome("refused", error.message)
    created = [staging.created_at(row.data) for row in rows if row.number in operations]
    stored = remember_batch(caller, list(operations.values()), created) if operations else []
    for number, (record, existing) in zip(operations, stored, strict=True):
        known = "; ".join(filter(None, ["is remembered already", outside_note(record)]))
        outcomes[number] = (
            TakeOverOutcome("duplicate", known, record.pk.hex)
            if existing
            else TakeOverOutcome("kept", reference=record.pk.hex)
        )
    return [outcomes[row.number] for row in rows]


def _operation(staged: Import, row: ImportRow) -> Any:
    operation = staging.operation_of(row.data, staged.visibility, applies_to_all=staged.applies_to_all)
    if not row.key:
        return operation
    return operation.model_copy(update={"metadata": {**operation.metadata, staging.SOURCE_KEY: row.key}})


def _correct(caller: Caller, staged: Import, rows: Sequence[ImportRow]) -> list[TakeOverOutcome]:
    """Store later versions of imported memories as their corrections."""
    return [_correct_one(caller, staged, row) for row in rows]


def _stated(staged: Import, row: ImportRow) -> set[str]:
    """Return the fields that the file states for a row. A correction keeps the others as its earlier version has them.

    A visibility that was chosen for rows without one is for new memories: a memory that is read by others stays so.
    """
    stated = {name for name, value in row.data.items() if value not in (None, "", [], {})}
    chosen = {"visibility"} if staged.visibility and staged.applies_to_all else set()
    return (stated - {"source"}) | chosen | {"content", "metadata"}


def _correct_one(caller: Caller, staged: Import, row: ImportRow) -> TakeOverOutcome:
    try:
        given = _operation(staged, row).values()  # refused if the memory was erased since, and its text with it
        values = {name: given[name] for name in _stated(staged, row) if name in given}
        with transaction.atomic():
            operation = Supersede.read({"record_id": row.existing, **values, "reason": f"import of {staged.file_name}"})
            record = services.supersede(caller, operation).record
    except DomainError as error:
        return TakeOverOutcome("refused", error.message)
    return TakeOverOutcome("kept", reference=record.pk.hex)


def _restore(caller: Caller, staged: Import, rows: Sequence[ImportRow]) -> list[TakeOverOutcome]:
    """Restore rows of an export of this program, with their ids, times and history."""
    kind = rows[0].kind
    return restore(caller, "memory" if kind == RESTORED_MEMORY else kind, [row.data for row in rows])


def _import_turns(caller: Caller, staged: Import, rows: Sequence[ImportRow]) -> list[TakeOverOutcome]:
    return import_turn_rows(caller, [row.data for row in rows])


IMPORTERS: dict[str, Importer] = {
    "memory": _remember,
    "turn": _import_turns,
}  # the other kinds are those of an export of this program


# -- cancel --------------------------------------------------------------------------------------------------


def cancel(caller: Caller, *, import_id: UUID | str) -> Import:
    """Stop an import for good. What it has stored so far stays, and can be undone.

    Its owner and operators may. Raises NotFound, and Conflict if it is finished, or being undone.
    """
    with identity.service("operation") if caller.is_operator else nullcontext(), transaction.atomic():
        pk = validate(Id, import_id, "import_id")
        rows = Import.objects.all() if caller.is_operator else Import.objects.filter(created_by=caller.email)
        staged = rows.select_for_update().filter(pk=pk).first()
        if staged is None:
            raise NotFound(gettext("no such import"), field="import_id")
        if staged.state not in CANCELABLE:
            raise Conflict(
                gettext("can't be canceled any more: it is %(state)s") % {"state": staged.get_state_display().lower()},
                field="import_id",
            )
        staging.advance(staged, state=ImportState.CANCELED, finished_at=timezone.now())
        transaction.on_commit(partial(files.delete, staged.pk))
    return staged


# -- undo ----------------------------------------------------------------------------------------------------


def start_undo(caller: Caller, *, import_id: UUID | str) -> Import:
    """Start to take back what an import has stored. What somebody has changed since stays, and is reported."""
    with transaction.atomic():
        staged = _locked(caller, import_id)
        if staged.state not in UNDOABLE:
            raise Conflict(
                gettext("can't be undone: it is %(state)s") % {"state": staged.get_state_display().lower()},
                field="import_id",
            )
        staged.state = ImportState.UNDOING
        staged.worked_at = timezone.now()
        staged.save(update_fields=["state", "worked_at"])
    return staged


def undo(caller: Caller, staged: Import) -> Generator[object, None, None]:
    while True:
        with locks.fenced(), transaction.atomic():
            kept = ImportRow.objects.filter(of=staged, outcome=RowOutcome.KEPT).exclude(reason__startswith=STAYS)
            kept = kept.order_by("-number")
            rows = list(kept.select_for_update()[:BATCH])
            if not rows:
                staging.advance(staged, state=ImportState.UNDONE, finished_at=timezone.now())
                return
            _take_back(caller, staged, rows)
            staging.advance(staged, worked_at=timezone.now())
        yield None


def _take_back(caller: Caller, staged: Import, rows: Sequence[ImportRow]) -> None:
    memories = {row.pk: UUID(row.reference) for row in rows if row.kind in MEMORIES}
    staying = take_back(caller, record_ids=list(memories.values()), reason=UNDONE, since=staged.created_at)
    for row in rows:
        if row.pk not in memories:
            row.reason = f"{STAYS} an import of {row.kind} is not undone"
        elif reason := staying.get(memories[row.pk]):
            row.reason = f"{STAYS} {reason}"[: staging.MAX_REASON]
        else:
            row.outcome, row.reason = RowOutcome.UNDONE, _restore_earlier(caller, row)
    ImportRow.objects.bulk_update(rows, ["outcome", "reason"])


def _restore_earlier(caller: Caller, row: ImportRow) -> str:
    """Put the memory into force again of which the row was a later version. Return why that is not possible, or ""."""
    if row.existing is None:
        return ""
    try:
        with transaction.atomic():
            services.restore(caller, Restore.read({"record_id": row.existing, "reason": UNDONE}))
    except DomainError as error:
        return f"the earlier version could not be restored: {error.message}"[: staging.MAX_REASON]
    return ""


def _locked(caller: Caller, import_id: UUID | str) -> Import:
    staged = staging.get(caller, import_id)
    return Import.objects.select_for_update().get(pk=staged.pk)

"""One write of a changeset and what became of it; the parts that applying and rolling back share.

The intent is saved before anything is sent, each outcome as soon as it is known. A write whose outcome is unknown is
read from the catalog before it is repeated, so that a kill at any line is resumed and nothing is done twice. No catalog
call happens inside a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from knowledge import catalog as catalogs
from knowledge.catalog.patch import ABSENT, equal, value_at
from knowledge.catalog.port import CatalogPort, CatalogRefused, CatalogUnavailable, Run, Write
from knowledge.changes.created_things import TAKEN_BACK
from knowledge.models import Change, ChangeOutcome, Changeset
from memories.contract.errors import Conflict
from memories.database import locks

VISIBLE_WITHIN_S = (0, 0.1, 0.3, 1.0)  # pauses before each look at what was written
DONE = (ChangeOutcome.LANDED, ChangeOutcome.NOOP)


def send(catalog: CatalogPort, change: Change, run: Run) -> None:
    """One write, its outcome saved. A value that others moved is a conflict, and is left alone."""
    try:
        if as_written(change, current := value_now(catalog, change)):
            return note(change, ChangeOutcome.LANDED if change.outcome == ChangeOutcome.SENDING else ChangeOutcome.NOOP)
        if not as_before(change, current):
            return note(change, ChangeOutcome.CONFLICT, "the value was changed by others since this was planned")
        note(change, ChangeOutcome.SENDING)
        catalog.write(forward(change), run)
        for pause in VISIBLE_WITHIN_S:
            time.sleep(pause)
            if as_written(change, current := value_now(catalog, change)):
                return note(change, ChangeOutcome.LANDED)
            if not as_before(change, current):
                return note(change, ChangeOutcome.CONFLICT, "it was written, and something else stands there now")
        note(change, ChangeOutcome.SENDING, "it was written, and can't be read back yet: resume looks again")
    except CatalogRefused as error:
        note(change, ChangeOutcome.FAILED, error.message)
    except CatalogUnavailable as error:
        look_again(catalog, change, error)


def look_again(catalog: CatalogPort, change: Change, error: CatalogUnavailable) -> None:
    """The catalog did not answer: did the write land? If that can't be said, it stays open."""
    outcome = change.outcome
    if outcome == ChangeOutcome.SENDING:
        try:
            current = value_now(catalog, change)
        except (CatalogUnavailable, CatalogRefused):
            pass
        else:
            if as_written(change, current):
                return note(change, ChangeOutcome.LANDED)
            outcome = ChangeOutcome.PLANNED
    note(change, ChangeOutcome(outcome), error.message)


def forward(change: Change) -> Write:
    return Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written)


def value_now(catalog: CatalogPort, change: Change) -> Any:
    read = catalog.read([change.urn], [change.aspect])[change.urn][change.aspect]
    return value_at(change.aspect, read.value, change.path)


def as_written(change: Change, current: Any) -> bool:
    if change.operation == "remove":
        return current is ABSENT
    return current is not ABSENT and equal(current, change.written)


def as_before(change: Change, current: Any) -> bool:
    if not change.had_before:
        return current is ABSENT
    return current is not ABSENT and equal(current, change.before)


def is_taken_back(change: Change, current: Any) -> bool:
    """Whether a created entity that is not soft-deleted is in the state that stands for that."""
    if not change.creates or change.aspect not in TAKEN_BACK or current is ABSENT:
        return False
    path, value = TAKEN_BACK[change.aspect]
    return equal(value_at(change.aspect, current, path), value)


def note(change: Change, outcome: ChangeOutcome, error: str = "") -> None:
    change.outcome, change.error = outcome, error
    Change.objects.filter(pk=change.pk).update(outcome=outcome, error=error)


def catalog_of(changeset: Changeset) -> CatalogPort:
    catalog = catalogs.current()
    if catalog.name != changeset.catalog:
        raise Conflict(
            f"was written to the catalog {changeset.catalog!r}, configured is {catalog.name!r}", field="changeset_id"
        )
    return catalog


@contextmanager
def alone(changeset: Changeset) -> Iterator[None]:
    """Nobody else carries out or rolls back this changeset meanwhile."""
    busy = Conflict("somebody else is working on it right now", field="changeset_id")
    with locks.alone("changeset", changeset.pk, busy):
        changeset.refresh_from_db()
        yield

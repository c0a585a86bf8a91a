"""One write of a changeset as an effect of the ledger; the parts that applying and rolling back share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable, Run, Write
from knowledge.catalog.json_patch import ABSENT, equal, value_at
from knowledge.changesets.new_entities import TAKEN_BACK
from knowledge.models import Change, ChangeOutcome, Changeset
from memories.contract.errors import Conflict
from memories.database import locks
from memories.outbox.delivery import DeliveryQueue, DeliveryStatus, Phase, RemoteState, Result

VISIBLE_WITHIN_S = (0, 0.1, 0.3, 1.0)  # pauses before each look at what was written
DONE = (ChangeOutcome.LANDED, ChangeOutcome.NOOP)


NAMES = {
    DeliveryStatus.PLANNED: ChangeOutcome.PLANNED,
    DeliveryStatus.BEGUN: ChangeOutcome.SENDING,
    DeliveryStatus.LANDED: ChangeOutcome.LANDED,
    DeliveryStatus.UNCHANGED: ChangeOutcome.NOOP,
    DeliveryStatus.MOVED: ChangeOutcome.CONFLICT,
    DeliveryStatus.FAILED: ChangeOutcome.FAILED,
}
MOVED = "the value was changed by others since this was planned"


def delivery_queue_of(changeset: Changeset) -> DeliveryQueue:
    return DeliveryQueue(changeset.changes.all(), "position", NAMES)


@dataclass(frozen=True)
class CatalogWrite:
    """memories.outbox.delivery.Delivery: one write to the catalog. A value that others moved is left alone."""

    catalog: Catalog
    run: Run
    checks_remote_first: bool = True

    def check_remote(self, change: Change, was_begun: bool) -> tuple[RemoteState, str]:
        current = value_now(self.catalog, change)
        if as_written(change, current):
            return RemoteState.AS_ASKED, ""
        return (RemoteState.AS_BEFORE, "") if as_before(change, current) else (RemoteState.OTHERWISE, MOVED)

    def send(self, change: Change) -> Result:
        self.catalog.write(forward(change), self.run)
        for pause in VISIBLE_WITHIN_S:
            time.sleep(pause)
            sight, _ = self.check_remote(change, True)
            if sight == RemoteState.AS_ASKED:
                return Result(DeliveryStatus.LANDED)
            if sight == RemoteState.OTHERWISE:
                return Result(DeliveryStatus.MOVED, "it was written, but another value stands there now")
        return Result(DeliveryStatus.BEGUN, "it was written but can't be read back yet: resume looks again")

    def status_of_error(self, change: Change, error: Exception, stage: Phase) -> Result:
        """A catalog that did not answer: did the write land? If that can't be said, it stays open."""
        if isinstance(error, CatalogRefused):
            return Result(DeliveryStatus.FAILED, error.message)
        if not isinstance(error, CatalogUnavailable):
            raise error
        if stage == Phase.LOOKING:
            return Result(DeliveryStatus.PLANNED, error.message)
        try:
            sight, _ = self.check_remote(change, True)
        except (CatalogUnavailable, CatalogRefused):
            return Result(DeliveryStatus.BEGUN, error.message)
        return (
            Result(DeliveryStatus.LANDED)
            if sight == RemoteState.AS_ASKED
            else Result(DeliveryStatus.PLANNED, error.message)
        )

    def note(self, change: Change, result: Result) -> None:
        fate = (
            DeliveryStatus.MOVED if result.fate == DeliveryStatus.UNKNOWN else result.fate
        )  # begun, and others have moved it since
        note(change, NAMES[fate], result.error)


def forward(change: Change) -> Write:
    return Write(change.urn, change.aspect, tuple(change.path), change.operation, change.written)


def value_now(catalog: Catalog, change: Change) -> Any:
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


def catalog_of(changeset: Changeset) -> Catalog:
    catalog = get_catalog()
    if catalog.name != changeset.catalog:
        raise Conflict(
            f"was written to the catalog {changeset.catalog!r}, but {catalog.name!r} is in use", field="changeset_id"
        )
    return catalog


@contextmanager
def exclusive(changeset: Changeset) -> Iterator[None]:
    """Nobody else carries out or rolls back this changeset meanwhile."""
    busy = Conflict("somebody else is working on it", field="changeset_id")
    with locks.exclusive("changeset", changeset.pk, busy):
        changeset.refresh_from_db()
        yield

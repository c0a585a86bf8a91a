"""Delivery of a changeset's writes to the catalog, and the functions that apply.py and rollback.py share."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from foundation.database import locks
from foundation.operations.errors import Conflict
from foundation.work.delivery import DeliveryPhase, DeliveryQueue, DeliveryResult, DeliveryStatus, RemoteState
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, CatalogRefused, CatalogUnavailable, Write, WriteRun
from knowledge.catalog.json_patch import ABSENT, equal, value_at
from knowledge.changesets.new_entities import UNDO_CREATION
from knowledge.models import Change, ChangeOutcome, Changeset

VISIBLE_WITHIN_S = (0, 0.1, 0.3, 1.0)  # seconds to wait before each attempt to read a written value back
DONE = (ChangeOutcome.LANDED, ChangeOutcome.NOOP)
ERASE = "erase_text"  # change type of the removal of an erased text, which users can't request


OUTCOMES = {
    DeliveryStatus.PLANNED: ChangeOutcome.PLANNED,
    DeliveryStatus.BEGUN: ChangeOutcome.SENDING,
    DeliveryStatus.LANDED: ChangeOutcome.LANDED,
    DeliveryStatus.UNCHANGED: ChangeOutcome.NOOP,
    DeliveryStatus.MOVED: ChangeOutcome.CONFLICT,
    DeliveryStatus.FAILED: ChangeOutcome.FAILED,
}
MOVED = "others have changed the value since this change was planned"
USED = "others use the entity again, so its text stays"


def delivery_queue_of(changeset: Changeset) -> DeliveryQueue:
    return DeliveryQueue(changeset.changes.all(), "position", OUTCOMES)


@dataclass(frozen=True)
class CatalogWrite:
    """Delivery of changes to a catalog (see foundation/work/delivery.py).

    The catalog is checked before each write, and a value that others have changed is left as it is.
    """

    catalog: Catalog
    run: WriteRun
    checks_remote_first: bool = True

    def check_remote(self, change: Change, was_begun: bool) -> tuple[RemoteState, str]:
        current = value_now(self.catalog, change)
        if as_written(change, current):
            return RemoteState.AS_ASKED, ""
        if change.change_type == ERASE:  # there is no value from before to compare with
            return (RemoteState.AS_BEFORE, "") if self._is_withdrawn(change, current) else (RemoteState.OTHERWISE, USED)
        return (RemoteState.AS_BEFORE, "") if as_before(change, current) else (RemoteState.OTHERWISE, MOVED)

    def _is_withdrawn(self, change: Change, current: Any) -> bool:
        """Return whether the entity is still in the state that a rollback of its creation left."""
        status = self.catalog.read([change.urn], ["status"])[change.urn]["status"].value or {}
        path, value = UNDO_CREATION.get(change.aspect, ((), None))
        return bool(status.get("removed")) or bool(path and equal(value_at(change.aspect, current, path), value))

    def send(self, change: Change) -> DeliveryResult:
        self.catalog.write(write_of(change), self.run)
        for pause in VISIBLE_WITHIN_S:
            time.sleep(pause)
            state, _ = self.check_remote(change, True)
            if state == RemoteState.AS_ASKED:
                return DeliveryResult(DeliveryStatus.LANDED)
            if state == RemoteState.OTHERWISE:
                return DeliveryResult(DeliveryStatus.MOVED, "it was written, but the catalog has another value now")
        return DeliveryResult(
            DeliveryStatus.BEGUN, "it was written but can't be read back yet: resume the changeset to check again"
        )

    def status_of_error(self, change: Change, error: Exception, phase: DeliveryPhase) -> DeliveryResult:
        """Return the change's status after an error of the catalog. Any other error is raised again.

        After CatalogUnavailable the change stays open, unless a new check finds the written value in the catalog.
        """
        if isinstance(error, CatalogRefused):
            return DeliveryResult(DeliveryStatus.FAILED, error.message)
        if not isinstance(error, CatalogUnavailable):
            raise error
        if phase == DeliveryPhase.LOOKING:
            return DeliveryResult(DeliveryStatus.PLANNED, error.message)
        try:
            state, _ = self.check_remote(change, True)
        except (CatalogUnavailable, CatalogRefused):
            return DeliveryResult(DeliveryStatus.BEGUN, error.message)
        return (
            DeliveryResult(DeliveryStatus.LANDED)
            if state == RemoteState.AS_ASKED
            else DeliveryResult(DeliveryStatus.PLANNED, error.message)
        )

    def save_result(self, change: Change, result: DeliveryResult) -> None:
        # UNKNOWN means here: the write was begun earlier, and the value is now neither the old nor the written one.
        status = DeliveryStatus.MOVED if result.status == DeliveryStatus.UNKNOWN else result.status
        save_outcome(change, OUTCOMES[status], result.error)


def write_of(change: Change) -> Write:
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


def is_creation_undone(change: Change, current: Any) -> bool:
    if not change.creates or change.aspect not in UNDO_CREATION or current is ABSENT:
        return False
    path, value = UNDO_CREATION[change.aspect]
    return equal(value_at(change.aspect, current, path), value)


def save_outcome(change: Change, outcome: ChangeOutcome, error: str = "") -> None:
    change.outcome = outcome
    change.error = error
    with locks.fenced():
        Change.objects.filter(pk=change.pk).update(outcome=outcome, error=error)


def catalog_of(changeset: Changeset) -> Catalog:
    catalog = get_catalog()
    if catalog.name != changeset.catalog:
        raise Conflict(
            gettext("belongs to the catalog %(catalog)r, but %(configured)r is configured")
            % {"catalog": changeset.catalog, "configured": catalog.name},
            field="changeset_id",
        )
    return catalog


@contextmanager
def exclusive(changeset: Changeset) -> Iterator[None]:
    """Lock the changeset while it is applied, rolled back or replayed. Raises Conflict if it is already locked."""
    busy = Conflict(
        gettext("is being applied or rolled back by another request: try again later"), field="changeset_id"
    )
    with locks.exclusive("changeset", changeset.pk, busy):
        changeset.refresh_from_db()
        yield

"""Crash-safe delivery of writes to other systems.

An item is marked BEGUN before its request is sent, and gets its final status as soon as the outcome is known. After a
crash, an item that is still BEGUN is compared with the other system before it is sent again. So no write is lost, and a
write that has arrived is not sent again. Items are rows of the app that owns them. The queue uses only their outcome,
their error and their order. A thread that sends a request to the other system has no open transaction.

What is saved about an item is saved within `locks.fenced`, so a process whose lease on the work has ended stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any, Protocol, TypeVar

from django.db.models import Model, QuerySet

from foundation.database import connections, locks
from foundation.database.locks import LeaseLost

Item = TypeVar("Item", bound=Model)
Contra = TypeVar("Contra", bound=Model, contravariant=True)


class DeliveryPhase(Enum):
    """The step in which an error occurred."""

    LOOKING = "checking the other system before the first attempt"
    LOOKING_AGAIN = "checking the other system after an earlier attempt"
    SENDING = "sending"


class RemoteState(Enum):
    """The current value in the other system: the value to write, the value from before the write, or a third value."""

    AS_ASKED = "as asked"
    AS_BEFORE = "as before"
    OTHERWISE = "otherwise"


class DeliveryStatus(Enum):
    """The status of an item."""

    PLANNED = "planned"  # the request is to be sent, for the first time or after a failure
    BEGUN = "begun"  # the request may have been sent, so the other system is checked before it is sent again
    LANDED = "landed"  # the write succeeded
    UNCHANGED = "unchanged"  # nothing was sent, because the value was already there
    MOVED = "moved"  # others have changed the value since the item was planned, and their value is kept
    FAILED = "failed"  # the write was refused or never sent
    UNKNOWN = "unknown"  # the outcome can't be determined; a person has to check


@dataclass(frozen=True)
class DeliveryResult:
    status: DeliveryStatus
    error: str = ""
    status_code: int | None = None


class Delivery(Protocol[Contra]):
    """One kind of write to another system, implemented by the app that owns the items.

    `check_remote`, `send` and `status_of_error` may run in threads, where they must not use the database.
    """

    @property
    def checks_remote_first(self) -> bool:
        """Return whether to check the other system before sending any item. Items that are BEGUN are always checked."""
        ...

    def check_remote(self, item: Contra, was_begun: bool) -> tuple[RemoteState, str]:
        """Compare the other system with the item. If the state is OTHERWISE, the text describes the difference."""
        ...

    def send(self, item: Contra) -> DeliveryResult: ...

    def status_of_error(self, item: Contra, error: Exception, phase: DeliveryPhase) -> DeliveryResult:
        """Return the item's result after an exception of `check_remote` or `send`."""
        ...

    def save_result(self, item: Contra, result: DeliveryResult) -> None:
        """Save the result of an item, and update rows that depend on it."""
        ...


@dataclass(frozen=True)
class DeliveryQueue:
    """The items to deliver. `names` maps the statuses that occur to the values of the column `outcome`."""

    rows: QuerySet[Any]
    order: str
    names: Mapping[DeliveryStatus, str]

    @property
    def open(self) -> QuerySet[Any]:
        return self.rows.filter(
            outcome__in=[self.names[DeliveryStatus.PLANNED], self.names[DeliveryStatus.BEGUN]]
        ).order_by(self.order)

    def retry(self) -> None:
        """Reopen items: FAILED becomes PLANNED. UNKNOWN becomes BEGUN, so the other system is checked first."""
        self.rows.filter(outcome=self.names[DeliveryStatus.FAILED]).update(
            outcome=self.names[DeliveryStatus.PLANNED], error=""
        )
        if DeliveryStatus.UNKNOWN in self.names:
            self.rows.filter(outcome=self.names[DeliveryStatus.UNKNOWN]).update(
                outcome=self.names[DeliveryStatus.BEGUN]
            )

    def mark(self, items: Sequence[Model], status: DeliveryStatus, **fields: Any) -> None:
        with locks.fenced():
            self.rows.filter(pk__in=[item.pk for item in items]).update(outcome=self.names[status], **fields)

    def was_begun(self, item: Any) -> bool:
        return bool(item.outcome == self.names[DeliveryStatus.BEGUN])


def deliver(queue: DeliveryQueue, delivery: Delivery[Any], *, batch: int = 50, at_once: int = 1) -> Iterator[Any]:
    """Deliver the open items in order, and yield each one when its result is saved.

    At most `at_once` requests run at the same time. If `at_once` is more than 1, all items of a batch are marked BEGUN
    before the first is sent. If the consumer then stops iterating, requests that are running are completed, and items
    that were not sent get their earlier status back.
    """
    if at_once == 1:
        yield from _deliver_one_by_one(queue, delivery, list(queue.open))
        return
    with ThreadPoolExecutor(at_once) as pool:
        # Deliveries with `at_once` above 1 must give every item a final status, or this loop would not end.
        while items := list(queue.open[:batch]):
            yield from _deliver_concurrently(queue, delivery, items, pool)


def _deliver_one_by_one(queue: DeliveryQueue, delivery: Delivery[Any], items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        was_begun = queue.was_begun(item)
        begin = partial(queue.mark, [item], DeliveryStatus.BEGUN)
        result = attempt(delivery, item, was_begun, begin)
        with locks.fenced():
            delivery.save_result(item, result)
        yield item


def _deliver_concurrently(
    queue: DeliveryQueue, delivery: Delivery[Any], items: Sequence[Any], pool: ThreadPoolExecutor
) -> Iterator[Any]:
    begun_ids = {item.pk for item in items if queue.was_begun(item)}
    queue.mark(items, DeliveryStatus.BEGUN)
    pending: list[tuple[Any, Future[DeliveryResult]]] = [
        (item, pool.submit(attempt, delivery, item, item.pk in begun_ids, lambda: None)) for item in items
    ]
    try:
        while pending:
            item, future = pending.pop(0)
            connections.close_if_pooled()
            result = future.result()
            with locks.fenced():
                delivery.save_result(item, result)
            yield item
    finally:
        for item, future in pending:  # not empty if the consumer stopped iterating or an error occurred
            if future.cancel():
                queue.mark([item], DeliveryStatus.BEGUN if item.pk in begun_ids else DeliveryStatus.PLANNED)
            else:
                result = future.result()
                with locks.fenced():
                    delivery.save_result(item, result)


def attempt(delivery: Delivery[Any], item: Any, was_begun: bool, begin: Callable[[], None]) -> DeliveryResult:
    """Deliver one item: check the other system if necessary, mark the item with `begin`, and send it.

    An exception is passed to `delivery.status_of_error`, which returns the result or raises.
    """
    phase = DeliveryPhase.LOOKING_AGAIN if was_begun else DeliveryPhase.LOOKING
    try:
        if was_begun or delivery.checks_remote_first:
            state, message = delivery.check_remote(item, was_begun)
            if state == RemoteState.AS_ASKED:
                return DeliveryResult(DeliveryStatus.LANDED if was_begun else DeliveryStatus.UNCHANGED)
            if state == RemoteState.OTHERWISE:
                return DeliveryResult(DeliveryStatus.UNKNOWN if was_begun else DeliveryStatus.MOVED, message)
        begin()
        phase = DeliveryPhase.SENDING
        return delivery.send(item)
    except LeaseLost:
        raise
    except Exception as error:  # a bug in one delivery must not abort the others
        return delivery.status_of_error(item, error, phase)

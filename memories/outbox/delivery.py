"""Effects on other systems, item by item, so that a kill at any line loses nothing and repeats nothing.

An item's intent is saved before anything is sent for it, and what became of it as soon as that is known. An item that
was begun and whose fate is unknown is looked at before it is sent again. Items are rows of the app that owns them; the
ledger knows only their outcome, error and order. No database is touched while another system is waited for, and no
transaction is open then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

from django.db.models import Model, QuerySet

from memories.database import connections

Item = TypeVar("Item", bound=Model)
Contra = TypeVar("Contra", bound=Model, contravariant=True)


class Phase(Enum):
    """What was being done when an error came."""

    LOOKING = "looking at an item that was not begun"
    LOOKING_AGAIN = "looking at an item that was begun"
    SENDING = "sending"


class RemoteState(Enum):
    """What stands in the other system, compared with what is asked for and what stood there before."""

    AS_ASKED = "as asked"
    AS_BEFORE = "as before"
    OTHERWISE = "otherwise"


class DeliveryStatus(Enum):
    """What became of an item."""

    PLANNED = "planned"  # nothing was sent
    BEGUN = "begun"  # it was sent, or may have been; it is looked at before it is sent again
    LANDED = "landed"
    UNCHANGED = "unchanged"  # it was so already, and nothing was sent
    MOVED = "moved"  # others have changed it since it was planned; it was left alone
    FAILED = "failed"  # refused, or never sent
    UNKNOWN = "unknown"  # nobody can tell: for a person to look at


@dataclass(frozen=True)
class Result:
    fate: DeliveryStatus
    error: str = ""
    status_code: int | None = None


class Delivery(Protocol[Contra]):
    """One kind of effect. `look`, `send` and `fate_of` may run in threads, and touch no database where they do."""

    @property
    def checks_remote_first(self) -> bool:
        """Whether every item is looked at before it is sent, not only those that were begun."""
        ...

    def check_remote(self, item: Contra, was_begun: bool) -> tuple[RemoteState, str]:
        """What stands there now, and what to say of it where it was moved."""
        ...

    def send(self, item: Contra) -> Result: ...

    def status_of_error(self, item: Contra, error: Exception, stage: Phase) -> Result:
        """What an error of looking or sending means for the item."""
        ...

    def note(self, item: Contra, result: Result) -> None:
        """Saves the result and what follows from it."""
        ...


@dataclass(frozen=True)
class DeliveryQueue:
    """The items of one piece of work. `names` is how the table calls each fate."""

    rows: QuerySet[Any]
    order: str
    names: Mapping[DeliveryStatus, str]

    @property
    def open(self) -> QuerySet[Any]:
        """Items that are still to be sent, or to be looked at."""
        return self.rows.filter(
            outcome__in=[self.names[DeliveryStatus.PLANNED], self.names[DeliveryStatus.BEGUN]]
        ).order_by(self.order)

    def retry(self) -> None:
        """Failed items are planned anew; unknown ones are looked at before all else."""
        self.rows.filter(outcome=self.names[DeliveryStatus.FAILED]).update(
            outcome=self.names[DeliveryStatus.PLANNED], error=""
        )
        if DeliveryStatus.UNKNOWN in self.names:
            self.rows.filter(outcome=self.names[DeliveryStatus.UNKNOWN]).update(
                outcome=self.names[DeliveryStatus.BEGUN]
            )

    def mark(self, items: Sequence[Model], fate: DeliveryStatus, **fields: Any) -> None:
        self.rows.filter(pk__in=[item.pk for item in items]).update(outcome=self.names[fate], **fields)

    def was_begun(self, item: Any) -> bool:
        return bool(item.outcome == self.names[DeliveryStatus.BEGUN])


def deliver(ledger: DeliveryQueue, effect: Delivery[Any], *, batch: int = 50, at_once: int = 1) -> Iterator[Any]:
    """Each open item once its fate is saved, in order. Several at once take their batch's intents together. Whoever
    stops iterating ends the work: what was begun is finished, what was not is planned again."""
    if at_once == 1:
        yield from _one_by_one(ledger, effect, list(ledger.open))
        return
    with ThreadPoolExecutor(at_once) as pool:
        while items := list(ledger.open[:batch]):  # none of them stays open: together, a fate is settled
            yield from _together(ledger, effect, items, pool)


def _one_by_one(ledger: DeliveryQueue, effect: Delivery[Any], items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        was_begun = ledger.was_begun(item)
        effect.note(item, attempt(effect, item, was_begun, lambda item=item: ledger.mark([item], DeliveryStatus.BEGUN)))  # type: ignore[misc]
        yield item


def _together(
    ledger: DeliveryQueue, effect: Delivery[Any], items: Sequence[Any], pool: ThreadPoolExecutor
) -> Iterator[Any]:
    begun_ids = {item.pk for item in items if ledger.was_begun(item)}
    ledger.mark(items, DeliveryStatus.BEGUN)
    waiting: list[tuple[Any, Future[Result]]] = [
        (item, pool.submit(attempt, effect, item, item.pk in begun_ids, lambda: None)) for item in items
    ]
    try:
        while waiting:
            item, future = waiting.pop(0)
            connections.close_if_pooled()
            effect.note(item, future.result())
            yield item
    finally:
        for item, future in waiting:  # the caller has gone away
            if future.cancel():
                ledger.mark([item], DeliveryStatus.BEGUN if item.pk in begun_ids else DeliveryStatus.PLANNED)
            else:
                effect.note(item, future.result())


def attempt(effect: Delivery[Any], item: Any, was_begun: bool, begin: Callable[[], None]) -> Result:
    """Looks where that is needed, saves the intent by `begin`, sends. Raises only what `fate_of` raises."""
    stage = Phase.LOOKING_AGAIN if was_begun else Phase.LOOKING
    try:
        if was_begun or effect.checks_remote_first:
            sight, says = effect.check_remote(item, was_begun)
            if sight == RemoteState.AS_ASKED:
                return Result(DeliveryStatus.LANDED if was_begun else DeliveryStatus.UNCHANGED)
            if sight == RemoteState.OTHERWISE:
                return Result(DeliveryStatus.UNKNOWN if was_begun else DeliveryStatus.MOVED, says)
        begin()
        stage = Phase.SENDING
        return effect.send(item)
    except Exception as error:  # a fault of ours must not lose the other items' fates
        return effect.status_of_error(item, error, stage)

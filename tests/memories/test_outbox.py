"""The outbox, with a fake remote system that fails as configured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from analysis.action_execution import NAMES
from analysis.models import Action, ActionItem, Outcome
from foundation.work.delivery import DeliveryPhase, DeliveryQueue, DeliveryResult, DeliveryStatus, RemoteState, deliver

pytestmark = pytest.mark.django_db


class NoAnswerError(Exception):
    """The remote system may or may not have processed the request."""


@dataclass
class Shelf:
    """A fake remote system that holds a set of items. Writes of `silent` items succeed without a response."""

    items: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)
    checks_remote_first: bool = False

    def check_remote(self, item: ActionItem, was_begun: bool) -> tuple[RemoteState, str]:
        if item.record_id in self.moved:
            return RemoteState.OTHERWISE, "somebody took it"
        return (RemoteState.AS_ASKED if item.record_id in self.items else RemoteState.AS_BEFORE), ""

    def send(self, item: ActionItem) -> DeliveryResult:
        # the intent is saved before the request is sent
        assert ActionItem.objects.get(pk=item.pk).outcome == Outcome.SENDING
        if item.record_id in self.refused:
            raise ValueError("no room")
        self.writes.append(item.record_id)
        self.items.add(item.record_id)
        if item.record_id in self.silent:
            raise NoAnswerError
        return DeliveryResult(DeliveryStatus.LANDED)

    def status_of_error(self, item: ActionItem, error: Exception, phase: DeliveryPhase) -> DeliveryResult:
        delivery_status = (
            DeliveryStatus.UNKNOWN
            if isinstance(error, NoAnswerError) and phase == DeliveryPhase.SENDING
            else DeliveryStatus.FAILED
        )
        return DeliveryResult(delivery_status, str(error))

    def save_result(self, item: ActionItem, result: DeliveryResult) -> None:
        item.outcome = NAMES[result.status]
        ActionItem.objects.filter(pk=item.pk).update(outcome=item.outcome, error=result.error)


@pytest.fixture
def action() -> Action:
    return Action.objects.create(owner="alice@example.org", analysis_id="audit", model="book", kind="update")


def create_queue(action: Action, *names: str) -> DeliveryQueue:
    for name in names:
        ActionItem.objects.create(action=action, record_id=name)
    return DeliveryQueue(action.items.all(), "id", NAMES)


def outcomes(action: Action) -> dict[str, str]:
    return dict(action.items.order_by("id").values_list("record_id", "outcome"))


def test_items_are_delivered_in_order_with_their_outcomes(action: Action) -> None:
    shelf = Shelf(refused={"b"}, silent={"c"})
    handled = [item.record_id for item in deliver(create_queue(action, "a", "b", "c", "d"), shelf)]
    assert handled == ["a", "b", "c", "d"]
    assert outcomes(action) == {"a": "succeeded", "b": "failed", "c": "unknown", "d": "succeeded"}


def test_a_retry_repeats_failed_items_and_checks_unknown_ones(action: Action) -> None:
    shelf = Shelf(refused={"a"}, silent={"b", "c"})
    queue = create_queue(action, "a", "b", "c")
    list(deliver(queue, shelf))
    shelf.refused, shelf.moved = set(), {"c"}
    shelf.writes.clear()
    queue.retry()
    list(deliver(queue, shelf))
    assert shelf.writes == ["a"]  # b had succeeded, and a person must decide about c
    assert outcomes(action) == {"a": "succeeded", "b": "succeeded", "c": "unknown"}


def test_checking_first_skips_items_already_applied_or_changed_by_others(action: Action) -> None:
    shelf = Shelf(items={"a"}, moved={"b"}, checks_remote_first=True)
    list(deliver(create_queue(action, "a", "b", "c"), shelf))
    assert (shelf.writes, outcomes(action)) == (["c"], {"a": "succeeded", "b": "drifted", "c": "succeeded"})


def test_closing_the_iterator_stops_delivery_and_loses_nothing(action: Action) -> None:
    shelf = Shelf()
    queue = create_queue(action, *"abcdef")
    work: Iterator[ActionItem] = deliver(queue, shelf)
    assert next(work).record_id == "a"
    work.close()  # type: ignore[attr-defined]  # deliver() is a generator
    assert (shelf.writes, set(outcomes(action).values())) == (["a"], {"succeeded", "planned"})
    list(deliver(queue, shelf))
    assert shelf.writes == [*"abcdef"]

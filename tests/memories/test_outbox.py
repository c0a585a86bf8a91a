"""The ledger of effects on other systems, with an other system that fails as it is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from analysis.action_execution import NAMES
from analysis.models import Action, ActionItem, Outcome
from memories.outbox.delivery import DeliveryQueue, DeliveryStatus, Phase, RemoteState, Result, deliver

pytestmark = pytest.mark.django_db


class NoAnswerError(Exception):
    """The other system took the request, perhaps."""


@dataclass
class Shelf:
    """An other system: a set of what stands on it. Writes of `silent` land without an answer."""

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

    def send(self, item: ActionItem) -> Result:
        assert ActionItem.objects.get(pk=item.pk).outcome == Outcome.SENDING  # its intent is saved by now
        if item.record_id in self.refused:
            raise ValueError("no room")
        self.writes.append(item.record_id)
        self.items.add(item.record_id)
        if item.record_id in self.silent:
            raise NoAnswerError
        return Result(DeliveryStatus.LANDED)

    def status_of_error(self, item: ActionItem, error: Exception, stage: Phase) -> Result:
        fate = (
            DeliveryStatus.UNKNOWN
            if isinstance(error, NoAnswerError) and stage == Phase.SENDING
            else DeliveryStatus.FAILED
        )
        return Result(fate, str(error))

    def note(self, item: ActionItem, result: Result) -> None:
        item.outcome = NAMES[result.fate]
        ActionItem.objects.filter(pk=item.pk).update(outcome=item.outcome, error=result.error)


@pytest.fixture
def action() -> Action:
    return Action.objects.create(owner="alice@example.org", analysis_id="audit", model="book", kind="update")


def ledger(action: Action, *names: str) -> DeliveryQueue:
    for name in names:
        ActionItem.objects.create(action=action, record_id=name)
    return DeliveryQueue(action.items.all(), "id", NAMES)


def outcomes(action: Action) -> dict[str, str]:
    return dict(action.items.order_by("id").values_list("record_id", "outcome"))


def test_each_item_gets_its_fate_in_order(action: Action) -> None:
    shelf = Shelf(refused={"b"}, silent={"c"})
    handled = [item.record_id for item in deliver(ledger(action, "a", "b", "c", "d"), shelf)]
    assert handled == ["a", "b", "c", "d"]
    assert outcomes(action) == {"a": "succeeded", "b": "failed", "c": "unknown", "d": "succeeded"}


def test_a_retry_repeats_what_failed_and_looks_at_what_is_unknown(action: Action) -> None:
    shelf = Shelf(refused={"a"}, silent={"b", "c"})
    entries = ledger(action, "a", "b", "c")
    list(deliver(entries, shelf))
    shelf.refused, shelf.moved = set(), {"c"}
    shelf.writes.clear()
    entries.retry()
    list(deliver(entries, shelf))
    assert shelf.writes == ["a"]  # b had landed, and c is for a person to look at
    assert outcomes(action) == {"a": "succeeded", "b": "succeeded", "c": "unknown"}


def test_looking_first_leaves_alone_what_is_so_or_was_moved(action: Action) -> None:
    shelf = Shelf(items={"a"}, moved={"b"}, checks_remote_first=True)
    list(deliver(ledger(action, "a", "b", "c"), shelf))
    assert (shelf.writes, outcomes(action)) == (["c"], {"a": "succeeded", "b": "drifted", "c": "succeeded"})


def test_who_stops_listening_ends_the_work_and_nothing_is_lost(action: Action) -> None:
    shelf = Shelf()
    entries = ledger(action, *"abcdef")
    work: Iterator[ActionItem] = deliver(entries, shelf)
    assert next(work).record_id == "a"
    work.close()  # type: ignore[attr-defined]  # it is a generator
    assert (shelf.writes, set(outcomes(action).values())) == (["a"], {"succeeded", "planned"})
    list(deliver(entries, shelf))
    assert shelf.writes == [*"abcdef"]

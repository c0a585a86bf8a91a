"""The inbox of contradictions: who sees a pair, what each verdict does, and that it can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.contradictions import queries, scan, verdicts
from knowledge.contradictions.operations import GiveVerdict, UndoSettlement
from knowledge.insights.capture import capture
from knowledge.models import Contradiction, Insight, Settlement
from knowledge.operations import Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord, Purpose, Report
from memories.operations import Erase, Forget, Remember, ReportMemories, Restore, Revise
from memories.use import reports
from memories.writing.erasure import erase
from memories.writing.undo import undo as undo_change
from tests.knowledge.conftest import ORDERS, put

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_catalog")]
SIX, ONE_DAY = "Orders are final after 6 hours.", "Orders are final after 24 hours."


@pytest.fixture(autouse=True)
def purposes(personas: object) -> None:
    for name in ("board", "forecast"):
        Purpose.objects.create(name=name, title=name.title())


def remember(caller: Caller, content: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": content, **fields})).record


def inbox(caller: Caller) -> list[Contradiction]:
    with identity.acting_as(caller):
        return [case.pair for case in queries.shown_pairs(list(queries.contradictions(caller)))]


def scanned(caller: Caller) -> Contradiction:
    scan.forget_outdated()
    scan.scan(60)
    (pair,) = inbox(caller)
    return pair


def settle(caller: Caller, pair: Contradiction, verdict: str, **fields: Any) -> Settlement:
    operation = GiveVerdict.read({"contradiction_id": pair.pk, "verdict": verdict, **fields})
    return verdicts.give_verdict(caller, operation)


def undo(caller: Caller, settlement: Settlement) -> Settlement:
    return verdicts.undo(caller, UndoSettlement.read({"settlement_id": settlement.pk}))


def state(*records: MemoryRecord) -> list[tuple[str, str]]:
    rows = MemoryRecord.objects.in_bulk([record.pk for record in records])
    return [(rows[record.pk].status, rows[record.pk].scope) for record in records]


# -- the inbox --------------------------------------------------------------------------------------------------


def test_a_pair_is_shown_to_those_who_may_read_both_texts(alice: Caller, bob: Caller, olga: Caller) -> None:
    first, second = remember(alice, SIX), remember(bob, ONE_DAY, visibility="private")
    pair = scanned(bob)
    assert (pair.first_id, pair.second_id, pair.reason) == (first.pk, second.pk, "6 hours against 24 hours")
    assert inbox(alice) == inbox(olga) == []
    with identity.acting_as(olga):
        assert not Contradiction.objects.exists()
    for outsider in (alice, olga):
        with pytest.raises(NotFound):
            settle(outsider, pair, "first")


def test_only_a_changed_text_and_different_scopes_end_a_contradiction(alice: Caller, bob: Caller) -> None:
    first, second = remember(alice, SIX), remember(bob, ONE_DAY)
    scanned(alice)
    services.revise(alice, Revise.read({"id": first.pk, "scope": "purpose:board"}))
    assert len(inbox(bob)) == 1
    services.revise(bob, Revise.read({"id": second.pk, "scope": "purpose:forecast"}))
    assert inbox(bob) == []
    services.revise(bob, Revise.read({"id": second.pk, "scope": "purpose:board"}))
    assert len(inbox(bob)) == 1
    services.revise(bob, Revise.read({"id": second.pk, "content": "Orders are final after 6 hours, always."}))
    assert inbox(bob) == []
    scan.forget_outdated()
    assert scan.scan(60) == (2, 0)
    assert scan.scan(60) == (0, 0)


def test_a_description_of_the_catalog_is_compared_and_again_when_it_changes(alice: Caller, olga: Caller) -> None:
    remember(alice, SIX, entity_urns=[ORDERS])
    scan.scan(60)
    put(ORDERS, "datasetProperties", {"name": "orders", "description": ONE_DAY})
    pair = scanned(alice)
    assert (pair.urn, pair.reason) == (ORDERS, "6 hours against 24 hours")
    assert inbox(olga) == []
    put(ORDERS, "datasetProperties", {"name": "orders", "description": "All orders."})
    assert inbox(alice) == []
    with pytest.raises(Conflict, match="changed"):
        settle(alice, pair, "second")
    scan.scan(60)
    assert not Contradiction.objects.exists()


def test_proposals_notes_and_private_texts_of_two_people_are_not_compared(alice: Caller, bob: Caller) -> None:
    remember(alice, SIX, visibility="private")
    remember(bob, ONE_DAY, visibility="private")
    capture(alice, Capture.read({"category": "correction", "insight_text": "Orders are final after 9 hours."}))
    scan.scan(60)
    assert not Contradiction.objects.exists()


# -- verdicts on memories ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "scopes", "after"),
    [
        ("first", {}, [("active", ""), ("archived", "")]),
        ("second", {}, [("archived", ""), ("active", "")]),
        ("neither", {}, [("stale", ""), ("stale", "")]),
        (
            "both",
            {"first_scope": "purpose:Board", "second_scope": "persona:sales"},
            [("active", "purpose:board"), ("active", "persona:sales")],
        ),
    ],
)
def test_a_verdict_on_own_memories_takes_effect_and_is_undone(
    alice: Caller, bob: Caller, verdict: str, scopes: dict[str, str], after: list[tuple[str, str]]
) -> None:
    records = remember(alice, SIX), remember(alice, ONE_DAY)
    pair = scanned(alice)
    settlement = settle(alice, pair, verdict, note="Asked the shop.", **scopes)
    assert (settlement.state, state(*records), inbox(alice), inbox(bob)) == ("decided", after, [], [])
    with pytest.raises(Conflict, match=r"decided by alice@example.org"):  # the second of two who decide at once
        settle(bob, pair, "second")
    with pytest.raises(Forbidden):
        undo(bob, settlement)
    undo(alice, settlement)
    assert state(*records) == [("active", ""), ("active", "")]
    assert [each.pk for each in inbox(bob)] == [pair.pk]
    with pytest.raises(Conflict, match="already"):
        undo(alice, settlement)


def test_a_settled_pair_does_not_come_back_unless_a_text_changes(alice: Caller) -> None:
    first, second = remember(alice, SIX), remember(alice, ONE_DAY)
    settle(alice, scanned(alice), "first")
    undo_change(alice, record_id=second.pk, change="forget")  # by another way than the verdict's undo
    scan.scan(60)
    assert inbox(alice) == []
    services.revise(alice, Revise.read({"id": first.pk, "content": "Orders are final after 7 hours."}))
    assert scanned(alice).reason == "7 hours against 24 hours"


def test_a_verdict_on_the_memory_of_another_is_a_proposal_to_its_owner(alice: Caller, bob: Caller) -> None:
    records = remember(alice, SIX), remember(bob, ONE_DAY)
    pair = scanned(alice)
    settlement = settle(alice, pair, "first", note="Asked the shop.")
    assert settlement.state == "proposed"
    assert list(Report.objects.values_list("record", "by", "verdict", "note")) == [
        (records[1].pk, "alice@example.org", "wrong", "Asked the shop.")
    ]
    assert state(*records) == [("active", ""), ("active", "")]
    assert (inbox(alice), [each.pk for each in inbox(bob)]) == ([], [pair.pk])
    with identity.acting_as(bob):
        ((case,),) = [queries.shown_pairs(list(queries.contradictions(bob)))]
        assert [(each.by, each.verdict) for each in case.verdicts] == [("alice@example.org", "first")]
    with pytest.raises(Conflict, match="undo it first"):
        settle(alice, pair, "second")
    undo(alice, settlement)
    assert not Report.objects.exists()
    settle(alice, pair, "first")
    assert settle(bob, pair, "first").state == "decided"  # Bob agrees, and archives his own
    assert state(*records) == [("active", ""), ("archived", "")]


def test_scopes_of_another_s_memory_are_proposed_and_its_owner_agrees(alice: Caller, bob: Caller) -> None:
    records = remember(alice, SIX), remember(bob, ONE_DAY)
    pair = scanned(alice)
    scopes = {"first_scope": "purpose:board", "second_scope": "purpose:forecast"}
    settlement = settle(alice, pair, "both", **scopes)
    assert (settlement.state, state(*records)) == ("proposed", [("active", "purpose:board"), ("active", "")])
    assert settle(bob, pair, "both", **scopes).state == "decided"
    assert state(*records) == [("active", "purpose:board"), ("active", "purpose:forecast")]


def test_the_scope_of_an_approved_insight_waits_for_a_curator(alice: Caller, ada: Caller) -> None:
    insight = capture(alice, Capture.read({"category": "correction", "insight_text": SIX})).insight
    decisions.approve(ada, insight_id=insight.pk)
    other = remember(alice, ONE_DAY)
    pair = scanned(alice)
    scopes = {"first_scope": "purpose:board", "second_scope": "purpose:forecast"}
    settlement = settle(alice, pair, "both", **scopes)
    assert (settlement.state, state(insight.record, other)) == (
        "proposed",
        [("active", ""), ("active", "purpose:forecast")],
    )
    assert Insight.objects.get(pk=insight.pk).pending_edit == {"scope": "purpose:board"}
    undo(alice, settlement)
    assert (Insight.objects.get(pk=insight.pk).pending_edit, state(other)) == ({}, [("active", "")])


def test_a_verdict_whose_memory_has_changed_since_is_not_undone(alice: Caller) -> None:
    first, second = remember(alice, SIX), remember(alice, ONE_DAY)
    settlement = settle(alice, scanned(alice), "both", first_scope="purpose:board", second_scope="purpose:forecast")
    services.revise(alice, Revise.read({"id": first.pk, "tags": ["orders"]}))
    with pytest.raises(Conflict, match="changed since then"):
        undo(alice, settlement)
    assert state(first, second) == [("active", "purpose:board"), ("active", "purpose:forecast")]


@pytest.mark.parametrize(
    ("fields", "field", "problem"),
    [
        ({"verdict": "maybe"}, "verdict", "first, second, both, neither"),
        ({"verdict": "both"}, "first_scope", "is missing"),
        ({"verdict": "both", "first_scope": "purpose:board"}, "second_scope", "is missing"),
        ({"verdict": "both", "first_scope": "purpose:x", "second_scope": "purpose:board"}, "first_scope", "nobody has"),
        ({"verdict": "both", "first_scope": "team:x", "second_scope": "purpose:board"}, "first_scope", "not a scope"),
        (
            {"verdict": "both", "first_scope": "purpose:board", "second_scope": "purpose:Board"},
            "second_scope",
            "two different scopes",
        ),
        ({"verdict": "first", "second_scope": "purpose:board"}, "second_scope", "only for the verdict both"),
        ({"verdict": "first", "note": "x" * 501}, "note", "501"),
    ],
)
def test_a_wrong_verdict_is_refused_and_changes_nothing(
    alice: Caller, fields: dict[str, str], field: str, problem: str
) -> None:
    records = remember(alice, SIX), remember(alice, ONE_DAY)
    pair = scanned(alice)
    with pytest.raises(Invalid, match=problem) as refused:
        settle(alice, pair, **fields)
    assert refused.value.field == field
    assert (state(*records), Settlement.objects.count()) == ([("active", ""), ("active", "")], 0)


def test_the_undo_of_a_verdict_keeps_a_later_change_of_the_same_kind(alice: Caller) -> None:
    records = remember(alice, SIX), remember(alice, ONE_DAY)
    settlement = settle(alice, scanned(alice), "first")
    services.restore(alice, Restore(record_id=records[1].pk))
    services.forget(alice, Forget(record_id=records[1].pk))
    with pytest.raises(Conflict, match="can no longer be undone"):
        undo(alice, settlement)
    assert state(*records) == [("active", ""), ("archived", "")]


def test_the_undo_of_a_proposed_verdict_withdraws_its_own_report_alone(alice: Caller, bob: Caller, ada: Caller) -> None:
    mine, other = remember(alice, SIX, visibility="persona"), remember(bob, ONE_DAY, visibility="persona")
    for caller in (alice, ada):
        reports.report(caller, ReportMemories(used=[other.pk], outdated=[other.pk]))
    settlement = settle(alice, scanned(alice), "first" if mine.created_at < other.created_at else "second")
    assert Report.objects.filter(record=other, verdict="wrong").count() == 1
    undo(ada, settlement)
    left = Report.objects.filter(record=other).order_by("by", "verdict").values_list("by", "verdict")
    assert list(left) == [(caller.email, verdict) for caller in (ada, alice) for verdict in ("outdated", "used")]


# -- verdicts on the catalog ------------------------------------------------------------------------------------


@pytest.fixture
def described(alice: Caller) -> tuple[MemoryRecord, Contradiction]:
    put(ORDERS, "datasetProperties", {"name": "orders", "description": ONE_DAY})
    record = remember(alice, SIX, entity_urns=[ORDERS], visibility="persona")
    return record, scanned(alice)


def test_a_memory_that_the_catalog_contradicts_is_proposed_as_its_description(
    described: tuple[MemoryRecord, Contradiction], alice: Caller, bob: Caller
) -> None:
    record, pair = described
    with pytest.raises(Forbidden, match="only its owner"):
        settle(bob, pair, "first")
    settlement = settle(alice, pair, "first")
    insight = Insight.objects.get(beside=record)
    assert (insight.state, insight.record.content, insight.suggested_actions) == (
        "pending",
        SIX,
        [{"action_type": "update_description", "target": "", "detail": SIX}],
    )
    assert (state(record), inbox(alice)) == ([("active", "")], [])
    undo(alice, settlement)
    assert state(insight.record) == [("archived", "")]
    assert len(inbox(alice)) == 1
    settle(alice, pair, "first")
    assert Insight.objects.filter(beside=record, record__status="active").count() == 1
    assert inbox(alice) == []


@pytest.mark.parametrize(
    ("verdict", "scopes", "after"),
    [
        ("second", {}, ("archived", "")),
        ("neither", {}, ("stale", "")),
        ("both", {"first_scope": "purpose:board"}, ("active", "purpose:board")),
    ],
)
def test_verdicts_against_the_catalog_change_the_memory(
    described: tuple[MemoryRecord, Contradiction],
    alice: Caller,
    verdict: str,
    scopes: dict[str, str],
    after: tuple[str, str],
) -> None:
    record, pair = described
    settlement = settle(alice, pair, verdict, **scopes)
    assert (settlement.state, state(record), inbox(alice)) == ("decided", [after], [])
    undo(alice, settlement)
    assert (state(record), len(inbox(alice))) == ([("active", "")], 1)


# -- erasure and wipes ------------------------------------------------------------------------------------------


def test_erasing_a_memory_removes_its_pairs_and_verdicts_also_of_others(alice: Caller, bob: Caller) -> None:
    record = remember(alice, SIX)
    remember(bob, ONE_DAY, visibility="private")
    settle(bob, scanned(bob), "second", note="Asked the shop.")
    erase(alice, Erase.read({"id": record.pk, "confirm": True}))
    assert (Contradiction.objects.count(), Settlement.objects.count()) == (0, 0)

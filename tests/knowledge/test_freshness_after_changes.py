"""Staleness after undo, restore, edits and outages: a memory keeps its baseline, and is compared with the catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from foundation.people.caller import Caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import CatalogUnavailable, Write, WriteRun
from knowledge.changesets import rollback
from knowledge.freshness import entity_states, stale_detection
from knowledge.insights.capture import capture
from knowledge.models import EntityBaseline, Insight
from knowledge.operations import Appeal, Capture
from knowledge.review import decisions, suggested
from memories import services
from memories.mcp_tools import memory_manage
from memories.models import MemoryRecord, Status
from memories.operations import Forget, MarkFeedback, Remember, Restore, Revise, Supersede, Verify
from memories.writing import feedback, undo
from tests.knowledge.changeset_examples import apply, approved, change
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put, schema_of

pytestmark = pytest.mark.django_db(transaction=True)

DEPRECATION = {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"}
DEPRECATED = "sales.orders was deprecated: use the mart"


def about(caller: Caller, *urns: str, text: str = "Rows come in with two days of delay.") -> MemoryRecord:
    return services.remember(caller, Remember(content=text, entity_urns=list(urns))).record


def deprecate(urn: str = ORDERS) -> None:
    put(urn, "deprecation", DEPRECATION)
    stale_detection.check_entities([urn])


def reinstate(urn: str = ORDERS) -> None:
    put(urn, "deprecation", {**DEPRECATION, "deprecated": False})
    stale_detection.check_entities([urn])


def state(record: MemoryRecord) -> tuple[str, str]:
    record.refresh_from_db()
    return record.status, record.stale_reason


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A function that makes the embedded catalog unavailable or available."""
    read = LocalCatalog.read

    def refuse(*args: Any) -> Any:
        raise CatalogUnavailable("the catalog is unavailable")

    return lambda is_away: monkeypatch.setattr(LocalCatalog, "read", refuse if is_away else read)


# -- memories about several entities -------------------------------------------------------------------------------


def test_a_memory_about_two_entities_is_fresh_again_after_the_rollback(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    alone, both = about(alice, ORDERS), about(alice, ORDERS, REFUNDS, text="Both tables are loaded at night.")
    applied = apply(alice, cora, change("deprecate", detail="use the mart"))
    assert state(alone)[0] == state(both)[0] == Status.STALE
    rollback.roll_back(cora, changeset_id=applied.changeset.pk)
    assert state(alone) == state(both) == (Status.ACTIVE, "")


def test_a_memory_stays_stale_for_its_other_entity_and_says_so(small_catalog: None, alice: Caller) -> None:
    both = about(alice, ORDERS, REFUNDS)
    deprecate(ORDERS)
    deprecate(REFUNDS)
    reinstate(ORDERS)
    assert state(both) == (Status.STALE, "sales.refunds was deprecated: use the mart")
    reinstate(REFUNDS)
    assert state(both) == (Status.ACTIVE, "")


def test_entities_in_different_chunks_of_a_check_are_compared_together(
    small_catalog: None, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = about(alice, ORDERS, REFUNDS)
    deprecate()
    monkeypatch.setattr(stale_detection, "CHUNK", 1)
    put(ORDERS, "deprecation", {**DEPRECATION, "deprecated": False})
    stale_detection.check_all_entities(10)
    assert state(both) == (Status.ACTIVE, "")


# -- memories that become active again -----------------------------------------------------------------------------


def undo_forgetting(caller: Caller, record: MemoryRecord) -> None:
    undo.undo(caller, record_id=record.pk, change="forget")


def restore(caller: Caller, record: MemoryRecord) -> None:
    services.restore(caller, Restore(record_id=record.pk))


@pytest.mark.parametrize("bring_back", [restore, undo_forgetting])
def test_a_memory_is_compared_when_it_is_no_longer_archived(
    small_catalog: None, alice: Caller, bring_back: Callable[[Caller, MemoryRecord], None]
) -> None:
    record = about(alice, ORDERS)
    services.forget(alice, Forget(record_id=record.pk))
    deprecate()
    stale_detection.check_all_entities(10)
    bring_back(alice, record)
    assert state(record) == (Status.STALE, DEPRECATED)


@pytest.mark.parametrize("bring_back", [restore, undo_forgetting])
def test_a_stale_memory_is_stale_again_until_its_entity_is_reinstated(
    small_catalog: None, alice: Caller, bring_back: Callable[[Caller, MemoryRecord], None]
) -> None:
    record = about(alice, ORDERS)
    deprecate()
    services.forget(alice, Forget(record_id=record.pk))
    bring_back(alice, record)
    assert state(record) == (Status.STALE, DEPRECATED)
    reinstate()
    assert state(record) == (Status.ACTIVE, "")


def test_a_change_that_only_a_restored_memory_was_compared_with_is_gone_at_the_next_check(
    small_catalog: None, alice: Caller
) -> None:
    record = about(alice, ORDERS)
    stale_detection.check_all_entities(10)
    services.forget(alice, Forget(record_id=record.pk))
    put(ORDERS, "deprecation", DEPRECATION)
    restore(alice, record)
    assert state(record) == (Status.STALE, DEPRECATED)
    put(ORDERS, "deprecation", {**DEPRECATION, "deprecated": False})
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.ACTIVE, "")


def test_a_change_that_was_read_for_another_entity_is_gone_at_the_next_check(
    small_catalog: None, alice: Caller
) -> None:
    both = about(alice, ORDERS, REFUNDS)
    stale_detection.check_all_entities(10)
    deprecate(ORDERS)
    active = about(alice, ORDERS, REFUNDS, text="It is compared with what was read for the other memory.")
    put(REFUNDS, "deprecation", DEPRECATION)
    reinstate(ORDERS)
    assert state(both)[0] == state(active)[0] == Status.STALE
    put(REFUNDS, "deprecation", {**DEPRECATION, "deprecated": False})
    stale_detection.check_all_entities(10)
    assert state(both) == state(active) == (Status.ACTIVE, "")


def test_a_check_that_breaks_off_leaves_nothing_stale_for_good(
    small_catalog: None, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = about(alice, ORDERS)
    stale_detection.check_all_entities(10)
    put(ORDERS, "deprecation", DEPRECATION)
    with monkeypatch.context() as broken:
        broken.setattr(entity_states, "save", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            stale_detection.check_all_entities(10)
    assert state(record) == (Status.STALE, DEPRECATED)
    put(ORDERS, "deprecation", {**DEPRECATION, "deprecated": False})
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.ACTIVE, "")


def test_a_memory_that_is_restored_during_a_check_is_compared_at_the_next_one(
    small_catalog: None, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = about(alice, ORDERS)
    about(alice, ORDERS, text="The check is about this one.")
    stale_detection.check_all_entities(10)
    services.forget(alice, Forget(record_id=record.pk))
    compare = stale_detection.compare

    def restore_and_compare(*args: Any) -> None:
        put(ORDERS, "deprecation", DEPRECATION)
        restore(alice, record)
        put(ORDERS, "deprecation", {**DEPRECATION, "deprecated": False})
        compare(*args)

    with monkeypatch.context() as during:
        during.setattr(stale_detection, "compare", restore_and_compare)
        stale_detection.check_all_entities(10)
    assert state(record) == (Status.STALE, DEPRECATED)
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.ACTIVE, "")


def test_only_a_verification_ends_what_the_catalog_says(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    restored = memory_manage(alice, "restore", id=record.pk.hex)
    assert (restored["status"], DEPRECATED in restored["message"]) == (Status.STALE, True)
    services.verify(alice, Verify(record_id=record.pk))
    stale_detection.check_entities([ORDERS])
    assert state(record) == (Status.ACTIVE, "")


def appealed(alice: Caller, cora: Caller, insight: Insight) -> None:
    decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="It is true."))


def undone(alice: Caller, cora: Caller, insight: Insight) -> None:
    decisions.undo_review(cora, insight_id=insight.pk)


@pytest.mark.parametrize("return_to_review", [appealed, undone])
@pytest.mark.parametrize("is_stale_before", [True, False])
def test_a_rejected_insight_is_compared_when_it_returns_to_review(
    small_catalog: None,
    alice: Caller,
    cora: Caller,
    return_to_review: Callable[[Caller, Caller, Insight], None],
    is_stale_before: bool,
) -> None:
    proposal = {"insight_text": "Orders leave out refunds.", "category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(alice, Capture.read(proposal)).insight
    if is_stale_before:
        deprecate()
    decisions.reject(cora, insight_id=insight.pk)
    if not is_stale_before:
        deprecate()
    return_to_review(alice, cora, insight)
    assert state(insight.record) == (Status.STALE, DEPRECATED)


def test_the_rollback_of_its_correction_gives_a_stale_memory_its_state_back(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    old = about(alice, ORDERS)
    deprecate()
    insight = approved(alice, cora, supersedes=old.pk.hex, entity_urns=[MART])
    applied = apply_insight(cora, insight)
    assert state(old)[0] == Status.SUPERSEDED
    rollback.roll_back(cora, changeset_id=applied)
    assert state(old) == (Status.STALE, DEPRECATED)


def apply_insight(curator: Caller, insight: Insight) -> Any:
    return suggested.apply(curator, insight_id=insight.pk).pk


def test_undoing_a_verification_brings_the_earlier_baseline_back(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    services.verify(alice, Verify(record_id=record.pk))
    undo.undo(alice, record_id=record.pk, change="verify")
    stale_detection.check_all_entities(10)
    stale_detection.check_entities([ORDERS])
    assert state(record) == (Status.STALE, DEPRECATED)


def test_undoing_an_approved_edit_brings_the_earlier_state_back(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    deprecate()
    services.revise(alice, Revise(record_id=insight.pk, content="Orders are deprecated."))
    decisions.approve(cora, insight_id=insight.pk)
    assert state(insight.record)[0] == Status.ACTIVE
    decisions.undo_review(cora, insight_id=insight.pk)
    assert state(insight.record) == (Status.STALE, DEPRECATED)


def test_a_withdrawn_mark_leaves_what_the_catalog_says(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    feedback.mark(alice, MarkFeedback(record_id=record.pk, verdict="wrong"))
    reinstate()
    assert state(record) == (Status.STALE, f"{alice.email} marked it wrong")
    deprecate()
    feedback.withdraw(alice, record_id=record.pk)
    assert state(record) == (Status.STALE, DEPRECATED)


# -- while the catalog is unavailable ------------------------------------------------------------------------------


def test_the_baseline_of_an_added_entity_is_taken_after_an_outage(
    small_catalog: None, alice: Caller, outage: Callable[[bool], None]
) -> None:
    record = about(alice, ORDERS)
    outage(True)
    services.revise(alice, Revise(record_id=record.pk, entity_urns=[ORDERS, REFUNDS]))
    outage(False)
    assert stale_detection.check_all_entities(10).baselines_taken == 1
    deprecate(REFUNDS)
    assert state(record)[0] == Status.STALE


def test_the_baseline_of_a_verification_is_taken_after_an_outage(
    small_catalog: None, alice: Caller, outage: Callable[[bool], None]
) -> None:
    record = about(alice, ORDERS)
    deprecate()
    outage(True)
    services.verify(alice, Verify(record_id=record.pk))
    outage(False)
    stale_detection.check_entities([ORDERS])  # an event that arrives before the scheduled check
    assert state(record) == (Status.ACTIVE, "")
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.ACTIVE, "")
    reinstate()
    deprecate()
    assert state(record) == (Status.ACTIVE, "")  # verified when the entity was deprecated


def test_a_memory_restored_in_an_outage_is_compared_afterwards(
    small_catalog: None, alice: Caller, outage: Callable[[bool], None]
) -> None:
    record = about(alice, ORDERS)
    services.forget(alice, Forget(record_id=record.pk))
    deprecate()
    stale_detection.check_all_entities(10)
    outage(True)
    services.restore(alice, Restore(record_id=record.pk))
    outage(False)
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.STALE, DEPRECATED)


# -- edits ---------------------------------------------------------------------------------------------------------


def test_an_edit_of_the_tags_leaves_a_memory_stale(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    revised = services.revise(alice, Revise(record_id=record.pk, tags=["orders"], summary="late"))
    assert (revised.status, revised.stale_reason) == (Status.STALE, DEPRECATED)


def test_another_entity_leaves_the_baselines_of_the_others(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    revised = services.revise(alice, Revise(record_id=record.pk, entity_urns=[ORDERS, REFUNDS]))
    assert (revised.status, revised.stale_reason) == (Status.STALE, DEPRECATED)


def test_a_memory_that_no_longer_refers_to_the_deprecated_entity_is_active(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS, REFUNDS)
    deprecate()
    revised = services.revise(alice, Revise(record_id=record.pk, entity_urns=[REFUNDS, MART]))
    assert revised.status == Status.ACTIVE
    assert set(EntityBaseline.objects.values_list("urn", flat=True)) == {REFUNDS, MART}


def test_a_change_during_the_comparison_wins_and_is_compared_next_time(
    small_catalog: None, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = about(alice, ORDERS)
    put(ORDERS, "deprecation", DEPRECATION)
    compare = stale_detection.compare

    def revise_then_compare(*args: Any) -> None:
        rows = stale_detection._baselines_of

        def loaded(records: Any) -> Any:
            monkeypatch.setattr(stale_detection, "_baselines_of", rows)
            services.revise(alice, Revise(record_id=record.pk, tags=["late"]))
            return rows(records)

        monkeypatch.setattr(stale_detection, "_baselines_of", loaded)
        compare(*args)

    monkeypatch.setattr(stale_detection, "compare", revise_then_compare)
    stale_detection.check_entities([ORDERS])
    assert state(record)[0] == Status.ACTIVE
    monkeypatch.setattr(stale_detection, "compare", compare)
    stale_detection.check_all_entities(10)
    assert state(record) == (Status.STALE, DEPRECATED)


# -- columns that the text names -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "removed", "is_stale"),
    [
        ("Rows with is_test = true are training tills.", "is_test", True),
        ("Filter on isTest before counting.", "isTest", True),
        ("Use amount2 rather than the older figure.", "amount2", True),
        ("Filter by `status` before counting.", "status", True),
        ("Only `status = 7` was returned.", "status", True),
        ("The field orders.status is 7 for returns.", "status", True),
        ("The field sales.orders.date is local time.", "date", True),
        ("The name of a customer is on the order.", "name", False),
        ("The date is the day of the order.", "date", False),
        ("Status 7 means that it was returned.", "status", False),
        ("The refunds.status is kept elsewhere.", "status", False),
        ("Returned goods have the day of return in `name`.", "date", False),
    ],
)
def test_only_an_unmistakably_named_column_makes_a_memory_stale_when_it_is_removed(
    small_catalog: None, alice: Caller, text: str, removed: str, is_stale: bool
) -> None:
    names = ["is_test", "isTest", "amount2", "status", "date", "name"]
    put(ORDERS, "schemaMetadata", schema_of("x", [column(name) for name in names]))
    record = about(alice, ORDERS, text=text)
    put(ORDERS, "schemaMetadata", schema_of("x", [column(name) for name in names if name != removed]))
    stale_detection.check_entities([ORDERS])
    expected = (Status.STALE, f"sales.orders: the column {removed} was removed") if is_stale else (Status.ACTIVE, "")
    assert state(record) == expected


def test_a_column_of_two_tables_must_be_named_with_its_table(small_catalog: None, alice: Caller) -> None:
    for urn in (ORDERS, REFUNDS):
        put(urn, "schemaMetadata", schema_of("x", [column("is_test"), column("day")]))
    unclear = about(alice, ORDERS, REFUNDS, text="Rows with is_test are training tills.")
    clear = about(alice, ORDERS, REFUNDS, text="In orders.is_test, training tills have true.")
    put(ORDERS, "schemaMetadata", schema_of("x", [column("day")]))
    stale_detection.check_entities([ORDERS])
    assert (state(unclear)[0], state(clear)[0]) == (Status.ACTIVE, Status.STALE)


@pytest.mark.parametrize("kind", ["NUMBER", "VARCHAR"])
def test_a_named_column_that_changes_only_adds_a_hint(small_catalog: None, alice: Caller, kind: str) -> None:
    put(ORDERS, "schemaMetadata", schema_of("x", [column("is_test", "BOOLEAN")]))
    record = about(alice, ORDERS, text="Rows with is_test are training tills.")
    put(ORDERS, "schemaMetadata", schema_of("x", [column("is_test", kind)]))
    stale_detection.check_entities([ORDERS])
    assert state(record)[0] == Status.ACTIVE
    assert "is_test changed its type" in stale_detection.hints([record.pk])[record.pk]


def test_a_correction_of_a_stale_memory_starts_with_a_baseline_of_its_own(small_catalog: None, alice: Caller) -> None:
    record = about(alice, ORDERS)
    deprecate()
    new = services.supersede(alice, Supersede(record_id=record.pk, content="Orders were moved.")).record
    assert state(new) == (Status.ACTIVE, "")
    services.forget(alice, Forget(record_id=new.pk))
    services.restore(alice, Restore(record_id=record.pk))
    assert state(record) == (Status.STALE, DEPRECATED)


def test_removed_entities_come_back(small_catalog: None, alice: Caller) -> None:
    both = about(alice, ORDERS, REFUNDS)
    for removed in (True, False):
        LocalCatalog().write(Write(ORDERS, "status", ("removed",), "add", removed), WriteRun("x", "x"))
        stale_detection.check_all_entities(10)
        assert state(both)[0] == (Status.STALE if removed else Status.ACTIVE)

"""Checks: statements that prove memories, run with the rights of their authors, and what their results change."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.db.models import F
from django.utils import timezone

from analysis import tasks
from analysis.checks import running
from analysis.checks import services as checks
from analysis.checks.operations import AddCheck, EditCheck, RemoveCheck, RunCheck, TryCheck
from analysis.checks.queries import checks_for
from analysis.models import CheckState, DeclaredSource, MemoryCheck
from foundation.database.identity import service
from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, LimitReached, NotFound
from foundation.people.caller import WIPE, Caller
from foundation.people.models import PersonaMembership
from knowledge.catalog.embedded import LocalCatalog
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.review import decisions
from memories import services
from memories.conversation.operations import Wipe
from memories.conversation.wipe import request_wipe
from memories.mcp_tools import memory_manage, memory_recall
from memories.models import Impression, MemoryRecord, Status
from memories.operations import Erase, Forget, Remember, Restore, Revise, Supersede, Verify
from memories.writing import erasure, hand_overs, staleness
from memories.writing.undo import undo

pytestmark = pytest.mark.django_db
CLAIM = "The orders of the shop number exactly five hundred."
COUNT = {"sql": "SELECT count(*) FROM sales.orders", "expects": "equals", "value": 500}


def change_data(folder: Path, sql: str) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as file:
        file.execute(sql)


def run_all(*, minutes: int = 0) -> None:
    """Run every check as the schedule does, `minutes` after its last failure."""
    with service("checks"):
        MemoryCheck.objects.update(next_run_at=timezone.now())
        MemoryCheck.objects.update(failed_at=F("failed_at") - timedelta(minutes=minutes))
    tasks.run_due_checks()


@pytest.fixture
def checked(alice: Caller, warehouse: DeclaredSource) -> MemoryRecord:
    return services.remember(alice, Remember(content=CLAIM, check=COUNT)).record


def only_check(record: MemoryRecord) -> MemoryCheck:
    return MemoryCheck.objects.get(record=record)


def add(caller: Caller, record: MemoryRecord, **values: Any) -> MemoryCheck:
    return checks.add_check(caller, AddCheck.read({"record_id": record.pk, **values}))


# -- the story ---------------------------------------------------------------------------------------------


def test_a_claim_that_turns_false_is_refuted_by_its_check_and_its_correction_proven(
    alice: Caller, ada: Caller, bob: Caller, warehouse: DeclaredSource, tmp_path: Path
) -> None:
    captured = capture(alice, Capture(insight_text=CLAIM, category="business_context", check=COUNT))
    assert ": passed" in captured.note
    insight = decisions.approve(ada, insight_id=captured.insight.pk)
    recalled = memory_recall(bob, query=CLAIM)
    assert [hit["check"] for hit in recalled.data["memories"]] == ["passed just now"]
    assert "its check passed just now" in recalled.text

    change_data(tmp_path, "DELETE FROM sales.orders WHERE id >= 498")
    run_all()
    record = insight.record
    record.refresh_from_db()
    assert (record.status, only_check(record).failures) == (Status.ACTIVE, 1)
    run_all()  # at once: whatever disturbed the first run may disturb this one, too
    record.refresh_from_db()
    assert record.status == Status.ACTIVE
    run_all(minutes=6)
    record.refresh_from_db()
    assert record.status == Status.STALE
    assert record.stale_reason.count("returned another value at") == 2
    assert "498" not in record.stale_reason  # readers of the memory need not be readers of the source

    corrected = services.supersede(
        ada,
        Supersede.read({"record_id": record.pk, "content": "The orders number 498.", "check": {**COUNT, "value": 498}}),
    )
    new = corrected.record
    assert (only_check(new).state, only_check(new).author) == (CheckState.PASSED, ada.email)
    run_all(minutes=60)
    new.refresh_from_db()
    assert (new.status, only_check(new).state) == (Status.ACTIVE, CheckState.PASSED)


# -- what is refused ---------------------------------------------------------------------------------------


BAD_CHECKS: list[tuple[dict[str, Any], str]] = [
    ({"sql": "DROP TABLE sales.orders", "expects": "empty"}, "check.sql: writes"),
    ({"sql": "SELECT nonsense", "expects": "empty"}, "nonsense"),
    ({"sql": "SELECT * FROM sales.orders", "expects": "equals", "value": 1}, "check.sql: returned several values"),
    ({"sql": "SELECT * FROM range(2000000)", "expects": "same"}, "too large"),
    ({**COUNT, "source": "other"}, "check.source: 'other' is unknown"),
    ({"sql": "SELECT 1", "expects": "equals"}, "check.value: is missing"),
    ({"sql": "SELECT 1", "expects": "between", "low": 3, "high": 2}, "check.high: is less than low"),
    ({"sql": "SELECT 1", "expects": "between", "low": 3}, "check.high: is missing"),
    ({"sql": "SELECT 1", "expects": "at_least", "value": "much"}, "check.value"),
    ({"sql": "SELECT 1", "expects": "empty", "value": 3}, "check.value: is not used by empty"),
    ({"sql": "SELECT 1", "expects": "like"}, "check.expects: 'like' is unknown"),
    ({"expects": "empty"}, "check.sql: is missing"),
    ({"call": "last", "expects": "empty"}, "check.call: no such call"),
    ({**COUNT, "author": "ada@example.org"}, "check.author: is unknown"),
]


def test_a_bad_check_is_refused_and_nothing_is_stored(alice: Caller, warehouse: DeclaredSource) -> None:
    messages = []
    for check, _ in BAD_CHECKS:
        with pytest.raises(DomainError) as refused:
            services.remember(alice, Remember(content=CLAIM, check=check))
        messages.append(refused.value.message)
    missing = [
        (message, error) for message, (_, error) in zip(messages, BAD_CHECKS, strict=True) if error not in message
    ]
    assert missing == []
    assert not MemoryRecord.objects.exists()
    assert not MemoryCheck.objects.exists()


def test_a_source_of_others_is_refused_like_one_that_does_not_exist(olga: Caller, warehouse: DeclaredSource) -> None:
    messages = []
    for source in ("shop", "shoq"):
        with pytest.raises(Invalid) as refused:
            services.remember(olga, Remember(content=CLAIM, check={**COUNT, "source": source}))
        messages.append(refused.value.message.replace("shoq", "shop"))
    assert messages[0] == messages[1]


def test_a_statement_that_takes_too_long_is_refused(alice: Caller, warehouse: DeclaredSource, settings: Any) -> None:
    settings.CHECK_TIMEOUT_S = 0.3
    slow = {"sql": "SELECT count(*) FROM range(3000000) a, range(3000000) b", "expects": "equals", "value": 1}
    with pytest.raises(LimitReached, match=r"longer than 0\.3 s"):
        services.remember(alice, Remember(content=CLAIM, check=slow))
    assert not MemoryRecord.objects.exists()


def test_only_those_who_may_edit_a_memory_change_its_checks(
    alice: Caller, bob: Caller, olga: Caller, ada: Caller, checked: MemoryRecord
) -> None:
    check = only_check(checked)
    place: dict[str, Any] = {"record_id": checked.pk, "check_id": check.pk}
    for caller, refusal in ((bob, Forbidden), (olga, NotFound)):
        with pytest.raises(refusal):
            add(caller, checked, sql="SELECT 1", expects="not_empty")
        with pytest.raises(refusal):
            checks.edit_check(caller, EditCheck(**place, expects="not_empty"))
        with pytest.raises(refusal):
            checks.remove_check(caller, RemoveCheck(**place))
        with pytest.raises(refusal):
            checks.run_check(caller, RunCheck(**place))
    for _ in range(4):
        add(alice, checked, sql="SELECT 1", expects="not_empty")
    with pytest.raises(LimitReached, match="5 checks, the most there may be"):
        add(alice, checked, sql="SELECT 1", expects="not_empty")
    other = services.remember(alice, Remember(content="Another fact of the shop.")).record
    with pytest.raises(NotFound):
        checks.remove_check(alice, RemoveCheck(record_id=other.pk, check_id=check.pk))
    assert checks.run_check(ada, RunCheck(**place)).state == CheckState.PASSED


def test_checks_of_an_approved_insight_are_changed_by_another_curator(
    alice: Caller, ada: Caller, warehouse: DeclaredSource
) -> None:
    insight = capture(alice, Capture(insight_text=CLAIM, category="business_context", check=COUNT)).insight
    decisions.approve(ada, insight_id=insight.pk)
    check = only_check(insight.record)
    with pytest.raises(Forbidden, match="only another curator"):
        checks.remove_check(alice, RemoveCheck(record_id=insight.pk, check_id=check.pk))
    checks.edit_check(ada, EditCheck(record_id=insight.pk, check_id=check.pk, value=499))
    check.refresh_from_db()
    assert (check.author, check.value, check.state) == (ada.email, 499, CheckState.FAILED)


# -- who sees what -----------------------------------------------------------------------------------------


def test_values_and_statements_are_for_readers_of_the_source(
    alice: Caller, olga: Caller, checked: MemoryRecord
) -> None:
    services.revise(alice, Revise(record_id=checked.pk, visibility="everyone"))
    own, others = (checks_for(caller, [checked.pk])[checked.pk].views[0] for caller in (alice, olga))
    assert (own.is_open, own.detail, own.check.state) == (True, "500", CheckState.PASSED)
    assert (others.is_open, others.detail, others.check.state) == (False, "", CheckState.PASSED)
    assert others.runs[0]["detail"] == ""


def test_a_check_of_an_admin_tells_the_owner_no_values(olga: Caller, ada: Caller, warehouse: DeclaredSource) -> None:
    record = services.remember(olga, Remember(content=CLAIM)).record
    check = add(ada, record, sql="SELECT count(*) FROM sales.orders", expects="equals", value=7)
    message = memory_manage(olga, "update", id=record.pk.hex, check={"id": check.pk.hex, "run": True})["message"]
    assert message.endswith(": returned another value")
    with pytest.raises(Forbidden, match="may not read"):
        checks.edit_check(olga, EditCheck(record_id=record.pk, check_id=check.pk, value=8))
    shown = memory_manage(olga, "get", id=record.pk.hex)["checks"][0]
    assert not {"sql", "value", "returned"} & {*shown, *shown["results"][0]}
    checks.remove_check(olga, RemoveCheck(record_id=record.pk, check_id=check.pk))


# -- runs --------------------------------------------------------------------------------------------------


def test_a_check_that_cannot_run_is_told_apart_and_never_makes_the_memory_stale(
    alice: Caller, checked: MemoryRecord, warehouse: DeclaredSource, tmp_path: Path, settings: Any
) -> None:
    def code_of_two_runs() -> str:
        run_all()
        run_all(minutes=60)
        checked.refresh_from_db()
        check = only_check(checked)
        assert (checked.status, check.state, check.failures) == (Status.ACTIVE, CheckState.CANNOT_RUN, 0)
        return str(check.last_run["code"])

    PersonaMembership.objects.filter(user__email=alice.email).update(persona_id=other_persona())
    assert code_of_two_runs() == "not_permitted"
    PersonaMembership.objects.filter(user__email=alice.email).update(persona_id=persona("sales"))
    DeclaredSource.objects.filter(pk=warehouse.pk).update(is_enabled=False)
    assert code_of_two_runs() == "not_permitted"
    DeclaredSource.objects.filter(pk=warehouse.pk).update(is_enabled=True)
    change_data(tmp_path, "ALTER TABLE sales.orders RENAME TO old_orders")
    assert code_of_two_runs() == "source_error"
    change_data(tmp_path, "ALTER TABLE sales.old_orders RENAME TO orders")
    settings.CHECKS_PER_SOURCE_PER_DAY = 1
    assert code_of_two_runs() == "daily_limit"
    settings.CHECKS_PER_SOURCE_PER_DAY = 500
    run_all()
    assert only_check(checked).state == CheckState.PASSED


def persona(name: str) -> int:
    from foundation.people.models import Persona

    return Persona.objects.get(name=name).pk


def other_persona() -> int:
    return persona("supply")


def make_stale(record: MemoryRecord, folder: Path) -> None:
    change_data(folder, "DELETE FROM sales.orders WHERE id = 499")
    run_all()
    run_all(minutes=6)
    record.refresh_from_db()
    assert record.status == Status.STALE


def repair(folder: Path) -> None:
    change_data(folder, "INSERT INTO sales.orders VALUES (499, 1)")


def test_a_memory_is_fresh_again_when_its_check_passes_only_if_the_check_alone_made_it_stale(
    alice: Caller, bob: Caller, checked: MemoryRecord, tmp_path: Path
) -> None:
    make_stale(checked, tmp_path)
    repair(tmp_path)
    run_all()
    checked.refresh_from_db()
    assert (checked.status, checked.stale_reason) == (Status.ACTIVE, "")

    watcher = replace(running.CHECKER, email="watcher")
    services.mark_stale(watcher, record_id=checked.pk, reason="orders was deprecated")
    run_all()
    checked.refresh_from_db()
    assert checked.stale_reason == "orders was deprecated"  # although the check passes
    change_data(tmp_path, "DELETE FROM sales.orders WHERE id = 499")
    run_all()
    run_all(minutes=6)
    staleness.mark_fresh(watcher, record_id=checked.pk, reason="the change in the catalog was reverted")
    checked.refresh_from_db()
    assert checked.status == Status.STALE
    assert "its check in shop failed twice" in checked.stale_reason
    repair(tmp_path)
    run_all()
    checked.refresh_from_db()
    assert checked.status == Status.ACTIVE


def test_a_persons_decision_counts_failures_anew(alice: Caller, checked: MemoryRecord, tmp_path: Path) -> None:
    make_stale(checked, tmp_path)
    services.verify(alice, Verify(record_id=checked.pk))
    assert only_check(checked).failures == 0
    run_all()
    checked.refresh_from_db()
    assert (checked.status, only_check(checked).failures) == (Status.ACTIVE, 1)
    services.restore(alice, Restore(record_id=services.forget(alice, Forget(record_id=checked.pk)).pk))
    run_all(minutes=6)
    checked.refresh_from_db()
    assert checked.status == Status.STALE
    services.restore(alice, Restore(record_id=checked.pk))
    assert only_check(checked).failures == 0
    undo(alice, record_id=checked.pk, change="restore")
    repair(tmp_path)
    run_all()
    checked.refresh_from_db()
    assert checked.status == Status.ACTIVE


def test_a_corrected_check_that_passes_makes_the_memory_active(
    alice: Caller, checked: MemoryRecord, tmp_path: Path
) -> None:
    make_stale(checked, tmp_path)
    check = only_check(checked)
    checks.edit_check(alice, EditCheck(record_id=checked.pk, check_id=check.pk, value=499))
    checked.refresh_from_db()
    assert checked.status == Status.ACTIVE


def test_the_result_when_captured_is_compared_whatever_the_order(
    alice: Caller, warehouse: DeclaredSource, tmp_path: Path, fact: MemoryRecord
) -> None:
    add(alice, fact, sql="SELECT * FROM sales.orders WHERE id < 3", expects="same")
    assert "3 rows" in only_check(fact).captured
    change_data(tmp_path, "CREATE OR REPLACE TABLE sales.orders AS SELECT * FROM sales.orders ORDER BY id DESC")
    run_all()
    assert only_check(fact).state == CheckState.PASSED
    change_data(tmp_path, "UPDATE sales.orders SET amount = 7 WHERE id = 2")
    run_all()
    assert only_check(fact).last_run["code"] == "other_result"


EXPECTATIONS: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT max(amount) FROM sales.orders", {"expects": "equals", "value": 748.5}, "passed"),
    ("SELECT max(amount) FROM sales.orders", {"expects": "equals", "value": "748.50"}, "passed"),
    ("SELECT 0.1::DOUBLE + 0.2::DOUBLE", {"expects": "equals", "value": 0.3}, "passed"),
    ("SELECT true", {"expects": "equals", "value": True}, "passed"),
    ("SELECT 'A'", {"expects": "equals", "value": "a"}, "other_value"),
    ("SELECT DATE '2026-03-01'", {"expects": "between", "low": "2026-01-01", "high": "2026-03-01"}, "passed"),
    ("SELECT 4", {"expects": "between", "low": 5, "high": 6}, "outside"),
    ("SELECT 4", {"expects": "at_least", "value": 5}, "smaller"),
    ("SELECT NULL", {"expects": "at_least", "value": 5}, "no_value"),
    ("SELECT id FROM sales.orders WHERE id < 0", {"expects": "equals", "value": 5}, "no_row"),
    ("SELECT id FROM sales.orders WHERE id < 0", {"expects": "empty"}, "passed"),
    ("SELECT id FROM sales.orders", {"expects": "empty"}, "rows"),
    ("SELECT id FROM sales.orders WHERE id < 0", {"expects": "not_empty"}, "no_row"),
]


def test_expectations(alice: Caller, warehouse: DeclaredSource) -> None:
    operations = [TryCheck.read({"sql": sql, **expectation}) for sql, expectation, _ in EXPECTATIONS]
    codes = [checks.try_check(alice, operation).trial.outcome.code for operation in operations]
    assert codes == [code for *_, code in EXPECTATIONS]


# -- with the life of the memory ---------------------------------------------------------------------------


def test_a_correction_takes_over_the_checks_only_if_its_author_says_so(alice: Caller, checked: MemoryRecord) -> None:
    first = services.supersede(alice, Supersede(record_id=checked.pk, content="The orders are counted.")).record
    assert not MemoryCheck.objects.filter(record=first).exists()
    with pytest.raises(Conflict):
        add(alice, checked, sql="SELECT 1", expects="not_empty")  # it is superseded
    other = services.remember(alice, Remember(content=CLAIM, check=COUNT)).record
    kept = services.supersede(
        alice, Supersede(record_id=other.pk, content="There are 500 orders in all.", keep_checks=True)
    ).record
    run_all()
    assert (only_check(kept).state, only_check(kept).author) == (CheckState.PASSED, alice.email)


def test_an_heir_needs_the_rights_to_the_source(
    alice: Caller, ada: Caller, olga: Caller, bob: Caller, checked: MemoryRecord
) -> None:
    hand_overs.hand_over(ada, old=alice.email, new=olga.email)
    run_all()
    check = only_check(checked)
    assert (check.author, check.last_run["code"]) == (olga.email, "not_permitted")
    hand_overs.hand_over(ada, old=olga.email, new=bob.email)
    run_all()
    assert only_check(checked).state == CheckState.PASSED


def test_the_tools_add_run_and_remove_checks(alice: Caller, fact: MemoryRecord, warehouse: DeclaredSource) -> None:
    def update(**check: Any) -> str:
        return str(memory_manage(alice, "update", id=fact.pk.hex, check=check)["message"])

    assert update(**COUNT, source="shop").endswith(": passed")
    check_id = only_check(fact).pk.hex
    assert update(id=check_id, value=7).endswith(": returned another value (500)")
    assert update(id=check_id, run=True) == f"check {check_id}: returned another value (500)"
    assert update(id=check_id, remove=True) == "the check was removed"
    assert not MemoryCheck.objects.exists()


def test_checks_run_more_often_the_more_a_memory_is_used(alice: Caller, checked: MemoryRecord) -> None:
    def days_until_next_run() -> int:
        run_all()
        return (only_check(checked).next_run_at - timezone.now()).days

    assert days_until_next_run() == 7
    now = timezone.now()
    MemoryRecord.objects.filter(pk=checked.pk).update(created_at=now - timedelta(days=100))
    assert days_until_next_run() in (30, 31, 32)
    Impression.objects.create(record=checked, connection="c", to=alice.email, tool="query_sql", version="1")
    assert days_until_next_run() == 1
    with service("checks"):
        MemoryCheck.objects.update(next_run_at=now + timedelta(days=20), checked_at=now - timedelta(days=2))
    assert running.due_checks(10) == [only_check(checked).pk]  # it is used again
    services.forget(alice, Forget(record_id=checked.pk))
    assert running.due_checks(10) == []


def test_a_change_of_the_catalog_makes_the_checks_about_it_due(alice: Caller, checked: MemoryRecord) -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:duckdb,shop.sales.orders,PROD)"
    services.revise(alice, Revise(record_id=checked.pk, entity_urns=[urn]))
    assert running.due_checks(10) == []
    LocalCatalog().put(urn, "status", {"removed": False}, {})
    assert running.due_checks(10) == [only_check(checked).pk]


def test_checks_are_erased_and_wiped_with_the_memory_and_its_author(
    alice: Caller, ada: Caller, checked: MemoryRecord, fact: MemoryRecord
) -> None:
    erasure.erase(alice, Erase(record_id=checked.pk, confirm=True))
    assert not MemoryCheck.objects.exists()
    add(ada, fact, sql="SELECT 1", expects="not_empty")  # an admin's check of Alice's memory
    request_wipe(replace(ada, rights=ada.rights | {WIPE}), Wipe(user_id=ada.email, confirm=True))
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()
    assert not MemoryCheck.objects.exists()

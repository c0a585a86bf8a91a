"""Applying and rolling back changesets during concurrent writes, and with a catalog that fails half-way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.catalog.current import get_catalog
from knowledge.catalog.interface import Catalog, CatalogUnavailable, Write, WriteRun
from knowledge.changesets import delivery, rollback
from knowledge.changesets.apply import apply as apply_changes
from knowledge.changesets.apply import resume
from knowledge.models import Changeset, ChangesetState, Insight, InsightState
from knowledge.operations import Apply
from tests.fake_datahub import Faults, Handler
from tests.knowledge.changeset_examples import CASES, TAG, apply, approved, change, snapshot
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db


# -- concurrent writes ---------------------------------------------------------------------------------------


def test_a_roll_back_stops_if_others_changed_a_value(lived_in: Catalog, alice: Caller, cora: Caller) -> None:
    result = apply(alice, cora, CASES["update_description"], CASES["add_tag"])
    lived_in.write(
        Write(ORDERS, "editableDatasetProperties", ("description",), "add", "Mine now."), WriteRun("ui", "x")
    )
    preview = rollback.roll_back_preview(cora, changeset_id=result.changeset.pk)
    assert {undo.change.aspect: undo.is_ours for undo in preview.undos} == {
        "globalTags": True,
        "editableDatasetProperties": False,
    }
    with pytest.raises(Conflict, match="description"):
        rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert TAG in snapshot()
    rolled_back = rollback.roll_back(cora, changeset_id=result.changeset.pk, skip_conflicts=True)
    assert [row.aspect for row in rolled_back.conflicts] == ["editableDatasetProperties"]
    assert TAG not in snapshot()
    assert "Mine now." in snapshot()


def test_a_roll_back_keeps_elements_that_others_added(lived_in: Catalog, alice: Caller, cora: Caller) -> None:
    result = apply(alice, cora, CASES["add_tag"])
    lived_in.write(
        Write(ORDERS, "globalTags", ("tags", "urn:li:tag:ui"), "add", {"tag": "urn:li:tag:ui"}), WriteRun("ui", "x")
    )
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert "urn:li:tag:ui" in snapshot()
    assert TAG not in snapshot()


def run_concurrently(count: int, action: Callable[[int], Any]) -> list[Any]:
    barrier, results = threading.Barrier(count), [None] * count

    def run(n: int) -> None:
        barrier.wait()
        try:
            results[n] = action(n)
        except Exception as error:
            results[n] = error  # type: ignore[call-overload]
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=[n]) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.django_db(transaction=True)
def test_if_two_curators_apply_at_once_one_gets_a_conflict(
    small_catalog: None, alice: Caller, ada: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    curators = [cora, ada]
    results = run_concurrently(
        2,
        lambda n: apply_changes(
            curators[n],
            Apply.read({"insight_ids": [insight.pk.hex], "changes": [CASES["add_tag"]], "entity_urn": ORDERS}),
        ),
    )
    assert sorted(type(result).__name__ for result in results) == ["Applied", "Conflict"]
    assert Changeset.objects.count() == 1


def test_twenty_concurrent_changesets_of_one_entity_lose_nothing(
    either_catalog: Catalog, alice: Caller, cora: Caller
) -> None:
    insights = [approved(alice, cora) for _ in range(20)]
    results = run_concurrently(
        20,
        lambda n: apply_changes(
            cora,
            Apply.read(
                {
                    "insight_ids": [insights[n].pk.hex],
                    "changes": [
                        change("add_tag", detail=f"t{n}"),
                        change("add_owner", "DATA_STEWARD", f"p{n}@example.org"),
                    ],
                    "entity_urn": ORDERS,
                }
            ),
        ),
    )
    assert [type(result).__name__ for result in results] == ["Applied"] * 20
    assert {result.changeset.state for result in results} == {ChangesetState.APPLIED}
    read = get_catalog().read([ORDERS], ["globalTags", "ownership"])[ORDERS]
    assert len((read["globalTags"].value or {})["tags"]) == 20
    assert len((read["ownership"].value or {})["owners"]) == 21


# -- a catalog that fails half-way -----------------------------------------------------------------------------


THREE_CHANGES = [CASES["add_tag"], CASES["update_description"], CASES["add_documentation"]]


def test_a_changeset_that_fails_half_way_is_partial_and_can_be_resumed(
    gms: Faults, alice: Caller, cora: Caller
) -> None:
    gms.after_writes, gms.write_status, gms.write_status_times = 1, 503, 50
    result = apply(alice, cora, *THREE_CHANGES)
    assert result.changeset.state == ChangesetState.PARTIAL
    assert [row.outcome for row in result.changes] == ["landed", "planned", "planned"]
    assert "503" in result.changeset.error
    assert Insight.objects.get().state == InsightState.APPROVED
    gms.write_status_times = 0
    resumed = resume(cora, changeset_id=result.changeset.pk)
    assert resumed.changeset.state == ChangesetState.APPLIED
    assert [row.outcome for row in resumed.changes] == ["landed"] * 3
    assert Insight.objects.get().state == InsightState.APPLIED


def test_a_partial_changeset_can_be_rolled_back(gms: Faults, alice: Caller, cora: Caller) -> None:
    before = snapshot()
    gms.after_writes, gms.write_status, gms.write_status_times = 2, 503, 50
    result = apply(alice, cora, *THREE_CHANGES)
    gms.write_status_times = 0
    rollback.roll_back(cora, changeset_id=result.changeset.pk)
    assert snapshot() == before
    assert Insight.objects.get().state == InsightState.PENDING


def test_insights_are_released_if_no_change_was_written(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.write_status, gms.write_status_times = 400, 50
    result = apply(alice, cora, *THREE_CHANGES)
    assert result.changeset.state == ChangesetState.FAILED
    insight = Insight.objects.get()
    assert (insight.state, insight.changeset) == (InsightState.APPROVED, None)


def test_a_write_whose_response_was_lost_is_not_repeated(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.drop_after_write = 2  # includes the retry of the SDK
    result = apply(alice, cora, CASES["add_tag"])
    assert result.changeset.state == ChangesetState.APPLIED
    assert Handler.store.version(ORDERS, "globalTags") == 1


def test_a_lagging_catalog_is_read_again(gms: Faults, alice: Caller, cora: Caller) -> None:
    gms.lagging_reads = 2
    assert apply(alice, cora, CASES["add_tag"]).changeset.state == ChangesetState.APPLIED
    gms.proposals.clear()
    gms.lagging_reads = 50
    result = apply(alice, cora, CASES["flag_quality_issue"])
    assert result.changeset.state == ChangesetState.PARTIAL
    gms.lagging_reads = 0
    assert resume(cora, changeset_id=result.changeset.pk).changeset.state == ChangesetState.APPLIED


@pytest.mark.parametrize("status", [412, 429])
def test_an_apply_can_be_repeated_after_a_version_conflict_or_a_busy_catalog(
    gms: Faults, alice: Caller, cora: Caller, status: int
) -> None:
    gms.write_status, gms.write_status_times = status, 1
    result = apply(alice, cora, CASES["set_domain"])
    if result.changeset.state != ChangesetState.APPLIED:
        assert result.changeset.state == ChangesetState.FAILED
        result = apply_changes(
            cora,
            Apply.read(
                {"insight_ids": result.changeset.insight_ids, "changes": [CASES["set_domain"]], "entity_urn": ORDERS}
            ),
        )
    assert result.changeset.state == ChangesetState.APPLIED


def test_a_changeset_killed_during_a_write_is_resumed(
    gms: Faults, alice: Caller, cora: Caller, monkeypatch: Any
) -> None:
    def killed(*args: Any) -> None:
        raise KeyboardInterrupt

    insight = approved(alice, cora)
    with monkeypatch.context() as patch:
        patch.setattr("knowledge.catalog.datahub.DataHubCatalog.write", killed)
        with pytest.raises(KeyboardInterrupt):
            apply_changes(
                cora,
                Apply.read({"insight_ids": [insight.pk.hex], "changes": THREE_CHANGES, "entity_urn": ORDERS}),
            )
    changeset = Changeset.objects.get()
    assert changeset.state == ChangesetState.PARTIAL
    assert [row.outcome for row in changeset.changes.all()] == ["sending", "planned", "planned"]
    # The first write of the killed process was in flight and reaches the catalog.
    get_catalog().write(Write(ORDERS, "globalTags", ("tags", TAG), "add", {"tag": TAG}), WriteRun("cs", "x"))
    resumed = resume(cora, changeset_id=changeset.pk)
    assert resumed.changeset.state == ChangesetState.APPLIED
    assert [row.outcome for row in resumed.changes] == ["landed"] * 3


def test_a_catalog_that_is_away_before_the_first_write_frees_the_insights(
    small_catalog: None, alice: Caller, cora: Caller, monkeypatch: Any
) -> None:
    def away(*args: Any) -> None:
        raise CatalogUnavailable("the catalog is away")

    monkeypatch.setattr(delivery, "value_now", away)
    result = apply(alice, cora, *THREE_CHANGES)
    assert (result.changeset.state, result.changeset.error) == (ChangesetState.FAILED, "the catalog is away")
    assert {row.outcome for row in result.changes} == {"planned"}
    insight = Insight.objects.get()
    assert (insight.state, insight.changeset) == (InsightState.APPROVED, None)

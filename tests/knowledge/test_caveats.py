"""Caveats follow the lineage of columns downstream until somebody waives them there."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.catalog.lineage_edges import column_pairs
from knowledge.context import caveat_waivers, caveats
from knowledge.context.attached_memories import attach_memories
from knowledge.models import CaveatWaiver, ColumnEdge
from knowledge.operations import Reinstate, Waive
from memories import services
from memories.models import MemoryRecord
from memories.operations import Forget, Revise, Verify
from memories.writing.erasure import erase_locked
from tests.knowledge.caveat_examples import BOARD, DAILY, TEXT, TILLS, caveat, chain, field, lineage
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put, schema_of, upstream

__all__ = ["chain"]  # fixtures


def shown(caller: Caller, sql: str) -> dict[str, str]:
    """Return what is attached to a statement: text → why."""
    block = attach_memories(caller, Call("query_sql", {"sql": sql}, {}))
    return {entry["content"]: entry["why"] for entry in block.data["memory_context"]} if block else {}


def waive(caller: Caller, record: MemoryRecord, urn: str) -> CaveatWaiver:
    operation = Waive.read({"waives": record.pk, "entity_urns": [urn], "insight_text": "It is in euros here."})
    return caveat_waivers.waive(caller, operation)


def reinstate(caller: Caller, record: MemoryRecord, urn: str) -> CaveatWaiver:
    return caveat_waivers.reinstate(caller, Reinstate.read({"reinstates": record.pk, "entity_urns": [urn]}))


# -- where caveats are shown ---------------------------------------------------------------------------------


def test_a_caveat_is_shown_two_steps_downstream_with_its_path(alice: Caller, bob: Caller) -> None:
    caveat(alice, "amount")
    path = "orders.amount → daily_revenue.revenue → board.revenue"
    assert shown(bob, "SELECT revenue FROM sales.board") == {TEXT: f"caveat from upstream: {path}"}
    assert shown(bob, "SELECT * FROM sales.board") == {TEXT: f"caveat from upstream: {path}"}
    assert shown(bob, "SELECT share FROM sales.board") == {}  # derived from another column
    assert shown(bob, "SELECT revenue FROM sales.tills") == {}  # three steps away


def test_a_caveat_about_a_whole_table_follows_each_of_its_columns(alice: Caller, bob: Caller) -> None:
    caveat(alice)
    assert shown(bob, "SELECT share FROM sales.board")[TEXT].endswith(": orders → daily_revenue → board")


def test_a_caveat_whose_text_names_a_column_is_about_this_column(alice: Caller, bob: Caller) -> None:
    put(ORDERS, "schemaMetadata", schema_of("sales.orders", [column("net_amount"), column("till_no")]))
    lineage(BOARD, {"revenue": [(ORDERS, "net_amount")], "till": [(ORDERS, "till_no")]})
    caveat(alice, text="In May, `net_amount` is in cents.")
    assert shown(bob, "SELECT till FROM sales.board") == {}
    assert "orders.net_amount → board.revenue" in str(shown(bob, "SELECT revenue FROM sales.board"))


def test_only_caveats_follow(alice: Caller, bob: Caller) -> None:
    caveat(alice, "amount", category="business_context")
    caveat(alice, "amount", text="Tagged: amounts are gross.", category="general", tags=["caveat"])
    assert set(shown(bob, "SELECT revenue FROM sales.board")) == {"Tagged: amounts are gross."}


def test_where_only_tables_are_known_a_caveat_goes_one_step(alice: Caller, bob: Caller) -> None:
    put(TILLS, "upstreamLineage", {"upstreams": [upstream(MART)]})  # mart is made from orders and refunds
    caveat(alice, "amount")
    reason = "caveat from upstream: orders → mart (the catalog knows no lineage of columns here)"
    assert shown(bob, "SELECT x FROM sales.mart") == {TEXT: reason}
    assert shown(bob, "SELECT revenue FROM sales.tills") == {}


def test_caveats_take_the_places_of_neighbors(alice: Caller, bob: Caller) -> None:
    for number in range(4):
        caveat(alice, "amount", text=f"Caveat number {number} about amounts.")
    assert len(shown(bob, "SELECT revenue FROM sales.board")) == 2


def test_a_caveat_reaches_only_those_to_whom_it_may_be_attached(alice: Caller, olga: Caller, ada: Caller) -> None:
    sql = "SELECT revenue FROM sales.board"
    caveat(alice, "amount", visibility="private", text="Private: amounts are wrong.")
    record = caveat(alice, "amount", visibility="everyone")
    assert shown(olga, sql) == {}  # nobody has verified it
    services.verify(ada, Verify(record_id=record.pk))
    assert set(shown(olga, sql)) == {TEXT}
    services.forget(alice, Forget(record_id=record.pk))
    assert shown(olga, sql) == {}


def test_column_edges_follow_the_aspects_of_tables_and_jobs() -> None:
    assert ColumnEdge.objects.filter(said_by=BOARD).count() == 2
    put(BOARD, "upstreamLineage", {"upstreams": [upstream(DAILY)]})
    assert not ColumnEdge.objects.filter(said_by=BOARD).exists()
    job = {"fineGrainedLineages": [{"upstreams": [field(ORDERS, "[version=2.0].[type=long].amount")],
                                    "downstreams": [field(BOARD, "revenue"), BOARD, "no urn"]}]}  # fmt: skip
    assert column_pairs({"dataJobInputOutput": job}) == {(BOARD, "revenue", ORDERS, "amount")}
    cycle = {"fineGrainedLineages": [{"upstreams": [field(BOARD, "a")], "downstreams": [field(BOARD, "a")]}]}
    assert column_pairs({"upstreamLineage": cycle}) == set()


def test_lineage_in_circles_ends() -> None:
    lineage(DAILY, {"revenue": [(BOARD, "revenue")]})
    assert {path.urns[0] for path in caveats.paths_to([BOARD])} == {DAILY}


# -- waivers -------------------------------------------------------------------------------------------------


def test_a_waived_caveat_is_not_shown_there_nor_beyond_until_that_is_undone(alice: Caller, bob: Caller) -> None:
    record = caveat(alice, "amount")
    waiver = waive(bob, record, field(DAILY, "revenue"))
    assert (waiver.by, waiver.column, waiver.reason) == (bob.email, "revenue", "It is in euros here.")
    assert shown(bob, "SELECT revenue FROM sales.daily_revenue") == {}
    assert shown(bob, "SELECT revenue FROM sales.board") == {}  # it would have to pass the column
    assert TEXT in shown(alice, "SELECT amount FROM sales.orders")  # nothing changes at the source
    with pytest.raises(Conflict, match="waived already"):
        waive(alice, record, field(DAILY, "revenue"))
    reinstate(alice, record, field(DAILY, "revenue"))
    assert TEXT in shown(bob, "SELECT revenue FROM sales.board")
    assert CaveatWaiver.objects.get().withdrawn_by == alice.email  # kept for whoever asks what happened
    with pytest.raises(NotFound, match="is not waived"):
        reinstate(alice, record, field(DAILY, "revenue"))


def test_a_waiver_for_an_entity_counts_for_all_its_columns_and_ends_with_the_text(alice: Caller, bob: Caller) -> None:
    record = caveat(alice)
    waive(alice, record, BOARD)
    assert shown(bob, "SELECT revenue, share FROM sales.board") == {}
    assert TEXT in shown(bob, "SELECT open FROM sales.daily_revenue")
    services.revise(alice, Revise(record_id=record.pk, content="Amounts before June are in cents."))
    assert set(shown(bob, "SELECT revenue FROM sales.board")) == {"Amounts before June are in cents."}


def test_who_may_waive(alice: Caller, bob: Caller, olga: Caller, cora: Caller) -> None:
    private = caveat(alice, "amount", visibility="private", text="Private: amounts are wrong.")
    with pytest.raises(NotFound):
        waive(bob, private, BOARD)
    record = caveat(alice, "amount", visibility="everyone")
    with pytest.raises(Forbidden, match="belongs to the persona sales"):
        waive(olga, record, BOARD)
    assert not CaveatWaiver.objects.exists()
    waive(cora, record, BOARD)
    with pytest.raises(Forbidden, match="waived by cora"):
        reinstate(bob, record, BOARD)
    with pytest.raises(Forbidden):
        reinstate(olga, record, BOARD)
    reinstate(alice, record, BOARD)


@pytest.mark.parametrize("urn", [ORDERS, REFUNDS, TILLS, field(BOARD, "share"), field(BOARD, "missing")])
def test_an_entity_that_the_caveat_does_not_reach_is_refused(alice: Caller, urn: str) -> None:
    with pytest.raises(Invalid, match="is not derived from what the caveat is about") as error:
        waive(alice, caveat(alice, "amount"), urn)
    assert error.value.field == "entity_urns"


def test_bad_input_is_refused(alice: Caller) -> None:
    fact = caveat(alice, "amount", category="general")
    with pytest.raises(Invalid, match="is no caveat"):
        waive(alice, fact, BOARD)
    wrong: list[dict[str, Any]] = [{"entity_urns": [BOARD, DAILY]}, {"entity_urns": []}, {"insight_text": ""}]
    for values in wrong:
        good = {"waives": fact.pk, "entity_urns": [BOARD], "insight_text": "It is right here."}
        with pytest.raises(Invalid):
            Waive.read({**good, **values})


def test_erasing_the_caveat_erases_its_waivers(alice: Caller) -> None:
    record = caveat(alice, "amount")
    waive(alice, record, BOARD)
    erase_locked(alice, record, None)
    assert not CaveatWaiver.objects.exists()

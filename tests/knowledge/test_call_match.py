"""Memories that no link connects with a call, but words and meaning do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from foundation import embedding
from foundation.people.caller import Caller, system_caller
from foundation.tools.declaration import Call
from knowledge.context import call_match
from knowledge.context.attached_memories import attach_memories
from knowledge.context.call_match import MAX_ATTACHED, Profile, evidence_in, profile_of
from knowledge.entities.call_subject import CallSubject
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.models import MemoryRecord
from memories.operations import MarkFeedback, Remember, Verify
from memories.writing import feedback
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put, schema_of

pytestmark = pytest.mark.usefixtures("small_catalog")
TRAP = "rows flagged is_test are training tills of the orders table"


def remember(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": text, **fields})).record


@pytest.fixture(autouse=True)
def training_tills(small_catalog: None) -> None:
    put(ORDERS, "schemaMetadata", schema_of("sales.orders", [column("status"), column("is_test"), column("store_id")]))


def attached(caller: Caller, sql: str) -> dict[str, str]:
    block = attach_memories(caller, Call("query_sql", {"sql": sql}, {}))
    return {entry["content"]: entry["why"] for entry in block.data["memory_context"]} if block else {}


@pytest.mark.parametrize(
    ("text", "sql", "why"),
    [
        (TRAP, "SELECT count(*) FROM sales.orders", "matches the statement: orders, is_test"),
        ("is_test marks training tills", "SELECT is_test FROM sales.orders", "matches the statement: is_test"),
        (
            "Orders with status 'cxl9' were never shipped",
            "SELECT 1 FROM sales.orders WHERE status = 'cxl9'",
            "matches the statement: orders, cxl9, status",
        ),
        (
            "SUMMER10 leaked on a coupon site",
            "SELECT 1 FROM sales.promotions WHERE code = 'SUMMER10'",
            "matches the statement: SUMMER10",
        ),
        (
            "till_no 900 of the receipts is broken",  # the catalog does not have this table
            "SELECT till_no FROM pos.receipts",
            "matches the statement: receipts, till_no",
        ),
    ],
)
def test_memories_that_match_a_statement_are_attached_with_the_reason(
    alice: Caller, bob: Caller, olga: Caller, text: str, sql: str, why: str
) -> None:
    remember(alice, text)
    assert attached(bob, sql) == {text: why}
    assert attached(olga, sql) == {}


@pytest.mark.parametrize(
    "sql",
    ["SELECT refund_id FROM sales.refunds", "SELECT name FROM hr.employees", "SELECT 1", "SHOW TABLES", "SELECT +/ 1"],
)
def test_nothing_is_attached_to_an_unrelated_statement(alice: Caller, bob: Caller, sql: str) -> None:
    remember(alice, TRAP)
    remember(alice, "store_id 9001 to 9099 are training tills")
    assert attached(bob, sql) == {}


def test_an_entity_is_looked_up_with_its_columns(alice: Caller, bob: Caller) -> None:
    remember(alice, TRAP)
    block = attach_memories(bob, Call("catalog_entity", {"urn": ORDERS}, {}))
    assert block is not None
    assert block.data["memory_context"][0]["why"] == "matches the call: orders, is_test"


def test_the_rule_for_attached_memories_applies(alice: Caller, bob: Caller, olga: Caller, ada: Caller) -> None:
    sql = "SELECT is_test FROM sales.orders"
    wrong, shared = remember(alice, TRAP), remember(alice, "orders: is_test, store_id", visibility="everyone")
    remember(alice, "is_test of orders is mine alone", visibility="private")
    capture(alice, Capture.read({"insight_text": "is_test of orders awaits review", "category": "correction"}))
    feedback.mark(bob, MarkFeedback(record_id=wrong.pk, verdict="wrong"))
    assert set(attached(bob, sql)) == set()
    services.verify(ada, Verify(record_id=shared.pk))
    assert set(attached(olga, sql)) == {shared.content}
    stale = remember(alice, "is_test of orders changed")
    services.mark_stale(alice, record_id=stale.pk, reason="a column went")
    assert stale.content not in attached(alice, sql)


def test_if_there_are_too_many_memories_the_most_relevant_to_the_statement_come_first(
    alice: Caller, bob: Caller
) -> None:
    for number in range(MAX_ATTACHED):
        remember(alice, f"Fact {number}.......", entity_urns=[ORDERS])
    remember(alice, TRAP)
    reasons = list(attached(bob, "SELECT is_test FROM sales.orders").values())
    assert reasons == ["matches the statement: orders, is_test"] + ["about sales.orders"] * (MAX_ATTACHED - 1)


@pytest.mark.parametrize(
    ("text", "sql", "comes_first"),
    [
        ("Rows of the pilot store 77 are fake.", "SELECT count(*) FROM sales.orders", True),
        ("Joins multiply lines.", "SELECT 1 FROM sales.orders JOIN sales.refunds USING (order_id)", True),
        ("Joins multiply lines.", "SELECT count(*) FROM sales.orders", False),
        ("status 'void' means reopened.", "SELECT 1 FROM sales.orders WHERE status = 'void'", True),
        ("status 'void' means reopened.", "SELECT 1 FROM sales.orders WHERE store_id = 'x12'", False),
    ],
)
def test_of_too_many_memories_about_a_table_the_statement_chooses(
    alice: Caller, bob: Caller, text: str, sql: str, comes_first: bool
) -> None:
    for number in range(MAX_ATTACHED + 1):
        remember(alice, f"Fact {number}.......", entity_urns=[ORDERS])
    remember(alice, text, entity_urns=[ORDERS])
    assert (next(iter(attached(bob, sql))) == text) == comes_first


def test_a_stale_memory_without_a_link_is_counted_for_those_who_may_read_it(
    alice: Caller, bob: Caller, olga: Caller
) -> None:
    record = remember(alice, TRAP)
    services.mark_stale(system_caller(), record_id=record.pk, reason="is_test was renamed")
    call = Call("query_sql", {"sql": "SELECT count(*) FROM sales.orders"}, {})
    block = attach_memories(bob, call)
    assert block is not None
    assert (block.data["memory_context"], block.data["not_shown"]["stale"]) == ([], 1)
    assert attach_memories(olga, call) is None


def test_words_that_many_memories_share_with_a_statement_point_to_none(alice: Caller, bob: Caller) -> None:
    sql = "SELECT carrier FROM supply.shipments WHERE grade = 'Harvester'"
    for number in range(MAX_ATTACHED):
        remember(alice, f"The Harvester carrier was {number} days late.")
    assert len(attached(bob, sql)) == MAX_ATTACHED
    remember(alice, "The Harvester carrier was never late.")
    assert attached(bob, sql) == {}


def test_descriptions_of_the_catalog_are_compared_in_meaning() -> None:
    put(ORDERS, "datasetProperties", {"name": "orders", "description": "Baskets that were paid. " * 20})
    query = profile_of(CallSubject(requested=[ORDERS])).query
    assert "Baskets that were paid." in query
    assert len(query) < 2 * call_match.MAX_DESCRIPTION


def test_a_memory_about_another_entity_needs_more_than_one_without_a_link(alice: Caller, bob: Caller) -> None:
    visits = MART.replace("sales.mart", "web.visits")
    put(visits, "datasetProperties", {"name": "visits", "qualifiedName": "web.visits", "description": ""})
    remember(alice, "is_test marks training tills", entity_urns=[visits])
    assert attached(bob, "SELECT is_test FROM sales.orders") == {}
    remember(alice, "Refunds of orders have is_test", entity_urns=[REFUNDS])  # a neighbor, which has its own places
    assert "matches" not in str(attached(bob, "SELECT is_test FROM sales.mart"))


def test_without_a_model_words_are_compared_and_a_note_says_so(alice: Caller, bob: Caller, settings: Any) -> None:
    remember(alice, TRAP)
    settings.EMBEDDING_PROVIDER = "none"
    block = attach_memories(bob, Call("query_sql", {"sql": "SELECT count(*) FROM sales.orders"}, {}))
    assert block is not None
    assert [entry["content"] for entry in block.data["memory_context"]] == [TRAP]
    assert block.data["note"] == call_match.WORDS_ONLY


def test_a_slow_model_is_not_waited_for(
    alice: Caller, bob: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(alice, TRAP)
    settings.MEMORY_CONTEXT_MS, settings.EMBEDDING_PROVIDER = 1_500, "openai"
    released = threading.Event()
    monkeypatch.setattr(embedding, "embed_query", lambda *args, **options: released.wait(60))
    block = attach_memories(bob, Call("query_sql", {"sql": "SELECT count(*) FROM sales.orders"}, {}))
    released.set()
    assert block is not None
    assert ([entry["content"] for entry in block.data["memory_context"]], block.data["note"]) == (
        [TRAP],
        call_match.WORDS_ONLY,
    )


def test_identifiers_of_other_tables_count_against_a_match() -> None:
    profile = Profile(tables=["orders"], columns=["amount"], other_columns=["status"])
    assert evidence_in("the amount of orders, see carrier_code", profile).is_foreign
    assert not evidence_in("the amount of orders", profile).is_foreign
    unknown = Profile(tables=["orders"], columns=["amount"])  # its other columns are not known
    assert not evidence_in("the amount of orders, see carrier_code", unknown).is_foreign


def test_words_of_moments_and_ordinary_columns_are_no_evidence() -> None:
    profile = Profile(columns=["closed_at", "day", "net_revenue", "created_at"])
    evidence = evidence_in("Net revenue of a shop that closed that day, by created_at", profile)
    assert (evidence.words, evidence.identifiers) == (["net_revenue"], [])
    assert evidence_in("closed_at is local time", profile).identifiers == ["closed_at"]


@pytest.mark.parametrize("text", ["the search terms weren't lowercased", "search_terms are lower case since June"])
def test_the_name_of_a_table_counts_in_words_too(text: str) -> None:
    assert evidence_in(text, Profile(tables=["search_terms"])).has_exact_table
    assert not evidence_in("a term of the search", Profile(tables=["search_terms"])).has_exact_table

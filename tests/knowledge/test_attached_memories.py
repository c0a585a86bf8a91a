"""Memory context: which memories are attached to a response, for whom, how many and how often."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from analysis.models import DeclaredSource
from foundation.database import retention
from foundation.database.transaction_settings import limited
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from foundation.tools.declaration import Call
from knowledge.changesets.apply import apply
from knowledge.context import attached_memories
from knowledge.context.attached_memories import MAX_BYTES, MAX_TOTAL_BYTES, attach_memories
from knowledge.context.call_match import MAX_ATTACHED
from knowledge.context.candidate_memories import Criteria, find
from knowledge.entities import entity_linking, sql_statement
from knowledge.entities.call_subject import subject_of
from knowledge.freshness import stale_review
from knowledge.insights.capture import capture
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import Impression, MemoryRecord, Purpose
from memories.operations import Erase, MarkFeedback, Remember, Revise, Verify
from memories.use import attachments
from memories.writing import erasure, feedback
from memory_project.models import User
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, put
from tests.knowledge.connections import with_connection

pytestmark = pytest.mark.usefixtures("small_catalog")
ENTITY_CALL = Call("catalog_entity", {"urn": ORDERS}, {})


def remember(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": text, **{"entity_urns": [ORDERS], **fields}})).record


def attached_texts(caller: Caller, call: Call = ENTITY_CALL) -> list[str]:
    attached = attach_memories(caller, call)
    return [entry["content"] for entry in attached.data["memory_context"]] if attached else []


# -- entities that a call mentions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM sales.orders o JOIN db.sales.refunds r ON r.id = o.id", ["sales.orders", "db.sales.refunds"]),
        ("WITH orders AS (SELECT 1 FROM sales.mart) SELECT * FROM orders", ["sales.mart"]),
        ("INSERT INTO a.b SELECT * FROM c.d", ["a.b", "c.d"]),
        ('SELECT 1 FROM "Sales"."Orders"', ["Sales.Orders"]),
        ("SELECT 1 FROM orders WHERE x IN (SELECT y FROM refunds)", ["orders", "refunds"]),
        ("SELECT FROM WHERE", []),
        ("no statement at all (", []),
        # These can't be parsed, or not in reasonable time, so tables are found by their names.
        ("SELECT " + "(" * 150 + "1" + ")" * 150 + " FROM sales.orders", ["sales.orders"]),
        ("SELECT 1 FROM sales.orders -- " + "x" * 20_000, ["sales.orders"]),
        ('SELECT 1 +/ FROM sales.orders o, ONLY db."Sales".mart', ["sales.orders", "db.Sales.mart"]),
        ("WITH a AS (SELECT +/ 1) SELECT 'FROM x.y' FROM a JOIN LATERAL sales.refunds", ["sales.refunds"]),
        ("SHOW COLUMNS FROM sales.orders", ["sales.orders"]),
        ("SELECT '\x00' FROM sales.orders; DROP TABLE sales.mart", ["sales.orders", "sales.mart"]),
    ],
)
def test_tables_of_a_statement_are_found(sql: str, names: list[str]) -> None:
    assert sorted(sql_statement.read_statement(sql).tables) == sorted(names)


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT 1 FROM sales.orders WHERE status ~ '^m'", "postgres"),
        ("SELECT 1 FROM sales.orders WHERE tags @> ARRAY['a']", "postgres"),
        ("SELECT E'a\\n' FROM sales.orders", "postgres"),
        ("SELECT 1 FROM ONLY sales.orders", "postgres"),
        ("SELECT amount // 2 FROM sales.orders", "duckdb"),
        ("SUMMARIZE sales.orders", "duckdb"),
        ("EXPLAIN ANALYZE SELECT 1 FROM sales.orders", "duckdb"),
        ("EXPLAIN (COSTS off) SELECT 1 FROM sales.orders", "postgres"),
        ("-- of May\nSELECT 1 FROM sales.orders", "trino"),
        ("/* of\n May */ (SELECT 1 FROM sales.orders)", "trino"),
    ],
)
def test_statements_are_parsed_in_the_dialect_of_the_warehouse(sql: str, dialect: str) -> None:
    assert sql_statement.is_statement(sql)
    statement = sql_statement.read_statement(sql, dialect)
    assert (statement.tables, statement.is_parsed) == (["sales.orders"], True)


def test_memories_are_attached_to_statements_that_cannot_be_parsed_with_a_note(alice: Caller, bob: Caller) -> None:
    remember(alice, "Closed at ten.")
    attached = attach_memories(bob, Call("query_sql", {"sql": "SELECT +/ 1 FROM sales.orders o"}, {}))
    assert attached is not None
    assert [entry["content"] for entry in attached.data["memory_context"]] == ["Closed at ten."]
    assert "could not be parsed" in attached.data["note"]
    attached = attach_memories(bob, Call("query_sql", {"sql": "SELECT amount // 2 FROM sales.orders o"}, {}))
    assert attached is not None
    assert "note" not in attached.data


def test_columns_and_literals_of_a_statement_are_found() -> None:
    sql = "SELECT o.store_id, sum(amount) FROM sales.orders o WHERE status = 'closed' AND store_id > 9000"
    statement = sql_statement.read_statement(sql)
    assert statement.columns == ["store_id", "amount", "status"]
    assert statement.literals == ["closed", "9000"]


def test_names_are_resolved_to_one_entity_or_none() -> None:
    names = ["sales.orders", "SALES.ORDERS", "orders", "warehouse.sales.orders", "other.orders", "nothing"]
    resolved = entity_linking.resolve(names)
    assert resolved == dict.fromkeys(names[:4], ORDERS)


def test_the_platform_of_a_warehouse_distinguishes_tables_of_one_name(alice: Caller) -> None:
    oracle_orders = ORDERS.replace("snowflake", "oracle")
    put(oracle_orders, "datasetProperties", {"name": "orders", "qualifiedName": "sales.orders", "description": ""})
    declaration = 'kind = "sql"\nengine = "duckdb"\ndatabase = "shop.duckdb"\nplatform = "oracle"\n'
    declaration += 'read_personas = ["sales"]\n'
    DeclaredSource.objects.create(name="shop", declaration=declaration)
    arguments = {"sql": "select 1 from sales.orders"}
    assert subject_of(alice, Call("query_sql", arguments, {"source": "shop"})).urns == [oracle_orders]
    assert (
        subject_of(alice, Call("query_sql", arguments, {"source": "other"})).urns == []
    )  # either table could be meant


def test_entities_are_found_in_arguments_and_response() -> None:
    def mentioned(arguments: Any, response: Any) -> tuple[list[str], list[str]]:
        mentions = entity_linking.mentions_of_call(arguments, response)
        return mentions.requested, mentions.answered

    arguments = {"sql": "select count(*) from sales.orders", "limit": 3}
    response = {"rows": [{"urn": REFUNDS}], "text": f"see {MART} and sales.orders."}
    assert mentioned(arguments, response) == ([ORDERS], [REFUNDS, MART])
    assert mentioned({"query": "net revenue of sales.mart?"}, {}) == ([MART], [])
    assert mentioned({"query": "revenue"}, {"text": "nothing"}) == ([], [])
    guess = {"entities": [{"urn": ORDERS}, {"urn": MART, "unsure": True}]}
    assert mentioned({}, guess) == ([], [ORDERS])
    assert mentioned({}, {"text": "made from sales.refunds, e.g. at night"}) == ([], [REFUNDS])
    deep: Any = "urn:li:tag:x"
    for _ in range(5_000):
        deep = [deep]
    assert mentioned({}, deep) == ([], [])


# -- which memories are attached, and for whom ---------------------------------------------------------------


def test_a_memory_of_a_colleague_is_attached_with_its_author(alice: Caller, bob: Caller, olga: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.", category="business_context")
    attached = attach_memories(bob, ENTITY_CALL)
    assert attached is not None
    (entry,) = attached.data["memory_context"]
    assert entry == {
        "id": record.pk.hex,
        "content": "Orders leave out refunds since May.",
        "dimension": "knowledge",
        "category": "business_context",
        "confidence": "medium",
        "created_by": "alice@example.org",
        "created_at": record.created_at.isoformat(),
        "why": "about sales.orders",
    }
    assert attach_memories(olga, ENTITY_CALL) is None
    assert attach_memories(bob, Call("memory_recall", {"query": ORDERS}, {})) is None
    assert attached_texts(bob, Call("query_sql", {"sql": "select 1 from sales.orders"}, {})) == [entry["content"]]


def test_a_memory_for_everyone_is_attached_only_after_another_person_verified_it(
    alice: Caller, bob: Caller, olga: Caller, ada: Caller
) -> None:
    record = remember(alice, "Everybody should read this of orders.", visibility="everyone")
    assert attached_texts(olga) == []
    services.verify(alice, Verify(record_id=record.pk))
    assert attached_texts(olga) == []  # verification by the owner does not count
    services.verify(ada, Verify(record_id=record.pk))
    assert attached_texts(olga) == ["Everybody should read this of orders."]
    private = remember(alice, "A private thought about orders.", visibility="private")
    assert private.content not in attached_texts(bob)
    assert private.content in attached_texts(alice)


def test_stale_and_pending_memories_are_counted_and_applied_ones_come_first(
    alice: Caller, bob: Caller, cora: Caller, olga: Caller
) -> None:
    remember(alice, "An ordinary fact about orders.")
    stale = remember(alice, "What was said of orders before.")
    services.mark_stale(alice, record_id=stale.pk, reason="a column went")
    proposal = {"category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(
        alice, Capture.read({"insight_text": "Closed orders include cancelled ones.", **proposal})
    ).insight
    attached = attach_memories(alice, ENTITY_CALL)
    assert attached is not None
    assert attached_texts(alice) == ["An ordinary fact about orders."]
    assert attached.data["not_shown"] == {"stale": 1, "waiting_for_review": 1}
    decisions.approve(cora, insight_id=insight.pk)
    change = {"change_type": "add_tag", "detail": "Training"}
    apply(cora, Apply.read({"insight_ids": [insight.pk.hex], "changes": [change], "entity_urn": ORDERS}))
    assert attached_texts(bob)[0] == "Closed orders include cancelled ones."
    # Olga has another persona, but a curator applied the insight
    assert attached_texts(olga) == ["Closed orders include cancelled ones."]


def test_neighbors_that_share_words_come_after_the_entity_and_say_why(alice: Caller, bob: Caller) -> None:
    remember(alice, "Refunds reach the mart a day late.", entity_urns=[REFUNDS])
    remember(alice, "Chargebacks come a day late.", entity_urns=[REFUNDS])
    remember(alice, "See sales.orders and sales.refunds.", entity_urns=[REFUNDS])  # shares only names of tables
    remember(alice, "Sales of Sundays are missing.", entity_urns=[REFUNDS])  # shares only a word of its table's name
    remember(alice, "It is built at night.", entity_urns=[MART])
    attached = attach_memories(bob, Call("catalog_entity", {"urn": MART}, {}))
    assert attached is not None
    assert [(entry["content"], entry["why"]) for entry in attached.data["memory_context"]] == [
        ("It is built at night.", "about sales.mart"),
        ("Refunds reach the mart a day late.", "about sales.refunds, one step of lineage away; shares: mart"),
    ]


def test_an_entity_that_only_the_answer_mentions_is_a_neighbor(alice: Caller, bob: Caller) -> None:
    remember(alice, "Refunds of orders come a day late.", entity_urns=[REFUNDS])
    remember(alice, "Chargebacks come a day late.", entity_urns=[REFUNDS])
    remember(alice, "Closed at ten.")
    answer = {"entity": {"urn": ORDERS}, "downstream": [{"urn": REFUNDS}]}
    attached = attach_memories(bob, Call("catalog_entity", {"urn": ORDERS}, answer))
    assert attached is not None
    assert [(entry["content"], entry["why"]) for entry in attached.data["memory_context"]] == [
        ("Closed at ten.", "about sales.orders"),
        (
            "Refunds of orders come a day late.",
            "about sales.refunds, which only the answer mentions; shares: orders",
        ),
    ]
    # Without an entity in the arguments, those of the answer are what was asked for.
    found = attached_texts(bob, Call("catalog_search", {"query": "late"}, {"entities": [{"urn": REFUNDS}]}))
    assert sorted(found) == ["Chargebacks come a day late.", "Refunds of orders come a day late."]


@pytest.mark.parametrize(
    ("answer", "lookups"),
    [
        ({"rows": [{"sql": "SELECT 1 FROM sales.orders", "note": "a.b"}]}, 1),  # an echo, and no entity
        ({"rows": [[12.5, "paid"]]}, 1),
        ({"lineage": "sales.orders feeds sales.refunds"}, 2),
    ],
)
def test_memories_are_looked_up_again_only_if_the_answer_names_other_entities(
    alice: Caller, bob: Caller, answer: dict[str, Any], lookups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(alice, "Late orders are refunded.", entity_urns=[REFUNDS])
    remember(alice, "Closed at ten.")
    counted: list[Call] = []

    def counting(caller: Caller, call: Call, *arguments: Any) -> attached_memories.Knowledge:
        counted.append(call)
        return original(caller, call, *arguments)

    original = attached_memories.knowledge_about
    monkeypatch.setattr(attached_memories, "knowledge_about", counting)
    call = Call("wh_run_query", {"sql": "SELECT 1 FROM sales.orders"}, {}, is_proxied=True)
    lookup = attached_memories.lookup_for(bob, call)
    assert lookup is not None
    lookup.begin()
    block = lookup.finish(replace(call, data=answer))
    assert block is not None
    texts = [entry["content"] for entry in block.data["memory_context"]]
    assert (len(counted), texts) == (lookups, ["Closed at ten.", "Late orders are refunded."][:lookups])


def test_memories_that_are_erased_hidden_or_corrected_during_a_long_call_are_not_attached(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    erased, hidden, corrected = [remember(alice, text) for text in ("Closed at ten.", "Tax is in.", "Built in March.")]
    lookup = attached_memories.lookup_for(bob, ENTITY_CALL)
    assert lookup is not None
    lookup.begin()
    erasure.erase(alice, Erase(record_id=erased.pk, confirm=True))
    services.revise(alice, Revise(record_id=hidden.pk, visibility="private"))
    services.revise(alice, Revise(record_id=corrected.pk, content="Built in May."))
    monkeypatch.setattr(attached_memories, "LOOKUP_LASTS_S", 0.0)
    block = lookup.finish(ENTITY_CALL)
    assert block is not None
    assert [entry["content"] for entry in block.data["memory_context"]] == ["Built in May."]


def test_neighbors_take_at_most_two_places_and_none_that_the_entity_needs(alice: Caller, bob: Caller) -> None:
    laptop = with_connection(bob, "token 1")
    for number in range(6):
        remember(alice, f"Late orders of batch {number} are refunded.", entity_urns=[REFUNDS])
    answer = {"downstream": [{"urn": REFUNDS}]}
    call = Call("query_sql", {"sql": "select 1 from sales.orders"}, answer)
    assert len(attached_texts(bob, call)) == 2
    remember(alice, "Closed at ten.")
    assert len(attached_texts(laptop, call)) == 3
    assert [attached_texts(laptop, call) for _ in range(3)] == [[], [], []]  # the next neighbors don't follow
    for number in range(6):
        remember(alice, f"Number {number} about the shop.")
    assert not any("refunded" in text for text in attached_texts(bob, call))


def test_the_most_similar_memory_comes_first_within_the_limits(alice: Caller, bob: Caller) -> None:
    for number in range(12):
        remember(alice, f"Fact {number} about orders and their shipping, {'é' * 200}")
    remember(alice, "Cancellation codes of orders are kept in status.")
    call = Call("query_sql", {"sql": "select status, cancellation from sales.orders"}, {})
    attached = attach_memories(bob, call)
    assert attached is not None
    entries = attached.data["memory_context"]
    assert entries[0]["content"] == "Cancellation codes of orders are kept in status."
    assert len(entries) == MAX_ATTACHED
    sizes = [len(entry["content"].encode()) for entry in entries]
    assert max(sizes) <= MAX_BYTES
    assert sum(sizes) <= MAX_TOTAL_BYTES
    assert len(attached.data["more"]) == 13 - len(entries)


def test_a_memory_is_not_attached_for_the_person_who_marked_it_wrong(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders close at ten at night.")
    feedback.mark(bob, MarkFeedback(record_id=record.pk, verdict="wrong"))
    assert attached_texts(bob) == []


# -- repetition ----------------------------------------------------------------------------------------------


def test_a_memory_is_attached_once_an_hour_per_connection_then_by_id(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.")
    laptop, phone = with_connection(bob, "token 1"), with_connection(bob, "token 2")
    assert attached_texts(laptop) == [record.content]
    second = attach_memories(laptop, ENTITY_CALL)
    assert second is not None
    assert (second.data["memory_context"], second.data["shown_before"]) == ([], [record.pk.hex])
    assert attached_texts(phone) == [record.content]
    Impression.objects.update(at=timezone.now() - timedelta(hours=2))
    assert attached_texts(laptop) == [record.content]


def test_a_memory_that_changed_or_went_stale_is_attached_again(alice: Caller, bob: Caller) -> None:
    laptop = with_connection(bob, "token 1")
    record = remember(alice, "Orders leave out refunds since May.")
    attached_texts(laptop)
    services.revise(alice, Revise(record_id=record.pk, content="Orders leave out refunds since June."))
    attached = attach_memories(laptop, ENTITY_CALL)
    assert attached is not None
    assert attached.data["memory_context"][0]["why"].startswith("changed since it was shown")
    services.mark_stale(alice, record_id=record.pk, reason="a column was removed")
    attached = attach_memories(laptop, ENTITY_CALL)
    assert attached is not None
    (entry,) = attached.data["memory_context"]
    assert (entry["content"], entry["why"]) == ("", "went stale since it was shown: a column was removed")
    third = attach_memories(laptop, ENTITY_CALL)
    assert third is not None
    assert third.data["memory_context"] == []  # the notice is attached once


def test_impressions_and_useful_marks_are_counted(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.")
    for number in range(3):
        attached_texts(with_connection(bob, f"token {number}"))
    feedback.mark(bob, MarkFeedback(record_id=record.pk, verdict="useful"))
    assert attachments.impression_counts([record.pk]) == {record.pk: 3}
    assert attachments.usage_of(alice, record) == attachments.AttachmentUsage(
        own=0, others=3, other_people=1, measured=3
    )
    assert feedback.useful_count(record, feedback.feedback_for(alice, record)[0]) == 1
    use = attachments.usage_of(bob, record)
    assert (use.own, use.others, use.other_people, len(use.latest)) == (3, 0, 0, 3)
    Impression.objects.update(at=timezone.now() - timedelta(days=31))
    assert retention.delete_expired() == {"memory_showings": 3}


# -- switches and limits -------------------------------------------------------------------------------------


def test_a_setting_and_a_persona_can_disable_memory_context(
    alice: Caller, bob: Caller, bob_user: User, settings: Any
) -> None:
    remember(alice, "Orders leave out refunds since May.")
    settings.MEMORY_CONTEXT = False
    assert attach_memories(bob, ENTITY_CALL) is None
    settings.MEMORY_CONTEXT = True
    Persona.objects.filter(name="sales").update(memory_context=False)
    assert attach_memories(build_caller(bob_user, channel="test"), ENTITY_CALL) is None


def slow_at_first(monkeypatch: pytest.MonkeyPatch, *, times: int) -> list[Criteria]:
    """Let the first lookups exceed the time limit in the database. Return what each was asked for."""
    asked: list[Criteria] = []

    def slow(caller: Caller, criteria: Criteria) -> Any:
        asked.append(criteria)
        if len(asked) <= times:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_sleep(60)")
        return find(caller, criteria)

    monkeypatch.setattr(attached_memories, "find", slow)
    return asked


@pytest.mark.django_db(transaction=True)
def test_in_a_slow_database_neighbors_and_meanings_are_left_out_and_nothing_else(
    alice: Caller, bob: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remember(alice, "Orders leave out refunds since May.")
    remember(alice, "The status cxl9 was never shipped.", entity_urns=[])
    remember(alice, "Orders reach the mart at ten.", entity_urns=[MART])
    settings.MEMORY_CONTEXT_MS = 30
    asked = slow_at_first(monkeypatch, times=1)
    attached = attach_memories(bob, Call("query_sql", {"sql": "SELECT 1 FROM sales.orders WHERE status = 'cxl9'"}, {}))
    assert attached is not None
    texts = [entry["content"] for entry in attached.data["memory_context"]]
    assert texts == ["Orders leave out refunds since May.", "The status cxl9 was never shipped."]
    assert attached.data["note"] == attached_memories.IN_A_HURRY
    assert [criteria.with_neighbors for criteria in asked] == [True, False]
    assert MemoryRecord.objects.exists()  # the connection still works
    assert "pipeline" not in caplog.text


@pytest.mark.django_db(transaction=True)
def test_if_the_database_does_not_answer_a_note_says_how_to_get_the_memories(
    alice: Caller, bob: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(alice, "Orders leave out refunds since May.")
    settings.MEMORY_CONTEXT_MS = 30
    slow_at_first(monkeypatch, times=2)
    with limited(50):
        attached = attach_memories(bob, ENTITY_CALL)
    assert attached is not None
    assert (attached.data["memory_context"], attached.data["note"]) == ([], attached_memories.TOO_SLOW)


@pytest.mark.django_db(transaction=True)
def test_on_a_busy_machine_every_memory_about_a_named_table_arrives(alice: Caller, bob: Caller) -> None:
    tables = [f"sales.table_{number}" for number in range(20)]
    for table in tables:
        put(ORDERS.replace("sales.orders", table), "datasetProperties", {"name": table, "qualifiedName": table})
    traps = {table: f"Rows of {table} before May are estimates." for table in tables}
    for text in traps.values():
        remember(alice, text, entity_urns=[])
    attached_texts(bob)  # the first call of a process prepares statements
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for table, text in traps.items():
            statement = " ".join(["SELECT count(*) FROM", table])
            attached = attach_memories(bob, Call("query_sql", {"sql": statement}, {}))
            assert attached is not None
            assert text in [entry["content"] for entry in attached.data["memory_context"]]
            assert "note" not in attached.data
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_memory_context_makes_a_bounded_number_of_queries(
    alice: Caller, bob: Caller, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        remember(alice, f"Fact {number} about orders and their shipping.", entity_urns=[ORDERS, MART])
    call = Call("catalog_entity", {"urns": [ORDERS, MART, REFUNDS], "q": "shipping of orders"}, {})
    with django_assert_max_num_queries(0):  # the statements of a lookup don't go through the ORM
        assert attached_texts(with_connection(bob, "token 1"), call)
    assert json.dumps(attach_memories(with_connection(bob, "token 2"), call).data)  # type: ignore[union-attr]


def verification_requests(caller: Caller) -> list[stale_review.VerificationRequest]:
    return stale_review.verification_requests(caller, list(stale_review.to_verify(caller)))


def test_owners_are_asked_to_verify_memories_that_are_never_attached(alice: Caller, bob: Caller) -> None:
    attached_memory = remember(alice, "What comes along with every answer on orders.")
    unused_memory = remember(alice, "What nobody has met for months.", entity_urns=[REFUNDS])
    attached_texts(with_connection(bob, "token 1"))
    long_ago = timezone.now() - timedelta(days=100)
    MemoryRecord.objects.filter(pk__in=[attached_memory.pk, unused_memory.pk]).update(created_at=long_ago)
    # impressions have been recorded for too short a time to conclude this
    assert verification_requests(alice) == []
    Impression.objects.update(at=timezone.now() - timedelta(days=20))
    (request,) = verification_requests(alice)
    assert (request.record.pk, "worth keeping" in request.hint) == (unused_memory.pk, True)
    assert verification_requests(bob) == []
    services.verify(alice, Verify(record_id=unused_memory.pk))
    assert verification_requests(alice) == []


def test_only_memories_of_the_active_persona_are_attached(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders close at ten at night.")
    in_both = replace(bob, personas=frozenset({"sales", "supply"}))
    assert attached_texts(in_both) == [record.content]
    assert attached_texts(replace(in_both, persona="supply")) == []


@pytest.mark.parametrize("argument", ["orders", "sales.orders", ORDERS])
def test_an_entity_named_in_an_argument_is_requested(alice: Caller, bob: Caller, argument: str) -> None:
    remember(alice, "Late ones are dropped.")
    remember(alice, "It is rebuilt at five.", entity_urns=[MART])
    call = Call("catalog_entity", {"urn": argument}, {"entity": {"urn": ORDERS, "downstream": [MART]}})
    assert attached_texts(bob, call) == ["Late ones are dropped."]


def test_a_memory_whose_detected_entity_was_deprecated_is_marked(alice: Caller, bob: Caller) -> None:
    remember(alice, "The rows of sales.orders come late.", entity_urns=[])
    put(ORDERS, "deprecation", {"deprecated": True, "note": "use the mart", "actor": "urn:li:corpuser:x"})
    block = attach_memories(bob, Call("catalog_entity", {"urn": ORDERS}, {}))
    assert block is not None
    (memory,) = block.data["memory_context"]
    assert memory["to_verify"] == "sales.orders was deprecated since"


# -- scopes ---------------------------------------------------------------------------------------------------


def test_attached_memories_of_different_scopes_tell_the_agent_to_ask(alice: Caller) -> None:
    for name in ("board", "forecast"):
        Purpose.objects.create(name=name, title=name.title())
        remember(alice, f"Orders count for the {name} on another day.", scope=f"purpose:{name}")
    attached = attach_memories(alice, ENTITY_CALL)
    assert attached
    assert {entry["holds_for"] for entry in attached.data["memory_context"]} == {"Board", "Forecast"}
    assert "2 memories hold in different scopes" in attached.data["note"]

"""Memories come along with the answers of calls that speak of an entity: which, to whom, how many, and how often."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from analysis.models import DeclaredSource
from knowledge.changesets.apply import apply
from knowledge.context import memory_context
from knowledge.context.memory_context import attach_memories
from knowledge.freshness import stale_review
from knowledge.insights import entity_linking
from knowledge.insights.capture import capture
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.contract.tools import Call
from memories.identity.caller import Caller
from memories.identity.permissions import build_caller
from memories.models import Impression, MemoryRecord, Persona
from memories.operations import MarkFeedback, Remember, Revise, Verify
from memories.retrieval import impressions
from memories.writing import feedback
from memory_project import retention
from memory_project.models import User
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, put

pytestmark = pytest.mark.usefixtures("small_catalog")
LOOK = Call("catalog_entity", {"urn": ORDERS}, {})


def remember(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(
        Remember.read({"content": text, **{"entity_urns": [ORDERS], **fields}}), caller=caller
    ).record


def on(caller: Caller, connection: str) -> Caller:
    from dataclasses import replace

    return replace(caller, connection=connection)


def texts_beside(caller: Caller, call: Call = LOOK) -> list[str]:
    companion = attach_memories(caller, call)
    return [entry["content"] for entry in companion.data["memory_context"]] if companion else []


# -- what a call speaks of -----------------------------------------------------------------------------------


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
        ("SELECT " + "(" * 150 + "1" + ")" * 150 + " FROM sales.orders", []),
        ("SELECT 1 FROM sales.orders -- " + "x" * 20_000, []),
        ("SELECT '\x00' FROM sales.orders; DROP TABLE sales.mart", ["sales.orders", "sales.mart"]),
    ],
)
def test_tables_of_a_statement(sql: str, names: list[str]) -> None:
    assert sorted(entity_linking.tables_of(sql)) == sorted(names)


def test_names_are_resolved_to_one_entity_or_none() -> None:
    names = ["sales.orders", "SALES.ORDERS", "orders", "warehouse.sales.orders", "other.orders", "nothing"]
    resolved = entity_linking.resolve(names)
    assert resolved == dict.fromkeys(names[:4], ORDERS)


def test_a_warehouse_s_platform_tells_tables_of_one_name_apart(alice: Caller) -> None:
    twin = ORDERS.replace("snowflake", "oracle")
    put(twin, "datasetProperties", {"name": "orders", "qualifiedName": "sales.orders", "description": ""})
    declaration = 'kind = "sql"\nengine = "duckdb"\ndatabase = "shop.duckdb"\nplatform = "oracle"\n'
    DeclaredSource.objects.create(name="shop", declaration=declaration)
    arguments = {"sql": "select 1 from sales.orders"}
    assert memory_context.entities_of(alice, Call("query_sql", arguments, {"source": "shop"})) == [twin]
    assert (
        memory_context.entities_of(alice, Call("query_sql", arguments, {"source": "other"})) == []
    )  # it could be either


def test_a_call_speaks_of_what_its_arguments_and_its_answer_name() -> None:
    arguments = {"sql": "select count(*) from sales.orders", "limit": 3}
    answer = {"rows": [{"urn": REFUNDS}], "text": f"see {MART}."}
    assert entity_linking.entities_of_call(arguments, answer) == [ORDERS, REFUNDS, MART]
    assert entity_linking.entities_of_call({"query": "net revenue of sales.mart?"}, {}) == [MART]
    assert entity_linking.entities_of_call({"query": "revenue"}, {"text": "nothing"}) == []
    guess = {"entities": [{"urn": ORDERS}, {"urn": MART, "unsure": True}]}
    assert entity_linking.entities_of_call({}, guess) == [ORDERS]
    assert entity_linking.entities_of_call({}, {"text": "made from sales.refunds, e.g. at night"}) == [REFUNDS]
    deep: Any = "urn:li:tag:x"
    for _ in range(5_000):
        deep = [deep]
    assert entity_linking.entities_of_call({}, deep) == []


# -- what comes along, and to whom ---------------------------------------------------------------------------


def test_a_colleague_s_memory_comes_unasked_with_its_author(alice: Caller, bob: Caller, olga: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.", category="business_context")
    companion = attach_memories(bob, LOOK)
    assert companion is not None
    (entry,) = companion.data["memory_context"]
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
    assert attach_memories(olga, LOOK) is None
    assert attach_memories(bob, Call("memory_recall", {"query": ORDERS}, {})) is None
    assert texts_beside(bob, Call("query_sql", {"sql": "select 1 from sales.orders"}, {})) == [entry["content"]]


def test_nobody_pushes_a_text_into_every_agent(alice: Caller, bob: Caller, olga: Caller, ada: Caller) -> None:
    record = remember(alice, "Everybody should read this of orders.", visibility="everyone")
    assert texts_beside(olga) == []
    services.verify(Verify(record_id=record.pk), caller=alice)
    assert texts_beside(olga) == []  # one's own word is no second one
    services.verify(Verify(record_id=record.pk), caller=ada)
    assert texts_beside(olga) == ["Everybody should read this of orders."]
    private = remember(alice, "A private thought about orders.", visibility="private")
    assert private.content not in texts_beside(bob)
    assert private.content in texts_beside(alice)


def test_what_waits_or_is_stale_is_counted_and_applied_comes_first(
    alice: Caller, bob: Caller, cora: Caller, olga: Caller
) -> None:
    remember(alice, "An ordinary fact about orders.")
    stale = remember(alice, "What was said of orders before.")
    services.mark_stale(caller=alice, record_id=stale.pk, reason="a column went")
    proposal = {"category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(
        Capture.read({"insight_text": "Closed orders include cancelled ones.", **proposal}), caller=alice
    ).insight
    companion = attach_memories(alice, LOOK)
    assert companion is not None
    assert texts_beside(alice) == ["An ordinary fact about orders."]
    assert companion.data["not_shown"] == {"stale": 1, "waiting_for_review": 1}
    decisions.approve(caller=cora, insight_id=insight.pk)
    change = {"change_type": "add_tag", "detail": "Training"}
    apply(Apply.read({"insight_ids": [insight.pk.hex], "changes": [change], "entity_urn": ORDERS}), caller=cora)
    assert texts_beside(bob)[0] == "Closed orders include cancelled ones."
    assert texts_beside(olga) == ["Closed orders include cancelled ones."]  # of another persona, by a curator's word


def test_lineage_neighbors_come_after_the_entity_itself(alice: Caller, bob: Caller) -> None:
    remember(alice, "Refunds come a day late.", entity_urns=[REFUNDS])
    remember(alice, "The mart is built at night.", entity_urns=[MART])
    call = Call("catalog_entity", {"urn": MART}, {})
    assert texts_beside(bob, call) == ["The mart is built at night.", "Refunds come a day late."]
    companion = attach_memories(bob, call)
    assert companion is not None
    assert companion.data["memory_context"][1]["why"] == "about sales.refunds, one step of lineage away"


def test_the_nearest_to_the_question_comes_first_and_bounds_hold(alice: Caller, bob: Caller, settings: Any) -> None:
    for number in range(12):
        remember(alice, f"Fact {number} about orders and their shipping, {'é' * 200}")
    remember(alice, "Cancellation codes of orders are kept in status.")
    call = Call("query_sql", {"sql": "select status, cancellation from sales.orders"}, {})
    companion = attach_memories(bob, call)
    assert companion is not None
    entries = companion.data["memory_context"]
    assert entries[0]["content"] == "Cancellation codes of orders are kept in status."
    assert len(entries) == settings.MEMORY_CONTEXT_MOST
    sizes = [len(entry["content"].encode()) for entry in entries]
    assert max(sizes) <= settings.MEMORY_CONTEXT_BYTES
    assert sum(sizes) <= settings.MEMORY_CONTEXT_TOTAL_BYTES
    assert len(companion.data["more"]) == 13 - len(entries)


def test_a_doubted_memory_leaves_its_doubter_alone(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders close at ten at night.")
    feedback.mark(MarkFeedback(record_id=record.pk, verdict="wrong"), caller=bob)
    assert texts_beside(bob) == []


# -- once ----------------------------------------------------------------------------------------------------


def test_a_memory_comes_once_an_hour_on_a_connection_then_by_reference(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.")
    laptop, phone = on(bob, "token 1"), on(bob, "token 2")
    assert texts_beside(laptop) == [record.content]
    again = attach_memories(laptop, LOOK)
    assert again is not None
    assert (again.data["memory_context"], again.data["shown_before"]) == ([], [record.pk.hex])
    assert texts_beside(phone) == [record.content]
    Impression.objects.update(at=timezone.now() - timedelta(hours=2))
    assert texts_beside(laptop) == [record.content]


def test_what_has_changed_or_gone_stale_comes_again_marked(alice: Caller, bob: Caller) -> None:
    laptop = on(bob, "token 1")
    record = remember(alice, "Orders leave out refunds since May.")
    texts_beside(laptop)
    services.revise(Revise(record_id=record.pk, content="Orders leave out refunds since June."), caller=alice)
    companion = attach_memories(laptop, LOOK)
    assert companion is not None
    assert companion.data["memory_context"][0]["why"].startswith("changed since it was shown")
    services.mark_stale(caller=alice, record_id=record.pk, reason="a column was removed")
    companion = attach_memories(laptop, LOOK)
    assert companion is not None
    (entry,) = companion.data["memory_context"]
    assert (entry["content"], entry["why"]) == ("", "went stale since it was shown: a column was removed")
    later = attach_memories(laptop, LOOK)
    assert later is not None
    assert later.data["memory_context"] == []  # said once


def test_its_owner_learns_how_it_served(alice: Caller, bob: Caller) -> None:
    record = remember(alice, "Orders leave out refunds since May.")
    for number in range(3):
        texts_beside(on(bob, f"token {number}"))
    feedback.mark(MarkFeedback(record_id=record.pk, verdict="useful"), caller=bob)
    assert impressions.impression_counts([record.pk]) == {record.pk: 3}
    assert impressions.usage_of(record) == impressions.Usage(impressions=3, people=1, useful=1)
    Impression.objects.update(at=timezone.now() - timedelta(days=31))
    assert retention.delete_expired_rows() == {"memory_showings": 3}


# -- switches and bounds -------------------------------------------------------------------------------------


def test_it_is_switched_off_by_setting_and_persona(alice: Caller, bob: Caller, bob_user: User, settings: Any) -> None:
    remember(alice, "Orders leave out refunds since May.")
    settings.MEMORY_CONTEXT = False
    assert attach_memories(bob, LOOK) is None
    settings.MEMORY_CONTEXT = True
    Persona.objects.filter(name="sales").update(memory_context=False)
    assert attach_memories(build_caller(bob_user, channel="test"), LOOK) is None


def test_after_the_deadline_the_answer_goes_out_without(
    alice: Caller, bob: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(alice, "Orders leave out refunds since May.")
    settings.MEMORY_CONTEXT_MS = 30

    def slow(*args: Any, **kwargs: Any) -> Any:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(5)")

    monkeypatch.setattr(memory_context, "memories_for_entities", slow)
    started = time.monotonic()
    companion = attach_memories(bob, LOOK)
    assert time.monotonic() - started < 4
    assert companion is not None
    assert (companion.data["memory_context"], "30 ms" in companion.data["note"]) == ([], True)
    assert MemoryRecord.objects.exists()  # the connection works on


def test_one_look_costs_a_fixed_number_of_queries(
    alice: Caller, bob: Caller, django_assert_max_num_queries: Any
) -> None:
    for number in range(20):
        remember(alice, f"Fact {number} about orders and their shipping.", entity_urns=[ORDERS, MART])
    call = Call("catalog_entity", {"urns": [ORDERS, MART, REFUNDS], "q": "shipping of orders"}, {})
    with django_assert_max_num_queries(16):
        assert texts_beside(on(bob, "token 1"), call)
    assert json.dumps(attach_memories(on(bob, "token 2"), call).data)  # type: ignore[union-attr]


def test_what_nobody_meets_is_asked_about(alice: Caller, bob: Caller) -> None:
    met = remember(alice, "What comes along with every answer on orders.")
    unmet = remember(alice, "What nobody has met for months.", entity_urns=[REFUNDS])
    texts_beside(on(bob, "token 1"))
    long_ago = timezone.now() - timedelta(days=100)
    MemoryRecord.objects.filter(pk__in=[met.pk, unmet.pk]).update(created_at=long_ago)
    assert stale_review.verification_requests(alice, 20) == []  # memories have come along for too short a time to tell
    Impression.objects.update(at=timezone.now() - timedelta(days=20))
    (look,) = stale_review.verification_requests(alice, 20)
    assert (look.record.pk, "worth keeping" in look.hint) == (unmet.pk, True)
    assert stale_review.verification_requests(bob, 20) == []
    services.verify(Verify(record_id=unmet.pk), caller=alice)
    assert stale_review.verification_requests(alice, 20) == []

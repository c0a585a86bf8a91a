"""Detection of entities in the texts of memories: what is linked, who may remove a link, and what the links serve."""

from __future__ import annotations

import io
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Forbidden, NotFound
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.context.attached_memories import attach_memories
from knowledge.entities import entity_linking
from knowledge.freshness import stale_detection
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.tasks import link_memories
from memories import services
from memories.models import MemoryRecord, MemoryRevision, Status
from memories.operations import DismissEntity, Forget, RecallMemories, Remember, Restore, Revise, StoreNote, Supersede
from memories.responses import detected_response, hit_response, memory_response
from memories.retrieval import facets
from memories.retrieval.filters import Filters, visible_rows
from memories.retrieval.recall import recall
from memories.writing import entity_detection
from memories.writing.bulk_import import remember_many
from memory_project.models import User
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put, schema_of

pytestmark = pytest.mark.usefixtures("small_catalog")
TEXT = "In sales.orders rows with status = 'x' are training tills."


def remember(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": text, **fields})).record


def detected(record: MemoryRecord) -> list[str]:
    return MemoryRecord.objects.get(pk=record.pk).detected_urns


# -- which names are detected --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "urns"),
    [
        (TEXT, [ORDERS]),
        ("Training tills are in sales.orders.", [ORDERS]),
        ("Are training tills in sales.orders?", [ORDERS]),
        ('Of "sales"."orders" and `sales.refunds`, the first is older.', [ORDERS, REFUNDS]),
        ("Of `sales`.`orders` and [sales].[refunds], the first is older.", [ORDERS, REFUNDS]),
        ("(sales.orders, sales.refunds)", [ORDERS, REFUNDS]),
        ("SALES.Orders is closed at ten.", [ORDERS]),
        ("Table:sales.orders is closed at ten.", [ORDERS]),
        ("warehouse.sales.orders is closed at ten.", [ORDERS]),
        ("sales.orders.status is 'x' for training tills.", [ORDERS]),
        ("sales.orders.customer.id is a hash.", [ORDERS]),
        ("`orders.status` is 'x' for training tills.", [ORDERS]),
        (f"{ORDERS}: training tills.", [ORDERS]),
        ("See urn:li:glossaryTerm:net.", ["urn:li:glossaryTerm:net"]),
        ("Orders and refunds are ordinary words, and so is sales.", []),
        ("orders.nothing is no column.", []),
        ("Write to orders@sales.orders or https://x.org/sales.orders/1.", []),
        ("The export sales.orders.csv is sent at night.", []),
        ("other.orders and sales.unknown are not in the catalog.", []),
    ],
)
def test_entities_are_detected_by_urn_and_dotted_name(text: str, urns: list[str]) -> None:
    ((*mentions,),) = entity_linking.mentions_in([text])
    assert [mention.urn for mention in mentions] == urns


def test_columns_beside_their_table_are_reported() -> None:
    ((mention,),) = entity_linking.mentions_in(["The amount in sales.orders is net, see customer.id and refund_id."])
    assert (mention.name, list(mention.columns)) == ("sales.orders", ["amount", "customer.id"])


def test_an_ambiguous_name_is_not_detected() -> None:
    other = MART.replace("sales.mart", "web.orders")
    put(other, "datasetProperties", {"name": "web.orders", "qualifiedName": "web.orders", "description": ""})
    put(other, "schemaMetadata", schema_of("web.orders", [column("status"), column("visit")]))
    mentions = entity_linking.mentions_in(["By orders.status", "By orders.visit", "By web.orders"])
    assert [[mention.urn for mention in row] for row in mentions] == [[], [other], [other]]


# -- every way in which a text is written --------------------------------------------------------------------


def test_each_way_of_writing_detects_entities_and_reports_them(alice: Caller) -> None:
    record = remember(alice, TEXT)
    assert (detected(record), record.entity_urns) == ([ORDERS], [])
    assert detected_response(record) == [{"urn": ORDERS, "name": "sales.orders", "columns": ["status"]}]
    assert memory_response(record)["detected_urns"] == [ORDERS]

    note = services.store_note(alice, StoreNote(text="sales.mart is odd")).record
    insight = capture(alice, Capture.read({"insight_text": "sales.mart is late.", "category": "correction"}))
    imported = [row for row, _ in remember_many(alice, facts=[{"content": "See sales.refunds."}])]
    assert [detected(row) for row in (note, insight.insight.record, *imported)] == [[MART], [MART], [REFUNDS]]

    revised = services.revise(alice, Revise(record_id=record.pk, content="It is sales.refunds."))
    assert (detected(revised), detected_response(revised)[0]["urn"]) == ([REFUNDS], REFUNDS)
    corrected = services.supersede(alice, Supersede(record_id=record.pk, content="It is sales.mart.")).record
    assert (detected(corrected), detected_response(corrected)[0]["urn"]) == ([MART], MART)


def test_a_stated_entity_is_not_detected_as_well(alice: Caller) -> None:
    record = remember(alice, TEXT, entity_urns=[ORDERS])
    assert detected(record) == []
    services.revise(alice, Revise(record_id=record.pk, entity_urns=[]))
    assert detected(record) == [ORDERS]


# -- removing a detected entity ------------------------------------------------------------------------------


def test_a_removed_entity_is_not_detected_again(alice: Caller) -> None:
    record = remember(alice, TEXT)
    services.dismiss_entity(alice, DismissEntity.read({"id": record.pk, "urn": ORDERS}))
    assert detected(record) == []
    assert MemoryRevision.objects.get(record=record).details == {"dismissed_urns": []}
    services.revise(alice, Revise(record_id=record.pk, content="In sales.orders and sales.refunds."))
    assert detected(record) == [REFUNDS]
    call_command("link_memories", "--all", "--quiet", stdout=io.StringIO())
    assert detected(record) == [REFUNDS]
    correction = Supersede(record_id=record.pk, content="In sales.orders and sales.mart.")
    assert detected(services.supersede(alice, correction).record) == [MART]


def test_only_those_who_may_edit_a_memory_remove_its_entities(alice: Caller, bob: Caller, olga: Caller) -> None:
    record = remember(alice, TEXT)
    removal = DismissEntity.read({"id": record.pk, "urn": ORDERS})
    with pytest.raises(Forbidden):
        services.dismiss_entity(bob, removal)
    with pytest.raises(NotFound):
        services.dismiss_entity(olga, removal)
    with pytest.raises(NotFound, match="urn"):
        services.dismiss_entity(alice, DismissEntity.read({"id": record.pk, "urn": MART}))
    assert detected(record) == [ORDERS]


def test_the_page_of_a_memory_marks_detected_entities_and_removes_them(
    alice: Caller, alice_user: User, bob_user: User
) -> None:
    record = remember(alice, TEXT)
    url, removal = reverse("memory", args=[record.pk]), reverse("change-memory", args=[record.pk, "dismiss-entity"])
    client, colleague = Client(), Client()
    client.force_login(alice_user)
    colleague.force_login(bob_user)
    assert "detected in the text" in client.get(url).content.decode()
    page = colleague.get(url).content.decode()
    assert "detected in the text" in page
    assert removal not in page or "Remove sales.orders" not in page
    colleague.post(removal, {"urn": ORDERS})
    assert detected(record) == [ORDERS]
    client.post(removal, {"urn": ORDERS})
    assert detected(record) == []
    assert "detected in the text" not in client.get(url).content.decode()


# -- stored memories -----------------------------------------------------------------------------------------


def test_stored_memories_are_linked_once_without_a_revision(alice: Caller) -> None:
    record, archived = remember(alice, TEXT), remember(alice, "See sales.refunds.")
    services.forget(alice, Forget(record_id=archived.pk))
    MemoryRecord.objects.update(detected_urns=[], entities_detected_at=None)
    before = MemoryRecord.objects.get(pk=record.pk)
    assert link_memories().startswith("1 memories read")
    after = MemoryRecord.objects.get(pk=record.pk)
    assert (after.detected_urns, after.updated_at) == ([ORDERS], before.updated_at)
    assert not MemoryRevision.objects.filter(record=record).exists()
    assert not entity_detection.undetected().exists()
    services.restore(alice, Restore(record_id=archived.pk))
    assert list(entity_detection.undetected()) == [archived]
    link_memories()
    assert detected(archived) == [REFUNDS]


def test_memories_that_name_a_new_entity_are_linked(alice: Caller) -> None:
    link_memories()
    record, other = remember(alice, "In web.visits bots count."), remember(alice, "Visits of web.pages are counted.")
    assert detected(record) == []
    visits = MART.replace("sales.mart", "web.visits")
    put(visits, "datasetProperties", {"name": "web.visits", "qualifiedName": "web.visits", "description": ""})
    link_memories()
    assert (detected(record), detected(other)) == ([visits], [])


# -- what detected entities serve ----------------------------------------------------------------------------


def test_detected_entities_serve_search_and_context(alice: Caller, bob: Caller) -> None:
    record = remember(alice, TEXT)
    remember(alice, "It rains in June, says sales.mart.")
    for strategy in ("auto", "entity", "graph"):
        found = recall(bob, RecallMemories.read({"entity_urns": [ORDERS], "strategy": strategy}))
        assert found.hits[0].record == record
    assert hit_response(found, found.hits[0])["detected_urns"] == [ORDERS]
    filters = Filters(entity=ORDERS)
    assert list(visible_rows(bob, filters)) == [record]
    assert facets.counts(bob, Filters())["entity"] == [(MART, 1), (ORDERS, 1)]
    attached = attach_memories(bob, Call("query_sql", {"sql": "select 1 from sales.orders"}, {}))
    assert attached is not None
    entry = attached.data["memory_context"][0]
    assert (entry["id"], entry["why"]) == (record.pk.hex, "about sales.orders, detected in the text")


def test_a_detected_entity_gives_a_hint_but_never_makes_a_memory_stale(
    alice: Caller, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        record = remember(alice, TEXT)
    found = recall(alice, RecallMemories(query="training tills"))
    assert found.hints == {}
    put(ORDERS, "deprecation", {"deprecated": True, "note": "", "actor": "urn:li:corpuser:x"})
    stale_detection.check_all_entities(100)
    found = recall(alice, RecallMemories(query="training tills"))
    assert found.hits[0].status == Status.ACTIVE
    assert found.hints == {record.pk: "sales.orders was deprecated since"}

"""Arguments that take the name of a catalog entity in place of its URN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foundation.operations.errors import DomainError, Invalid
from foundation.people.caller import Caller
from knowledge.catalog.datahub import DataHubCatalog
from knowledge.catalog.mirror import mirror
from knowledge.mcp_tools.capture import capture_insight
from knowledge.mcp_tools.catalog import catalog_entity, catalog_lineage
from knowledge.mcp_tools.curate import apply_knowledge
from memories.mcp_tools import memory_manage, memory_recall
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.models import User
from tests.fake_datahub import Faults
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, put
from tests.rest_client import client, post

LIST = "/api/v1/memories/"

TERM = "urn:li:glossaryTerm:net"
OTHER_ORDERS = ORDERS.replace("snowflake", "oracle")

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_catalog")]


def put_table(urn: str, name: str) -> None:
    put(urn, "datasetProperties", {"name": name, "qualifiedName": name, "customProperties": {}, "tags": []})


@pytest.mark.parametrize("name", ["sales.orders", "orders", "Sales.Orders", "  sales.orders\n", ORDERS])
def test_a_name_means_its_entity(alice: Caller, name: str) -> None:
    assert catalog_entity(alice, urn=name).data["entity"]["urn"] == ORDERS
    response = catalog_lineage(alice, urn=name, direction="downstream")
    assert (response["urn"], [node["urn"] for node in response["nodes"]]) == (ORDERS, [MART])


def test_terms_and_documents_have_names_with_spaces(alice: Caller) -> None:
    document = "urn:li:document:closing"
    put(document, "documentInfo", {"title": "How the books close. Q4", "contents": {"text": "On the third."}})
    assert catalog_entity(alice, urn="net revenue").data["entity"]["urn"] == TERM
    assert catalog_entity(alice, urn="How the books close. Q4").data["entity"]["urn"] == document


def test_every_argument_for_entities_takes_names(alice: Caller, cora: Caller) -> None:
    column = {"urn": "sales.orders", "column": "amount", "relevance": "measured"}
    text = "Amounts are with tax, as of this year."
    made = memory_manage(
        alice, "remember", content=text, entity_urns=["orders", "Net revenue", ORDERS], related_columns=[column]
    )
    record = MemoryRecord.objects.get(pk=made["id"])
    assert (record.entity_urns, record.related_columns) == ([ORDERS, TERM], [{**column, "urn": ORDERS}])
    assert memory_manage(alice, "list", filter_entity_urn="orders").data["total"] == 1
    assert memory_recall(alice, strategy="entity", entity_urns=["sales.orders"]).data["count"] == 1
    memory_manage(alice, "update", id=made["id"], entity_urns=["refunds"])
    record.refresh_from_db()
    assert record.entity_urns == [REFUNDS]
    id = capture_insight(
        alice, insight_text="Test stores are 9001 to 9099.", category="data_quality", entity_urns=["sales.orders"]
    )["insight_id"]
    assert apply_knowledge(cora, "review", entity_urn="sales.orders")["entity_urn"] == ORDERS
    apply_knowledge(cora, "approve", insight_ids=[id])
    assert apply_knowledge(cora, "synthesize", entity_urn="sales.orders")["entity_urn"] == ORDERS
    tag = {"change_type": "add_tag", "detail": "Training"}
    applied = apply_knowledge(cora, "apply", insight_ids=[id], changes=[tag], entity_urn="sales.orders", confirm=True)
    assert applied["entity_urn"] == ORDERS
    assert apply_knowledge(cora, "list_changesets", entity_urn="sales.orders")["total"] == 1


def test_the_replacement_of_a_deprecated_entity_has_a_name_and_the_only_entity_needs_none(
    alice: Caller, cora: Caller
) -> None:
    proposal = {"insight_text": "Orders moved to the mart.", "category": "correction", "entity_urns": ["sales.orders"]}
    id = capture_insight(alice, **proposal)["insight_id"]
    apply_knowledge(cora, "approve", insight_ids=[id])
    change = {"change_type": "deprecate", "target": "sales.mart", "detail": "Use the mart."}
    applied = apply_knowledge(cora, "apply", insight_ids=[id], changes=[change], confirm=True)
    assert applied["entity_urn"] == ORDERS
    assert applied["changes"][0]["after"]["replacement"] == MART


def test_the_rest_api_takes_names(alice_user: User) -> None:
    sender = client(alice_user)
    response = post(sender, LIST, {"content": "Orders close at ten.", "entity_urns": ["sales.orders"]})
    assert response.json()["memory"]["entity_urns"] == [ORDERS]
    assert len(sender.get(LIST, {"entity_urn": "sales.orders"}).json()["items"]) == 1
    refused = post(sender, LIST, {"content": "Orders close at ten.", "entity_urns": [ORDERS, "nowhere.at.all"]})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid")
    assert refused.json()["detail"].startswith("entity_urns[1]: 'nowhere.at.all' is not in the catalog")


def test_an_ambiguous_name_lists_its_candidates(alice: Caller) -> None:
    put_table(OTHER_ORDERS, "sales.orders")
    with pytest.raises(Invalid) as error:
        catalog_entity(alice, urn="sales.orders")
    assert error.value.message == (
        f"urn: 'sales.orders' is ambiguous; allowed: sales.orders (oracle): {OTHER_ORDERS}; "
        f"sales.orders (snowflake): {ORDERS}"
    )
    put(OTHER_ORDERS, "status", {"removed": True})
    assert catalog_entity(alice, urn="sales.orders").data["entity"]["urn"] == ORDERS


def test_a_whole_name_precedes_an_end_and_the_exact_case_another(alice: Caller) -> None:
    put_table(ORDERS.replace("sales.orders", "fernhill.sales.orders"), "fernhill.sales.orders")
    put_table(capital := ORDERS.replace("sales.orders", "SALES.ORDERS"), "SALES.ORDERS")
    assert catalog_entity(alice, urn="sales.orders").data["entity"]["urn"] == ORDERS
    assert catalog_entity(alice, urn="SALES.ORDERS").data["entity"]["urn"] == capital
    with pytest.raises(Invalid, match="is ambiguous"):
        catalog_entity(alice, urn="Sales.Orders")


@pytest.mark.parametrize("name", ["orders", "Orders"])
def test_a_word_that_is_a_table_and_a_term_is_ambiguous(alice: Caller, name: str) -> None:
    term = "urn:li:glossaryTerm:orders"
    put(term, "glossaryTermInfo", {"name": "Orders", "definition": "What is bought.", "termSource": "INTERNAL"})
    with pytest.raises(Invalid, match=f"(?s)is ambiguous.*{term}"):
        catalog_entity(alice, urn=name)
    assert catalog_entity(alice, urn="sales.orders").data["entity"]["urn"] == ORDERS


@pytest.mark.parametrize("name", ["%", "sales_orders", ".orders", ".", "'; DROP TABLE x; --", "ales.orders", "urn:x"])
def test_other_texts_are_no_names(alice: Caller, name: str) -> None:
    with pytest.raises(DomainError, match=r"^entity_urns\[0\]: "):
        memory_recall(alice, strategy="entity", entity_urns=[name])


def test_a_urn_needs_no_query(django_assert_num_queries: Callable[[int], Any]) -> None:
    with django_assert_num_queries(0):
        Remember(content="Orders close at ten.", entity_urns=[ORDERS, "urn:li:tag:unknown"])


@pytest.mark.django_db(transaction=True)
def test_names_of_a_datahub_are_known_once_it_was_copied(gms: Faults, alice: Caller) -> None:
    with pytest.raises(Invalid, match=r"is a name, and names are known only once .* allowed: the URN of the entity"):
        catalog_entity(alice, urn="sales.orders")
    list(mirror(DataHubCatalog.configured()))
    assert catalog_entity(alice, urn="sales.orders").data["entity"]["urn"] == ORDERS


@pytest.mark.usefixtures("small_catalog")
def test_a_urn_that_the_catalog_lacks_is_named_with_the_nearest_entity(alice: Caller) -> None:
    """It is stored, because the catalog may get the entity later."""
    wrong = ORDERS.replace("sales.orders", "sales.orderz")
    fact = "Amounts are net of tax."
    answer = memory_manage(alice, "remember", content=fact, entity_urns=[ORDERS, wrong])
    assert answer["note"] == f"{wrong} is not in the catalog: did you mean sales.orders?"
    assert "note" not in memory_manage(alice, "remember", content="Amounts are in euros.", entity_urns=[ORDERS])
    updated = memory_manage(alice, "update", id=answer["id"], entity_urns=[wrong, MART])
    assert updated["message"] == f"updated; {wrong} is not in the catalog: did you mean sales.orders?"
    corrected = memory_manage(alice, "supersede", id=answer["id"], content="Amounts are gross.", entity_urns=[wrong])
    assert f"{wrong} is not in the catalog" in corrected["note"]

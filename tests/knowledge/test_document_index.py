"""Semantic search of documents and glossary terms."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.people.caller import Caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.search import search
from knowledge.mcp_tools.catalog import catalog_search
from knowledge.models import CatalogPassage, CatalogText
from memories.models import IndexJob
from memories.retrieval import indexing
from memory_project.models import User
from tests.knowledge.conftest import ORDERS, REFUNDS, put
from tests.pages import browser, text

pytestmark = pytest.mark.django_db
POLICY = "urn:li:document:policy"
NEEDLE = "Parcels that were broken on their way go back to the factory."
DEFINITION = "Who bought nothing for long."
FILLER = "The depot keeps its ledgers beside the printer. " * 60
QUESTION = "do parcels that were broken on their way go back to the factory"


def put_document(content: str, urn: str = POLICY, title: str = "Shipping") -> None:
    put(urn, "documentInfo", {"title": title, "contents": {"text": content}, "status": {"state": "PUBLISHED"}})


def index_all() -> None:
    while indexing.run_batch("w") != (0, 0):
        pass


def nearest(question: str, types: tuple[str, ...] = ()) -> dict[str, str]:
    """Return URN → passage of the entities that are found by meaning alone."""
    return {
        entity.urn: entity.passage for entity in search(CatalogWithoutLexicalSearch(), question, types=types).entities
    }


class CatalogWithoutLexicalSearch(LocalCatalog):
    """A catalog whose lexical search finds nothing."""

    def search(self, query: str, **options: Any) -> list[Any]:
        return []


@pytest.mark.parametrize("content", [f"{NEEDLE} {FILLER}", f"{FILLER}{NEEDLE} {FILLER}", f"{FILLER}{NEEDLE}"])
def test_a_sentence_at_any_position_is_found_and_quoted(small_catalog: None, alice: Caller, content: str) -> None:
    put_document(content)
    index_all()
    assert NEEDLE in nearest(QUESTION)[POLICY]
    (entity, *_) = catalog_search(alice, query=QUESTION)["entities"]
    assert entity["urn"] == POLICY
    assert NEEDLE in entity.get("passage", entity.get("description"))
    assert len(entity.get("description", "")) <= 300


def test_a_term_is_found_by_its_definition(small_catalog: None) -> None:
    put(
        "urn:li:glossaryTerm:lapsed",
        "glossaryTermInfo",
        {"name": "Lapsed", "definition": "Who bought nothing for long."},
    )
    index_all()
    question = "who has bought nothing for so long"
    assert nearest(question) == {"urn:li:glossaryTerm:lapsed": DEFINITION}
    assert nearest(question, ("document",)) == {}


def test_lexical_and_semantic_hits_are_fused(small_catalog: None, alice: Caller) -> None:
    put_document("Orders close at ten. Refunds are booked by hand.")
    index_all()
    names = [entity["urn"] for entity in catalog_search(alice, query="sales.orders")["entities"]]
    assert names[0] == ORDERS
    both = catalog_search(alice, query="refunds are booked by hand", limit=1)
    assert [entity["urn"] for entity in both["entities"]] == [POLICY]
    assert "note" not in both


def test_unsure_hits_come_last_and_are_marked(
    small_catalog: None, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_document("It is what they do about it.")
    index_all()
    question = "is it what they do about orders or refunds"  # all other words of the question occur in every text
    order = [entity.urn for entity in search(LocalCatalog(), question).entities]
    assert order.index(POLICY) == 1
    assert not any("unsure" in entity for entity in catalog_search(alice, query=question)["entities"])
    for number in range(5):
        put_document("It is what they do about it.", f"urn:li:document:{number}")
    index_all()
    monkeypatch.setattr("knowledge.catalog.document_index.COSINE_SURE", 1.0)
    order = [entity.urn for entity in search(LocalCatalog(), question).entities]
    assert set(order[:2]) == {ORDERS, REFUNDS}
    assert len([urn for urn in order[2:] if "document" in urn]) == 3
    entities = catalog_search(alice, query=question)["entities"]
    assert [entity.get("unsure") for entity in entities] == [None] * 3 + [True] * 3


def test_an_exact_name_comes_first(small_catalog: None) -> None:
    wordy = "urn:li:dataset:(urn:li:dataPlatform:snowflake,web.orders_log,PROD)"
    put(wordy, "datasetProperties", {"name": "orders_log", "description": "Orders, orders and orders of orders."})
    assert [entity.urn for entity in LocalCatalog().search("Orders")][:2] == [ORDERS, wordy]


def test_vectors_are_updated_when_the_text_changes(small_catalog: None) -> None:
    index_all()
    put_document(NEEDLE)
    put_document(NEEDLE, title="Shipping")
    assert IndexJob.objects.filter(status="pending").count() == 1
    index_all()
    put(POLICY, "status", {"removed": False})
    assert IndexJob.objects.exclude(status="succeeded").count() == 0
    put_document("Parcels are free of charge.")
    assert IndexJob.objects.filter(status="pending").count() == 1
    index_all()
    assert nearest(QUESTION)[POLICY] == "Parcels are free of charge."
    put(POLICY, "status", {"removed": True})
    assert POLICY not in nearest("parcels are free of charge")
    put_document("")
    assert not CatalogText.objects.filter(entity=POLICY).exists()
    assert not CatalogPassage.objects.filter(text__entity=POLICY).exists()


def test_without_embedder_documents_match_by_word_and_the_response_is_degraded(
    small_catalog: None, alice: Caller, settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    assert "note" not in catalog_search(alice, query="orders", types=["dataset"])  # data sets have no indexed texts
    put_document(NEEDLE)
    response = catalog_search(alice, query="parcels")
    assert [entity["urn"] for entity in response["entities"]] == [POLICY]
    assert response["degraded"] is True
    assert "by words alone" in response["note"]


def test_the_page_shows_the_passage_as_text(small_catalog: None, alice_user: User) -> None:
    put_document(f"{FILLER}<b>Parcels</b> that were broken on their way go back to the factory.")
    index_all()
    page = text(browser(alice_user), f"/knowledge/?q={QUESTION}")
    assert "&lt;b&gt;" in page
    assert "go back to the factory" in page
    assert "<b>" not in page.partition("<main")[2]
    assert "#:~:text=" in page
    document_page = text(browser(alice_user), f"/knowledge/entity/?urn={POLICY}")
    assert "go back to the factory" in document_page
    assert "No description yet" not in document_page

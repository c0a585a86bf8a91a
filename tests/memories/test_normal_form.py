"""Texts with full-width letters, ligatures, symbols and emoji are found by the usual letters and by the symbols."""

from __future__ import annotations

import pytest

from foundation.people.caller import Caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.review.queue import Queue
from memories.models import MemoryRecord
from memories.operations import RecallMemories, Remember
from memories.retrieval import term_statistics
from memories.retrieval.matched_words import mark_words
from memories.retrieval.recall import recall
from memories.services import remember
from tests.knowledge.graph.calls import call

TEXTS = {
    "till": "Ｓｔｏｒｅ　９０９９ is a training till.",
    "alarm": "🚨 means that the nightly load failed; 🟢 means that it is fine.",
    "ligature": "The ﬁnal oﬃce list is made on Fridays.",
    "kana": "ﾎﾟｲﾝﾄ残高は翌日に反映されます。",
    "area": "Sales area is given in m² and not in square feet.",
    "euro": "Amounts in this mart are in €, never in £.",
    "arrow": "The state moves from open → closed at night.",
    "other": "Stock snapshots are taken at two at night.",
}
QUESTIONS = [
    ("9099", "till"), ("Store 9099", "till"), ("store ９０９９", "till"), ("m2", "area"),
    ("🚨", "alarm"), ("what does 🟢 mean?", "alarm"), ("€", "euro"), ("£", "euro"), ("→", "arrow"),
    ("final office list", "ligature"), ("ポイント残高", "kana"),
]  # fmt: skip


@pytest.fixture
def stored(alice: Caller) -> dict[str, MemoryRecord]:
    records = {name: remember(alice, Remember(content=text)).record for name, text in TEXTS.items()}
    term_statistics.refresh()
    return records


@pytest.mark.django_db
@pytest.mark.parametrize("strategy", ["lexical", "auto"])
@pytest.mark.parametrize(("question", "right"), QUESTIONS)
def test_recall(alice: Caller, stored: dict[str, MemoryRecord], question: str, right: str, strategy: str) -> None:
    found = recall(alice, RecallMemories(query=question, strategy=strategy))
    assert found.hits[0].record == stored[right]


@pytest.mark.django_db
def test_the_text_stays_as_it_was_written(alice: Caller, stored: dict[str, MemoryRecord]) -> None:
    assert {record.content for record in MemoryRecord.objects.all()} == set(TEXTS.values())


@pytest.mark.django_db
def test_matches_are_marked_in_the_text_as_it_was_written(alice: Caller, stored: dict[str, MemoryRecord]) -> None:
    for question, name, marked in [("9099", "till", "９０９９"), ("🚨", "alarm", "🚨"), ("final", "ligature", "ﬁnal")]:
        (pieces,) = mark_words([(TEXTS[name], "en")], term_statistics.query_terms(question, alice))
        assert [piece.text for piece in pieces if piece.is_match] == [marked]


@pytest.mark.django_db
def test_graph(alice: Caller) -> None:
    call(
        alice,
        "create_entities",
        entities=[{"name": "Ｓｔｏｒｅ　９０９９", "entityType": "store", "observations": ["🚨 ﬁre"]}],
    )
    for query in ("9099", "store 9099", "🚨", "fire"):
        assert [entity["name"] for entity in call(alice, "search_nodes", query=query)["entities"]] == [
            "Ｓｔｏｒｅ　９０９９"
        ]
    assert call(alice, "search_nodes", query="9098")["entities"] == []


@pytest.mark.django_db
def test_the_review_list(alice: Caller, ada: Caller) -> None:
    capture(alice, Capture.read({"insight_text": TEXTS["till"], "category": "data_quality", "entity_urns": []}))
    assert [Queue(caller=ada, q=q).rows.count() for q in ("9099", "９０９９", "9098")] == [1, 1, 0]

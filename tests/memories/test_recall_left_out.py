"""What recall says about memories that it does not return: stale ones, and those that match too little."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.people.caller import Caller, system_caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import STRATEGIES, RecallMemories, Remember
from memories.rendering import as_text
from memories.responses import recall_response
from memories.retrieval.recall import recall

pytestmark = pytest.mark.django_db
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"


@pytest.fixture
def closing_times(alice: Caller) -> list[MemoryRecord]:
    """Five memories about orders, of which the last two are stale."""
    facts = [
        Remember(content=f"Orders close at {hour}.", entity_urns=[ORDERS])
        for hour in ("eight", "nine", "ten", "six", "four")
    ]
    records = [services.remember(alice, fact).record for fact in facts]
    for record in records[3:]:
        services.mark_stale(system_caller(), record_id=record.pk, reason="a column was removed")
    return records


# By meaning, a stale memory may rank behind the hits, so that only a limit that all fit in counts all of them.
@pytest.mark.parametrize(
    ("strategy", "limit"),
    [(strategy, 10) for strategy in STRATEGIES] + [("lexical", 3), ("entity", 1), ("entity", 3), ("graph", 3)],
)
def test_stale_memories_that_were_left_out_are_counted(
    alice: Caller, closing_times: list[MemoryRecord], strategy: str, limit: int
) -> None:
    asked = {"query": "orders close"} if strategy not in ("entity", "graph") else {"entity_urns": [ORDERS]}
    operation = RecallMemories.read({**asked, "strategy": strategy, "limit": limit})
    result = recall(alice, operation)
    response = recall_response(result)
    assert response["left_out"] == {"stale": 2}
    assert "left out: 2 stale" in as_text(response)


def test_auto_counts_stale_memories_about_an_entity(alice: Caller, closing_times: list[MemoryRecord]) -> None:
    asked = {"query": "closing time of orders", "entity_urns": [ORDERS]}
    assert recall(alice, RecallMemories.read(asked)).left_out == {"stale": 2}


def test_a_question_off_the_subject_finds_nothing_and_hears_how_much_was_compared(
    alice: Caller, closing_times: list[MemoryRecord], settings: Any
) -> None:
    settings.RECALL_MIN_SCORE = 0.9
    response = recall_response(recall(alice, RecallMemories(query="Who painted a sunrise?")))
    assert (response["memories"], response["left_out"]) == ([], {"below_threshold": 3})
    assert response["note"].startswith("nothing relevant found: at least 3 memories were compared")
    assert "left out: 3 below threshold" in as_text(response)


def test_the_default_threshold_silences_what_shares_no_word_and_little_meaning(
    alice: Caller, closing_times: list[MemoryRecord]
) -> None:
    result = recall(alice, RecallMemories(query="Who painted a sunrise?"))
    assert all(hit.score > 0.2 for hit in result.hits)
    assert result.below > 0

"""Passages: long texts are found, compared and quoted by their parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.people.caller import Caller
from memories import services
from memories.conversation.operations import StoreMessages
from memories.conversation.turns import store_messages
from memories.models import Passage
from memories.operations import Erase, RecallMemories, Remember, Revise
from memories.rendering import as_text
from memories.responses import recall_response
from memories.retrieval import near_duplicates, passages
from memories.retrieval.recall import recall
from memories.writing import erasure

FILLER = [f"Pallet {n} of the depot was counted by the night shift of team {n}." for n in range(60)]
NEEDLE = "Gift vouchers expire after ninety days."


def long_text(position: int, needle: str = NEEDLE) -> str:
    return " ".join([*FILLER[:position], needle, *FILLER[position:]])[:4_000]


@given(st.text(max_size=3_000))
def test_windows_cover_the_text_in_order(text: str) -> None:
    windows = passages.windows_of(text)
    assert (windows[0].start, windows[-1].stop) == (0, len(text))
    for before, after in pairwise(windows):
        assert before.start < after.start <= before.stop < after.stop
    assert all(window.stop - window.start <= passages.MAX_WHOLE for window in windows)


def test_a_short_text_is_one_passage() -> None:
    assert passages.windows_of("A short one.") == [passages.TextWindow(0, 12)]


@pytest.mark.django_db
@pytest.mark.parametrize("position", [0, 25, 50])
def test_a_sentence_at_any_position_is_found_and_quoted(alice: Caller, position: int) -> None:
    record = services.remember(alice, Remember(content=long_text(position))).record
    for n in range(5):
        services.remember(alice, Remember(content=long_text(0, f"Invoice {n} was paid in cash at the till.")))
    result = recall(alice, RecallMemories(query="vouchers expire ninety days gift"))
    assert result.hits[0].record == record
    assert NEEDLE in result.hits[0].quotation
    assert len(result.hits[0].quotation) < 400
    response = recall_response(result)
    assert response["memories"][0]["cut"] is True
    assert "memory_manage get" in as_text(response)


@pytest.mark.django_db
def test_texts_that_share_only_their_beginning_are_no_duplicates(alice: Caller) -> None:
    beginning = " ".join(FILLER[:22])
    services.remember(alice, Remember(content=beginning + " Vouchers expire. Stamps are free. Maps are green. " * 20))
    result = services.remember(alice, Remember(content=beginning + " Taxes rise. Boats sink slowly. Cats sleep. " * 20))
    assert result.similar == []
    duplicate = services.remember(alice, Remember(content=f"{result.record.content} Taxes rise."))
    assert [near.record for near in duplicate.similar] == [result.record]


def test_the_whole_cosine_is_that_of_the_less_similar_side() -> None:
    x, y, z = np.eye(3, dtype=np.float32)
    assert near_duplicates.whole_cosine(np.stack([x]), np.stack([x])) == 1.0
    assert near_duplicates.whole_cosine(np.stack([x, y]), np.stack([x, z])) == 0.5
    assert near_duplicates.whole_cosine(np.stack([x]), np.stack([x, y, z])) == pytest.approx(1 / 3)


@pytest.mark.django_db
def test_passages_are_updated_and_deleted_with_their_record(alice: Caller) -> None:
    record = services.remember(alice, Remember(content=long_text(3))).record
    assert Passage.objects.filter(record=record).count() > 5
    services.revise(alice, Revise(record_id=record.pk, content="Vouchers expire after a year."))
    assert [(p.start, p.stop) for p in Passage.objects.filter(record=record)] == [(0, 29)]
    erasure.erase(alice, Erase(record_id=record.pk, confirm=True))
    assert not Passage.objects.exists()


@pytest.mark.django_db
def test_an_outsider_finds_no_passages(alice: Caller, olga: Caller, settings: Any) -> None:
    services.remember(alice, Remember(content=long_text(3)))
    for rows in (20_000, 0):
        settings.RECALL_EXACT_SCAN_ROWS = rows
        assert recall(olga, RecallMemories(query="vouchers expire")).hits == []


@pytest.mark.django_db
def test_a_quotation_of_a_named_speaker_starts_at_the_first_letter(alice: Caller) -> None:
    """The speaker's name is embedded with the text, and is no part of the quotation."""
    operation = {"user_id": alice.email, "conversation_id": "monday"}
    message = {"role": "human", "author": "Melanie of the night shift", "content": long_text(25)}
    store_messages(alice, StoreMessages.read({**operation, "messages": [message]}))
    (hit,) = recall(alice, RecallMemories(query="vouchers expire ninety days gift")).hits
    found = Passage.objects.filter(record=hit.record, start__gt=0)
    assert hit.quotation in [hit.record.spoken[passage.start : passage.stop].strip() for passage in found]

"""Ranking of conversation turns by their neighboring turns, by speaker and date cues, and by token similarity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from foundation.embedding import Tokens
from foundation.people.caller import Caller
from memories import services
from memories.conversation.turns import Turn, store_turns
from memories.models import MemoryRecord, Passage
from memories.operations import RecallMemories, Remember
from memories.retrieval import conversation_context, token_similarity
from memories.retrieval.question_features import Cues, asks
from memories.retrieval.recall import Recall, recall

pytestmark = pytest.mark.django_db
AT = datetime(2026, 5, 7, 10, tzinfo=UTC)


def store_thread(caller: Caller, thread: str, *lines: tuple[str, str], at: datetime = AT) -> list[MemoryRecord]:
    turns = [Turn(author, text, at + timedelta(minutes=n), n) for n, (author, text) in enumerate(lines)]
    return store_turns(caller, conversation_id=thread, turns=turns, tier="ltm")


def order(result: Recall) -> list[MemoryRecord]:
    return [hit.record for hit in result.hits]


def store_unrelated_turns(caller: Caller) -> None:
    for n in range(12):
        store_thread(
            caller, f"other {n}", ("Cleo", f"The weather of day {n} is fine."), ("Dan", f"Lunch number {n} was good.")
        )


def test_a_reply_is_found_by_the_words_of_the_question_before_it(alice: Caller) -> None:
    store_unrelated_turns(alice)
    turns = store_thread(
        alice, "one",
        ("Ann", "Where did you spend the holidays in Norway?"),
        ("Ben", "In a hut beside a lake."),
        ("Ann", "That sounds quiet."),
    )  # fmt: skip
    result = recall(alice, RecallMemories(query="holidays Norway", limit=3))
    assert result.ranking == "context with tokens"
    assert turns[1] in order(result)


def test_a_long_pause_separates_turns(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    store_unrelated_turns(alice)
    first = store_thread(alice, "one", ("Ann", "The holidays in Norway begin."))
    late = Turn("Ben", "In a hut beside a lake.", AT + timedelta(days=3), 1)
    later = store_turns(alice, conversation_id="one", turns=[late], tier="ltm")
    scores = {hit.record: hit.score for hit in recall(alice, RecallMemories(query="holidays Norway", limit=50)).hits}
    monkeypatch.setattr(conversation_context, "THREAD_PAUSE", timedelta(days=10))
    joined_scores = {
        hit.record: hit.score for hit in recall(alice, RecallMemories(query="holidays Norway", limit=50)).hits
    }
    assert joined_scores[later[0]] > scores.get(later[0], 0.0) + 0.1
    assert first[0] in scores


def test_a_neighbor_that_the_caller_may_not_read_has_no_influence(alice: Caller, bob: Caller) -> None:
    store_unrelated_turns(bob)
    store_thread(alice, "one", ("Ann", "The holidays in Norway begin."))  # private to Alice
    reply = Turn("Ben", "In a hut beside a lake.", AT, 1)
    (turn,) = store_turns(bob, conversation_id="one", turns=[reply], tier="ltm")
    result = recall(bob, RecallMemories(query="holidays Norway hut", limit=50))
    assert {hit.record.created_by for hit in result.hits} == {bob.email}
    hit = next(hit for hit in result.hits if hit.record == turn)
    without_context = recall(bob, RecallMemories(query="hut", limit=50))
    assert hit.score < next(h.score for h in without_context.hits if h.record == turn)


def test_turns_without_bits_are_ranked_without_tokens(alice: Caller) -> None:
    store_thread(alice, "one", ("Ann", "The holidays in Norway begin."), ("Ben", "In a hut."))
    Passage.objects.update(token_bits=None)
    result = recall(alice, RecallMemories(query="holidays Norway"))
    assert (result.ranking, len(result.hits)) == ("context", 2)


def test_turns_with_vectors_of_another_model_are_ranked_by_their_words(alice: Caller) -> None:
    store_thread(alice, "one", ("Ann", "The holidays in Norway begin."), ("Ben", "In a hut."))
    MemoryRecord.objects.update(embedding_model="another model")
    result = recall(alice, RecallMemories(query="holidays Norway"))
    assert (result.ranking, len(result.hits)) == ("context", 2)
    assert [hit.cosine for hit in result.hits] == [None, None]


def test_without_vectors_the_words_of_neighbors_still_count(alice: Caller, settings: Any) -> None:
    turns = store_thread(alice, "one", ("Ann", "The holidays in Norway begin."), ("Ben", "In a hut beside a lake."))
    settings.EMBEDDING_PROVIDER = "none"
    result = recall(alice, RecallMemories(query="holidays Norway"))
    assert (result.ranking, result.degraded, order(result)) == ("lexical", True, turns)


def test_facts_are_ranked_without_context(alice: Caller) -> None:
    services.remember(alice, Remember(content="Orders close at ten."))
    assert recall(alice, RecallMemories(query="orders close")).ranking == "hybrid"


def test_turns_of_a_named_speaker_come_first(alice: Caller) -> None:
    turns = store_thread(alice, "one", ("Ann", "I like the green tea."), at=AT)
    turns += store_thread(alice, "two", ("Ben", "I like the green tea."), at=AT)
    assert order(recall(alice, RecallMemories(query="What tea does Ben like?")))[0] == turns[1]
    assert order(recall(alice, RecallMemories(query="What tea does Ann like?")))[0] == turns[0]


def test_turns_of_a_named_date_come_first(alice: Caller) -> None:
    may = store_thread(alice, "one", ("Ann", "I like the green tea."), at=AT)
    june = store_thread(alice, "two", ("Ann", "I like the green tea."), at=AT.replace(month=6))
    assert order(recall(alice, RecallMemories(query="What tea was liked in June?")))[0] == june[0]
    assert order(recall(alice, RecallMemories(query="What tea was liked on 7 May?")))[0] == may[0]


@pytest.mark.parametrize(
    ("question", "month", "day", "year"),
    [
        ("What happened on 7 May 2023?", 5, 7, 2023),
        ("Was war am 3. März?", 3, 3, 0),
        ("On June 12th", 6, 12, 0),
        ("in 2021", 0, 0, 2021),
        ("about orders of 40 pieces", 0, 0, 0),
    ],
)
def test_dates_are_recognized_in_a_question(question: str, month: int, day: int, year: int) -> None:
    cues = Cues.of(question)
    assert (cues.month, cues.day, cues.year) == (month, day, year)


def test_questions_about_a_time_are_recognized() -> None:
    assert Cues.of("When did Ann move?").time("She moved last week.")
    assert not Cues.of("When did Ann move?").time("She moved far.")
    assert not Cues.of("Why did Ann move?").time("She moved last week.")
    assert (asks("Really?"), asks("Really.")) == (True, False)


def test_sign_bits_estimate_the_cosine() -> None:
    dice = np.random.default_rng(3)
    states = dice.standard_normal((40, 384)).astype(np.float32)
    near = states + 0.5 * dice.standard_normal((40, 384)).astype(np.float32)
    question = Tokens([f"w{n}" for n in range(40)], states, np.ones(40, dtype=np.float32))
    bits = [token_similarity.bits_of(Tokens(["x"], near[n : n + 1], np.ones(1, dtype=np.float32))) for n in range(40)]
    estimates = token_similarity.similarities(question, [*bits, None])
    lengths = np.linalg.norm(states, axis=1) * np.linalg.norm(near, axis=1)
    cosines = (states * near).sum(axis=1) / lengths
    assert np.abs(np.diag(estimates[:, :40]) - cosines).max() < 0.12
    assert (estimates[:, 40] == 0).all()


def test_weights_of_a_question_sum_to_one_and_favour_rare_words() -> None:
    pieces = Tokens(["the", "norway"], np.ones((2, 8), dtype=np.float32), np.array([0.1, 4.0], dtype=np.float32))
    weights = token_similarity.weights_of(pieces, {"norway": 3.0})
    assert weights.sum() == pytest.approx(1.0)
    assert weights[1] > 0.8


def test_conversations_of_one_name_are_separate_per_owner(alice: Caller, bob: Caller) -> None:
    store_unrelated_turns(bob)
    reply = Turn("Ben", "In a hut beside a lake.", AT, 1)
    (turn,) = store_turns(bob, conversation_id="one", turns=[reply], tier="ltm", visibility="persona")
    operation = {"query": "holidays Norway hut", "limit": 50}
    before = {hit.record: hit.score for hit in recall(bob, RecallMemories.read(operation)).hits}[turn]
    begin = Turn("Ann", "The lake begins here, and the sky.", AT, 0)
    store_turns(alice, conversation_id="one", turns=[begin], tier="ltm", visibility="persona")
    after = next(hit for hit in recall(bob, RecallMemories.read(operation)).hits if hit.record == turn)
    opening = Turn("Ann", "The lake begins here, and the sky.", AT, 0)
    store_turns(bob, conversation_id="one", turns=[opening], tier="ltm", visibility="persona")
    joined = next(hit for hit in recall(bob, RecallMemories.read(operation)).hits if hit.record == turn)
    assert (after.score == pytest.approx(before, abs=0.02), joined.score == pytest.approx(after.score, abs=0.001)) == (
        True,
        False,
    )

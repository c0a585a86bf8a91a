"""Entities with many observations: lean responses, and embeddings that a worker computes."""

from __future__ import annotations

import pytest

from foundation import embedding
from foundation.embedding import Vectors
from foundation.people.caller import Caller
from knowledge.graph.models import Observation, ObservationPassage
from memories import tasks
from tests.knowledge.graph.calls import call, names

pytestmark = pytest.mark.django_db
COUNT = 100


def texts(count: int = COUNT) -> list[str]:
    return [f"The harbour crane number {n} was greased on Monday." for n in range(count)]


@pytest.fixture
def hub(alice: Caller) -> str:
    call(alice, "create_entities", entities=[{"name": "Harbour", "observations": texts()}])
    return "Harbour"


def test_a_write_to_a_hub_returns_only_what_it_added(alice: Caller, hub: str) -> None:
    new = "A seagull sat on the wall."
    added = call(alice, "add_observations", name=hub, observations=[new, texts()[0]])["entity"]
    assert (added["observations"], added["omitted_observations"]) == ([new], COUNT)
    (merged,) = call(alice, "create_entities", entities=[{"name": hub, "observations": ["It closed."]}])["entities"]
    assert (merged["observations"], merged["omitted_observations"]) == (["It closed."], COUNT + 1)
    deleted = call(alice, "delete_observations", name=hub, observations=[new])["entity"]
    assert (deleted["observations"], deleted["omitted_observations"]) == ([], COUNT + 1)


def test_a_short_entity_is_returned_as_a_whole(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": "Short", "observations": ["one"]}])
    assert call(alice, "add_observations", name="Short", observations=["two"])["entity"]["observations"] == [
        "one",
        "two",
    ]
    (found,) = call(alice, "search_nodes", query="two")["entities"]
    assert (found["observations"], "omitted_observations" in found) == (["one", "two"], False)


def test_ten_long_texts_are_too_much_to_be_returned_as_a_whole(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": "Long", "observations": [f"{n} {'x' * 1_500}" for n in "ab"]}])
    added = call(alice, "add_observations", name="Long", observations=["c"])["entity"]
    assert (added["observations"], added["omitted_observations"]) == (["c"], 2)


def test_a_search_returns_the_observations_of_a_hub_that_matched(alice: Caller, hub: str) -> None:
    (found,) = call(alice, "search_nodes", query="NUMBER 42")["entities"]
    assert (found["observations"], found["omitted_observations"]) == ([texts()[42]], COUNT - 1)
    (found,) = call(alice, "search_nodes", query="harbour crane")["entities"]
    assert (found["observations"], found["omitted_observations"]) == (texts(20), COUNT - 20)
    (opened,) = call(alice, "open_nodes", names=[hub])["entities"]
    assert opened["observations"] == texts()


@pytest.mark.parametrize("is_embedded", [True, False])
def test_a_search_by_meaning_returns_the_observations_of_a_hub_that_matched(
    alice: Caller, hub: str, *, is_embedded: bool
) -> None:
    new = "Violin lessons are in the old school."
    call(alice, "add_observations", name=hub, observations=[new])
    if is_embedded:
        run_worker()
    (found,) = call(alice, "search_semantic", query="violin lessons")["results"]
    assert new in found["observations"]
    assert len(found["observations"]) <= 6
    assert found["omitted_observations"] == COUNT + 1 - len(found["observations"])


def run_worker() -> None:
    for _ in range(10):
        if tasks.run_index_jobs().startswith("0 "):
            return


def count_embedded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counts: list[int] = []
    embed_tokens = embedding.embed_tokens

    def counting(texts: list[str], *arguments: object, **options: object) -> tuple[Vectors, object, str]:
        counts.append(len(texts))
        return embed_tokens(texts, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(embedding, "embed_tokens", counting)
    return counts


def test_many_new_texts_are_left_to_a_worker_and_found_at_once(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_embedded(monkeypatch)
    entities = [{"name": f"e{n}", "observations": [text, f"Also {text}"]} for n, text in enumerate(texts(50))]
    call(alice, "create_entities", entities=entities)
    call(alice, "add_observations", name="e0", observations=[f"New {text}" for text in texts()])
    assert counts == []
    assert names(call(alice, "search_nodes", query="crane number 49 was")) == ["e0", "e49"]
    run_worker()
    assert ObservationPassage.objects.count() == sum(counts) == 200


def test_up_to_ten_new_texts_are_embedded_at_once(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_embedded(monkeypatch)
    call(alice, "create_entities", entities=[{"name": "a", "observations": texts(10)}])
    call(alice, "add_observations", name="a", observations=[f"New {text}" for text in texts(10)])
    assert (sum(counts), ObservationPassage.objects.count()) == (20, 20)


def test_a_worker_flags_near_duplicates_of_texts_that_waited(alice: Caller, hub: str) -> None:
    call(
        alice, "add_observations", name=hub, observations=[*(f"{n}{n}{n} violins" for n in range(11)), "Greased Monday"]
    )
    assert not Observation.objects.filter(similarity_flag=True).exists()
    run_worker()
    flagged = call(alice, "consolidation_report")["flagged_observations"]
    assert "Greased Monday" in [row["observation_text"] for row in flagged]  # a part of an earlier one
    assert not Observation.objects.filter(is_flag_due=True).exists()

"""What is found by meaning: observations, with the limbic score, and reflections."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge.graph.models import Entity, Observation
from knowledge.graph.search import rebuild
from memories.contract.errors import Invalid, NotFound
from memories.identity.caller import Caller
from tests.knowledge.graph.calls import call, names, space

pytestmark = pytest.mark.django_db


def test_a_reflection_is_added_and_found(alice: Caller) -> None:
    space(alice)
    text = "This entity represents the core architectural decision that shaped the entire project."
    number = Entity.objects.get(name="Astro").number
    operation = {"target_type": "entity", "target_id": number, "content": text, "author": "nolan", "mood": "insight"}
    result = call(alice, "add_reflection", **operation)["result"]
    assert {key: result[key] for key in operation} == operation
    call(alice, "add_reflection", target_type="session", content="A quiet day with little to say.")
    query = "architecture decisions that shaped the project"
    answer = call(alice, "search_reflections", query=query, author="nolan")["results"]
    assert [entry["id"] for entry in answer] == [result["id"]]
    assert 0 < answer[0]["score"] <= 1
    (entity,) = call(alice, "open_nodes", names=["Astro"])["entities"]
    assert entity["reflections"][0]["content"] == text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"target_type": "planet", "content": "x"}, "target_type: 'planet' is unknown"),
        ({"target_type": "entity", "content": "x"}, "target_id: is missing"),
        ({"target_type": "entity", "content": "x", "target_id": 99}, "Entity not found: 99"),
        ({"target_type": "global", "content": "x", "target_id": 1}, "target_id: is not accepted"),
        ({"target_type": "global", "content": " "}, "content: is missing"),
        ({"target_type": "global", "content": "x", "mood": "angry"}, "mood: 'angry' is unknown"),
        ({"target_type": "global", "content": "x", "author": "me"}, "author: 'me' is unknown"),
    ],
)
def test_a_wrong_reflection_is_refused(alice: Caller, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises((Invalid, NotFound)) as refused:
        call(alice, "add_reflection", **arguments)
    assert refused.value.message.startswith(fault)


def test_what_literal_search_reads_can_be_rebuilt(alice: Caller) -> None:
    space(alice)
    for model in (Entity, Observation):
        model.objects.update(folded="", grams=[])
    assert not names(call(alice, "search_nodes", query="starlight"))
    assert rebuild.rebuild().startswith("graphs: 2 entities and 2 observations")
    for query in ("starlight", "cachorrospace"):
        assert names(call(alice, "search_nodes", query=query)) == ["CachorroSpace"]
    assert rebuild.rebuild().startswith("graphs: 0 entities and 0 observations")

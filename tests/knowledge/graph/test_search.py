"""Semantic search of observations with the limbic score, and reflections."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.graph.models import Entity, Observation
from knowledge.graph.operations import AddReflection
from knowledge.graph.search import rebuild
from knowledge.graph.search.trigrams import grams
from tests.knowledge.graph.calls import call, create_space, names

pytestmark = pytest.mark.django_db


def test_a_reflection_is_added_and_found(alice: Caller) -> None:
    create_space(alice)
    text = "This entity represents the core architectural decision that shaped the entire project."
    number = Entity.objects.get(name="Astro").number
    operation = {"target_type": "entity", "target_id": number, "content": text, "author": "nolan", "mood": "insight"}
    result = call(alice, "add_reflection", **operation)["result"]
    assert {key: result[key] for key in operation} == operation
    call(alice, "add_reflection", target_type="session", content="A quiet day with little to say.")
    query = "architecture decisions that shaped the project"
    results = call(alice, "search_reflections", query=query, author="nolan")["results"]
    assert [entry["id"] for entry in results] == [result["id"]]
    assert 0 < results[0]["score"] <= 1
    (entity,) = call(alice, "open_nodes", names=["Astro"])["entities"]
    assert entity["reflections"][0]["content"] == text


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"target_type": "planet", "content": "x"}, "target_type: 'planet' is unknown"),
        ({"target_type": "entity", "content": "x"}, "target_id: is missing"),
        ({"target_type": "entity", "content": "x", "target_id": 99}, "Entity not found: 99"),
        ({"target_type": "global", "content": "x", "target_id": 1}, "target_id: is not accepted"),
        (
            {"target_type": "entity", "content": "x", "target_id": 1, "entity_name": "Alder"},
            "entity_name: contradicts target_id",
        ),
        (
            {"target_type": "relation", "content": "x", "entity_name": "Alder"},
            "entity_name: is not accepted for a relation",
        ),
        ({"target_type": "global", "content": " "}, "content: is missing"),
        ({"target_type": "global", "content": "x", "mood": "x" * 31}, "mood: has 31 characters"),
        ({"target_type": "global", "content": "x", "author": "x" * 61}, "author: has 61 characters"),
    ],
)
def test_an_invalid_reflection_is_rejected(alice: Caller, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises((Invalid, NotFound)) as caught:
        call(alice, "add_reflection", **arguments)
    assert caught.value.message.startswith(fault)


def test_a_search_for_an_unknown_type_of_target_is_an_error(alice: Caller) -> None:
    with pytest.raises(Invalid, match="target_type: 'entitiy' is unknown"):
        call(alice, "search_reflections", query="a day", target_type="entitiy")


def test_the_author_of_a_reflection_is_its_writer(alice: Caller, bob: Caller) -> None:
    team = [replace(caller, graph="sales") for caller in (alice, bob)]
    for caller in team:
        result = call(caller, "add_reflection", target_type="global", content="A good day.")["result"]
        assert (result["author"], "written_by" in result) == (caller.email, False)
    quote = {"target_type": "global", "content": "A bad day.", "author": bob.email, "mood": "weltschmerz"}
    result = call(team[0], "add_reflection", **quote)["result"]
    assert (result["author"], result["written_by"], result["mood"]) == (bob.email, alice.email, "weltschmerz")

    def found(**filters: str) -> list[tuple[str, str]]:
        results = call(team[0], "search_reflections", query="day", **filters)["results"]
        return sorted((entry["content"], entry["author"]) for entry in results)

    assert found(author=alice.email) == [("A bad day.", bob.email), ("A good day.", alice.email)]
    assert found(author=bob.email) == [("A bad day.", bob.email), ("A good day.", bob.email)]
    assert found(mood="Weltschmerz") == [("A bad day.", bob.email)]


def test_moods_are_suggested_but_not_limited() -> None:
    schema = AddReflection.input_schema()["properties"]
    assert "enum" not in schema["mood"]
    assert all(mood in schema["mood"]["description"] for mood in settings.GRAPH_MOODS)


def test_the_columns_of_literal_search_can_be_rebuilt(alice: Caller) -> None:
    create_space(alice)
    for model in (Entity, Observation):
        model.objects.update(folded="", grams=[])
    assert not names(call(alice, "search_nodes", query="starlight"))
    assert rebuild.rebuild().startswith("graphs: 2 entities and 2 observations")
    for query in ("starlight", "cachorrospace"):
        assert names(call(alice, "search_nodes", query=query)) == ["CachorroSpace"]
    assert rebuild.rebuild().startswith("graphs: 0 entities and 0 observations")


def test_a_rebuild_loses_no_entity_that_is_renamed_meanwhile(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    create_space(alice)
    Entity.objects.filter(name="Astro").update(folded="", grams=[])
    entity_text = rebuild.entity_text

    def rename_meanwhile(name: str, entity_type: str) -> str:
        monkeypatch.undo()
        entity = Entity.objects.get(name="Astro")
        entity.name, entity.folded = "Comet", rebuild.entity_text("Comet", entity.entity_type)
        entity.grams = grams(entity.folded)
        entity.save()
        return entity_text(name, entity_type)

    monkeypatch.setattr(rebuild, "entity_text", rename_meanwhile)
    rebuild.rebuild()
    entity = Entity.objects.get(name="Comet")
    assert entity.folded == rebuild.entity_text("Comet", entity.entity_type)

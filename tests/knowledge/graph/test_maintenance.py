"""Entity splits, duplicate observations and the consolidation report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Conflict, Invalid
from foundation.people.caller import Caller
from knowledge.graph.models import Entity, Observation
from tests.knowledge.graph.calls import call
from tests.knowledge.graph.crowds import create_crowd

pytestmark = pytest.mark.django_db


def test_an_entity_of_several_topics_is_split(alice: Caller) -> None:
    texts = create_crowd(alice)
    analysis = call(alice, "analyze_entity_split", entity_name="Crowd")["analysis"]
    assert (analysis["observation_count"], analysis["threshold"], analysis["needs_split"]) == (28, 25, True)
    assert sorted(text for topic in analysis["topics"].values() for text in topic) == sorted(texts)
    proposal = call(alice, "propose_entity_split", entity_name="Crowd")
    splits = proposal["proposal"]["suggested_splits"]
    assert all(split["name"].startswith("Crowd - ") for split in splits)
    assert {relation["type"] for relation in proposal["proposal"]["relations_to_create"]} == {"contiene", "parte_de"}
    before = Observation.objects.get(text=splits[0]["observations"][0]).created_at
    response = call(alice, "execute_entity_split", entity_name="Crowd", approved_splits=splits[:1])["result"]
    moved = len(splits[0]["observations"])
    assert response == {
        "new_entities": [splits[0]["name"]],
        "moved_observations": moved,
        "relations_created": 2,
        "original_observations_remaining": 28 - moved,
    }
    row = Observation.objects.get(text=splits[0]["observations"][0])
    assert (row.entity.name, row.created_at) == (splits[0]["name"], before)
    assert call(alice, "search_semantic", query=splits[0]["observations"][0])["results"][0]["name"] == row.entity.name


def test_reads_of_the_time_before_a_split_show_the_observations_at_their_former_entity(alice: Caller) -> None:
    texts = create_crowd(alice, 4)
    instants = [timezone.now()]
    for source, target, moved in (("Crowd", "Part", texts[1:3]), ("Part", "Part of part", texts[2:3])):
        part = {"name": target, "entity_type": "t", "observations": moved}
        call(alice, "execute_entity_split", entity_name=source, approved_splits=[part])
        instants.append(timezone.now())
    call(alice, "delete_observations", name="Part of part", observations=texts[2:3])

    def read(**arguments: Any) -> dict[str, list[str]]:
        entities = call(alice, "read_graph", **arguments)["entities"]
        opened = call(alice, "open_nodes", names=["Crowd", "Part", "Part of part"], **arguments)["entities"]
        assert [entity["observations"] for entity in opened] == [entity["observations"] for entity in entities]
        return {entity["name"]: entity["observations"] for entity in entities}

    assert [read(as_of=instant.isoformat()) for instant in instants] == [
        {"Crowd": texts},
        {"Crowd": [texts[0], texts[3]], "Part": texts[1:3]},
        {"Crowd": [texts[0], texts[3]], "Part": texts[1:2], "Part of part": texts[2:3]},
    ]
    assert read() == {"Crowd": [texts[0], texts[3]], "Part": texts[1:2], "Part of part": []}


def test_many_observations_of_one_topic_need_no_split(alice: Caller) -> None:
    """An older system split every entity with many observations."""
    texts = [f"Revenue excludes refunds and shipping, note {n}." for n in range(30)]
    call(alice, "create_entities", entities=[{"name": "One", "entityType": "Proyecto", "observations": texts}])
    assert call(alice, "analyze_entity_split", entity_name="One")["analysis"]["needs_split"] is False
    response = call(alice, "propose_entity_split", entity_name="One")
    assert response == {"proposal": None, "message": "Entity does not need splitting"}
    assert call(alice, "find_split_candidates") == {"candidates": []}


def test_a_split_is_all_or_nothing(alice: Caller) -> None:
    texts = create_crowd(alice)
    good = {"name": "A", "entity_type": "Proyecto", "observations": texts[:2]}
    for bad, error in (
        ({**good, "name": "B", "observations": ["never said"]}, Invalid),
        ({**good, "name": "B"}, Invalid),  # the first split already moved these observations
        ({**good, "name": "Crowd", "observations": texts[2:3]}, Conflict),
    ):
        with pytest.raises(error):
            call(alice, "execute_entity_split", entity_name="Crowd", approved_splits=[good, bad])
    assert list(Entity.objects.values_list("name", flat=True)) == ["Crowd"]
    assert Observation.objects.filter(entity__name="Crowd").count() == 28


def test_duplicates_are_returned_as_pairs_and_clusters(alice: Caller) -> None:
    long = "Stack: FastMCP + SQLite + ONNX Runtime for embeddings"
    texts = ["Deployed on Vercel, custom domain", "Deployed on Vercel, custom domain!", long, "FastMCP", "Unrelated."]
    call(alice, "create_entities", entities=[{"name": "P", "observations": texts}])
    response = call(alice, "find_duplicate_observations", entity_name="P")
    kinds = {(p["obs_text_a"], p["obs_text_b"]): p["match_type"] for p in response["duplicate_pairs"]}
    assert kinds[texts[0], texts[1]] == "cosine"
    assert kinds[long, "FastMCP"] == "containment"
    assert (response["entity_name"], response["total_observations"]) == ("P", 5)
    assert {cluster["size"] for cluster in response["clusters"]} == {2}


def test_observations_that_differ_in_a_fact_are_no_duplicates(alice: Caller) -> None:
    texts = ["Deployed on Vercel since 2024 by the web team", "Deployed on Vercel since 2025 by the web team"]
    call(alice, "create_entities", entities=[{"name": "P", "observations": texts}])
    call(alice, "add_observations", name="P", observations=["Not deployed on Vercel since 2024 by the web team"])
    assert call(alice, "find_duplicate_observations", entity_name="P", threshold=0.5)["duplicate_pairs"] == []
    assert not Observation.objects.filter(similarity_flag=True).exists()


def test_the_report_contains_counts_and_stale_entities(alice: Caller) -> None:
    create_crowd(alice)
    call(alice, "add_observations", name="Crowd", observations=["Invoices of the paper mill, note number 0"])
    Entity.objects.update(created_at=timezone.now() - timedelta(days=145))
    response = call(alice, "consolidation_report", stale_days=90)
    assert response["summary"] == {
        "total_entities": 1,
        "total_observations": 29,
        "split_candidates_count": 1,
        "flagged_observations_count": 1,
        "stale_entities_count": 1,
        "large_entities_count": 0,
    }
    assert response["stale_entities"][0]["last_accessed_days_ago"] == 145
    assert call(alice, "consolidation_report", stale_days=200)["stale_entities"] == []

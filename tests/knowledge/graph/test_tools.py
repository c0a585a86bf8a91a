"""Graph tools: the examples of the contract word for word, limits, and defects known from older systems."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.graph import tasks
from knowledge.graph.models import CoOccurrence, Entity, Observation, Relation
from knowledge.graph.search import access_counts, access_ranking
from tests.knowledge.graph.calls import SPACE, call, create_space, names, plain

pytestmark = pytest.mark.django_db


# -- entities --------------------------------------------------------------------------------------------


def test_creating_an_existing_entity_merges_its_observations(alice: Caller) -> None:
    assert [plain(e) for e in call(alice, "create_entities", entities=[SPACE])["entities"]] == [SPACE]
    again = {"name": "CachorroSpace", "observations": ["New", "New", SPACE["observations"][0]]}
    (entity,) = call(alice, "create_entities", entities=[again])["entities"]
    assert entity["observations"] == [*SPACE["observations"], "New"]
    assert (entity["entityType"], entity["status"]) == ("Project", "active")  # omitted fields keep their values


def test_one_invalid_item_rejects_the_whole_call(alice: Caller) -> None:
    with pytest.raises(Invalid, match=r"entities\[1\].name: is missing"):
        call(alice, "create_entities", entities=[SPACE, {"entityType": "Project"}])
    assert not Entity.objects.exists()


@pytest.mark.parametrize(
    ("entities", "fault"),
    [
        ([{"name": f"e{n}"} for n in range(51)], "entities: has 51 entries"),
        ([{"name": "e", "observations": ["x"] * 101}], "entities[0].observations: has 101 entries"),
        ([{"name": "e", "observations": ["x" * 2_001]}], "entities[0].observations[0]: has 2001 characters"),
        ([{"name": ""}], "entities[0].name: is missing"),
        ([{"name": "a\x00b"}], "entities[0].name: contains a NUL"),
    ],
)
def test_limits_are_named_in_errors(alice: Caller, entities: list[Any], fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        call(alice, "create_entities", entities=entities)
    assert refused.value.message.startswith(fault)


def test_a_deletion_returns_deleted_and_missing_entities(alice: Caller) -> None:
    create_space(alice)
    response = call(alice, "delete_entities", entityNames=["Astro", "Already Deleted Entity"])
    assert response == {"deleted": ["Astro"], "errors": ["Entity not found: Already Deleted Entity"]}
    (again,) = call(alice, "create_entities", entities=[{"name": "Astro"}])["entities"]
    assert again["observations"] == []


# -- observations ----------------------------------------------------------------------------------------


def test_observations_are_added_and_deleted_in_both_argument_formats(alice: Caller) -> None:
    create_space(alice)
    texts = ["ECharts 6.x chosen for visualizations", "Accent color: teal (#2dd4bf)"]
    response = call(alice, "add_observations", name="CachorroSpace", observations=texts)
    assert response["entity"]["observations"] == [*SPACE["observations"], *texts]
    additions = [{"entityName": "CachorroSpace", "contents": ["x", texts[0]]}]
    response = call(alice, "add_observations", observations=additions)
    assert response == {"results": [{"entityName": "CachorroSpace", "addedObservations": ["x"]}]}
    call(alice, "delete_observations", deletions=[{"entityName": "CachorroSpace", "observations": ["x"]}])
    response = call(alice, "delete_observations", name="CachorroSpace", observations=[texts[1], "unknown"])
    assert response["entity"]["observations"] == [*SPACE["observations"], texts[0]]


def test_a_deletion_names_what_it_did_not_find(alice: Caller) -> None:
    create_space(alice)
    text = SPACE["observations"][0]
    response = call(alice, "delete_observations", name="CachorroSpace", observations=[text.upper(), text])
    assert response["errors"] == [f"CachorroSpace has no observation with exactly this text: {text.upper()}"]
    assert text not in response["entity"]["observations"]
    deletions = [
        {"entityName": "CachoroSpace", "observations": ["x"]},
        {"entityName": "CachorroSpace", "observations": ["y" * 100]},
    ]
    response = call(alice, "delete_observations", deletions=deletions)
    assert response["results"] == [{"entityName": "CachorroSpace"}]
    assert response["errors"] == [
        "Entity not found: CachoroSpace",
        f"CachorroSpace has no observation with exactly this text: {'y' * 60}…",
    ]
    assert "errors" not in call(
        alice, "delete_observations", name="CachorroSpace", observations=SPACE["observations"][1:]
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "NonExistentEntity", "observations": ["x"]}, "Entity not found: NonExistentEntity"),
        ({"observations": ["x"]}, "name: is missing"),
        ({"observations": ["x", {"entityName": "a", "contents": []}]}, "observations: mixes"),
        ({"observations": [{"contents": ["x"]}]}, "observations[0].entityName: is missing"),
    ],
)
def test_an_error_names_the_invalid_observation(alice: Caller, arguments: dict[str, Any], error: str) -> None:
    create_space(alice)
    with pytest.raises((NotFound, Invalid)) as refused:
        call(alice, "add_observations", **arguments)
    assert refused.value.message.startswith(error)


def test_a_superseded_observation_is_returned_on_request(alice: Caller) -> None:
    create_space(alice)
    first = Observation.objects.get(text=SPACE["observations"][0])
    call(alice, "add_observations", name="CachorroSpace", observations=["Stack: Astro 7"], supersedes=first.number)
    (entity,) = call(alice, "open_nodes", names=["CachorroSpace"])["entities"]
    assert entity["observations"] == [SPACE["observations"][1], "Stack: Astro 7"]
    (entity,) = call(alice, "open_nodes", names=["CachorroSpace"], include_superseded=True)["entities"]
    assert entity["observations"][0] == SPACE["observations"][0]
    with pytest.raises(NotFound):
        call(alice, "add_observations", name="Astro", observations=["x"], supersedes=first.number)


# -- relations -------------------------------------------------------------------------------------------


def test_relations_are_created_ended_and_created_again(alice: Caller) -> None:
    create_space(alice)
    uses_astro = {"from": "CachorroSpace", "to": "Astro", "relationType": "uses"}
    (relation,) = call(alice, "create_relations", relations=[uses_astro])["relations"]
    assert {key: relation[key] for key in uses_astro} == uses_astro
    again = call(alice, "create_relations", relations=[uses_astro])
    assert again == {"relations": [{**uses_astro, "error": "Relation already exists"}]}
    refused = call(alice, "create_relations", relations=[{**uses_astro, "to": "NonExistentEntity"}])
    text = "Entity not found: NonExistentEntity"
    assert refused == {"relations": [{"error": text}], "errors": [text]}
    ending = call(alice, "end_relation", relation_id=relation["id"])
    assert ending["result"] == f"Relation {relation['id']} expired successfully"
    assert call(alice, "end_relation", relation_id=relation["id"])["relation"]["ended_at"]
    # the older system refused this
    (relation_again,) = call(alice, "create_relations", relations=[uses_astro])["relations"]
    assert relation_again["id"] != relation["id"]
    assert call(alice, "delete_relations", relations=[uses_astro]) == {"deleted": [uses_astro]}
    response = call(alice, "delete_relations", relations=[uses_astro, {**uses_astro, "from": "Nobody"}])
    assert response["errors"] == [
        "Relation not found: CachorroSpace -> Astro (uses)",
        "Entity not found: Nobody or Astro",
    ]


def test_an_inverse_is_created_and_ended_with_its_relation(alice: Caller) -> None:
    create_space(alice)
    part = {"from": "CachorroSpace", "to": "Astro", "relationType": "contiene"}
    (relation,) = call(alice, "create_relations", relations=[part])["relations"]
    inverse = Relation.objects.get(relation_type="parte_de")
    assert call(alice, "end_relation", relation_id=relation["id"])["inverse_expired_id"] == inverse.number
    assert not Relation.objects.filter(ended_at=None).exists()


def test_ended_relations_are_returned_on_request(alice: Caller) -> None:
    create_space(alice)
    before = timezone.now()
    made = []
    for kind in ("uses", "deletes", "is built with"):
        edge = {"from": "CachorroSpace", "to": "Astro", "relationType": kind}
        made += call(alice, "create_relations", relations=[edge])["relations"]
    call(alice, "delete_relations", relations=[{"from": "CachorroSpace", "to": "Astro", "relationType": "deletes"}])
    ended = call(alice, "end_relation", relation_id=made[0]["id"])["relation"]
    ended_at = timezone.now().isoformat()
    call(alice, "end_relation", relation_id=made[2]["id"])
    reads: list[tuple[str, dict[str, Any]]] = [
        ("read_graph", {}), ("open_nodes", {"names": ["Astro"]}), ("search_nodes", {"query": "astro"})
    ]  # fmt: skip
    for tool, arguments in reads:
        assert call(alice, tool, **arguments)["relations"] == []
        both = call(alice, tool, **arguments, include_ended=True)["relations"]
        assert both[0] == ended
        assert [relation["relationType"] for relation in both] == ["uses", "is built with"]
        if tool != "search_nodes":
            then = call(alice, tool, **arguments, include_ended=True, as_of=ended_at)["relations"]
            assert [relation["relationType"] for relation in then] == ["uses", "is built with"]
            then = call(alice, tool, **arguments, include_ended=True, as_of=before.isoformat())["relations"]
            assert then == []
    call(alice, "delete_entities", entityNames=["Astro"])
    assert call(alice, "read_graph", include_ended=True)["relations"] == []  # would show the name of a deleted entity
    Relation.objects.update(deleted_at=timezone.now() - timedelta(days=60))
    tasks.purge()
    assert not Relation.objects.exists()


# -- search and reading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["astro", "ASTRO 6", "cachorro.space", "project", "0.38"])
def test_search_finds_parts_of_names_types_and_texts(alice: Caller, query: str) -> None:
    create_space(alice)
    assert "CachorroSpace" in names(call(alice, "search_nodes", query=query))


@pytest.mark.parametrize(("query", "hits"), [("%", ["percent"]), ("_", ["under_score"]), ("É", ["école"]), ("zz", [])])
def test_search_is_literal_and_handles_special_characters(alice: Caller, query: str, hits: list[str]) -> None:
    entities = [{"name": "percent", "observations": ["100 %"]}, {"name": "under_score"}, {"name": "école"}]
    call(alice, "create_entities", entities=entities)
    assert names(call(alice, "search_nodes", query=query)) == hits


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"query": ""}, "query: is missing; allowed: text of 1 to 500 characters"),
        ({"query": "  "}, "query: is missing; allowed: 1 to 500 characters"),
        ({"query": [""]}, "query: is a list; allowed: text of 1 to 500 characters"),
        ({"query": "x" * 6_000}, "query: has 6000 characters; allowed: 1 to 500 characters"),
        ({"query": "x", "tier": "ltm"}, "tier: is not an argument of this tool; allowed: query, limit, cursor, incl"),
    ],
)
def test_an_error_does_not_refuse_what_it_allows(alice: Caller, arguments: dict[str, Any], fault: str) -> None:
    create_space(alice)
    with pytest.raises(Invalid) as refused:
        call(alice, "search_nodes", **arguments)
    assert refused.value.message.startswith(fault)


def test_search_and_read_are_paged(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": f"node {n}"} for n in range(5)])
    for tool, arguments in (("search_nodes", {"query": "node"}), ("read_graph", {})):
        first = call(alice, tool, limit=3, **arguments)
        second = call(alice, tool, limit=3, cursor=first["next_cursor"], **arguments)
        assert names(first) + names(second) == [f"node {n}" for n in range(5)]
        assert "next_cursor" not in second


def test_deleted_texts_are_not_found_but_visible_as_of_earlier(alice: Caller) -> None:
    create_space(alice)
    before = timezone.now()
    call(alice, "delete_observations", name="CachorroSpace", observations=[SPACE["observations"][0]])
    call(alice, "delete_entities", entityNames=["Astro"])
    assert names(call(alice, "search_nodes", query="Starlight")) == []
    earlier = call(alice, "read_graph", as_of=before.isoformat())
    assert names(earlier) == ["CachorroSpace", "Astro"]
    assert earlier["entities"][0]["observations"] == SPACE["observations"]
    Observation.objects.filter(ended_at__isnull=False).update(ended_at=timezone.now() - timedelta(days=60))
    Entity.objects.filter(deleted_at__isnull=False).update(deleted_at=timezone.now() - timedelta(days=60))
    assert tasks.purge() >= 2
    assert not Observation.objects.filter(text=SPACE["observations"][0]).exists()


def test_open_returns_entities_in_the_requested_order_with_relations(alice: Caller) -> None:
    create_space(alice)
    call(alice, "create_relations", relations=[{"from": "CachorroSpace", "to": "Astro", "relationType": "uses"}])
    response = call(alice, "open_nodes", names=["Astro", "nobody", "CachorroSpace"])
    assert names(response) == ["Astro", "CachorroSpace"]
    # each relation is listed once, although both of its ends are opened
    assert [(relation["from"], relation["to"]) for relation in response["relations"]] == [("CachorroSpace", "Astro")]
    assert not any("relations" in entity for entity in response["entities"])


# -- semantic search -------------------------------------------------------------------------------------


def test_semantic_search_returns_the_keys_of_the_contract(alice: Caller) -> None:
    create_space(alice)
    call(alice, "create_entities", entities=[{"name": "Bakery", "observations": ["Bread at six in the morning."]}])
    results = call(alice, "search_semantic", query="deployed on Vercel", limit=5)["results"]
    best = results[0]
    assert best["name"] == "CachorroSpace"
    assert set(best["scoring"]) == {"importance", "temporal_factor", "cooc_boost"}
    assert 0 <= best["distance"] <= 2
    assert best["rrf_score"] == pytest.approx(2 / 61, abs=1e-6)
    assert best["limbic_score"] == max(result["limbic_score"] for result in results)


def test_the_limbic_formula(alice: Caller) -> None:
    create_space(alice)
    first, second = Entity.objects.order_by("number")
    now = timezone.now()
    Entity.objects.filter(pk=first.pk).update(access_count=7, access_days=3, last_access=now)
    Entity.objects.filter(pk=second.pk).update(access_count=1, access_days=1, last_access=now - timedelta(hours=1_000))
    a, b = sorted((first, second), key=lambda entity: entity.pk)
    CoOccurrence.objects.create(first=a, second=b, count=3, last_at=now)
    entities = list(Entity.objects.order_by("number"))
    scores = access_ranking.scores({entity.pk: 0.5 for entity in entities}, entities)
    expected = 0.5 * (1 + 0.5 * 1 * 1 * 1.2) * 1.0 * (1 + 0.01 * 2)
    assert scores[first.pk].score == pytest.approx(expected, rel=1e-3)
    importance = (1 / 3) * (1 + 0.2 * (1 / 2))
    assert scores[second.pk].importance == pytest.approx(importance, rel=1e-3)
    assert scores[second.pk].temporal == pytest.approx(0.9048, rel=1e-3)


def test_accesses_and_co_occurrences_are_counted(alice: Caller) -> None:
    create_space(alice)
    pks = list(Entity.objects.values_list("pk", flat=True))
    access_counts.count(pks)
    access_counts.count(pks)
    entity = Entity.objects.order_by("number")[0]
    assert (entity.access_count, entity.access_days) == (3, 1)
    assert CoOccurrence.objects.get().count == 2

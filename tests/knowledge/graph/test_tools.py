"""The graph's tools: the contract's examples word for word, its limits, and what the older systems got wrong."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from knowledge import insights
from knowledge.graph import jsonl, tasks
from knowledge.graph.finding import limbic, uses
from knowledge.graph.mcp_tools import TOOLS
from knowledge.graph.models import CoOccurrence, Entity, Graph, Observation, Relation
from knowledge.graph.neighbours import neighbours
from memories.access import Caller
from memories.contract.errors import Conflict, Forbidden, Invalid, NotFound
from tests.memory_project.test_mcp_server import as_caller

pytestmark = pytest.mark.django_db
TOOL = {tool.name: tool for tool in TOOLS}
SPACE = {
    "name": "CachorroSpace",
    "entityType": "Project",
    "observations": ["Stack: Astro 6.x + Starlight 0.38.x", "Deployed on Vercel at cachorro.space"],
}


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    return TOOL[tool](caller, **arguments)


def space(caller: Caller) -> None:
    call(caller, "create_entities", entities=[SPACE, {"name": "Astro", "entityType": "Framework"}])


def plain(entity: dict[str, Any]) -> dict[str, Any]:
    return {key: entity[key] for key in ("name", "entityType", "observations")}


def names(answer: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in answer["entities"]]


# -- entities ---------------------------------------------------------------------------------------------


def test_creating_answers_the_entity_and_again_merges(alice: Caller) -> None:
    assert [plain(e) for e in call(alice, "create_entities", entities=[SPACE])["entities"]] == [SPACE]
    again = {"name": "CachorroSpace", "observations": ["New", "New", SPACE["observations"][0]]}
    (entity,) = call(alice, "create_entities", entities=[again])["entities"]
    assert entity["observations"] == [*SPACE["observations"], "New"]
    assert (entity["entityType"], entity["status"]) == ("Project", "active")  # neither is reset by saying nothing


def test_a_wrong_item_keeps_the_others_out_too(alice: Caller) -> None:
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
def test_limits_are_told(alice: Caller, entities: list[Any], fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        call(alice, "create_entities", entities=entities)
    assert refused.value.message.startswith(fault)


def test_deleting_answers_what_worked_and_what_did_not(alice: Caller) -> None:
    space(alice)
    answer = call(alice, "delete_entities", entityNames=["Astro", "Already Deleted Entity"])
    assert answer == {"deleted": ["Astro"], "errors": ["Entity not found: Already Deleted Entity"]}
    (again,) = call(alice, "create_entities", entities=[{"name": "Astro"}])["entities"]
    assert again["observations"] == []


# -- observations -----------------------------------------------------------------------------------------


def test_observations_are_added_and_deleted_in_both_shapes(alice: Caller) -> None:
    space(alice)
    texts = ["ECharts 6.x chosen for visualizations", "Accent color: teal (#2dd4bf)"]
    answer = call(alice, "add_observations", name="CachorroSpace", observations=texts)
    assert answer["entity"]["observations"] == [*SPACE["observations"], *texts]
    shape = [{"entityName": "CachorroSpace", "contents": ["x", texts[0]]}]
    answer = call(alice, "add_observations", observations=shape)
    assert answer == {"results": [{"entityName": "CachorroSpace", "addedObservations": ["x"]}]}
    call(alice, "delete_observations", deletions=[{"entityName": "CachorroSpace", "observations": ["x"]}])
    answer = call(alice, "delete_observations", name="CachorroSpace", observations=[texts[1], "unknown"])
    assert answer["entity"]["observations"] == [*SPACE["observations"], texts[0]]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": "NonExistentEntity", "observations": ["x"]}, "Entity not found: NonExistentEntity"),
        ({"observations": ["x"]}, "name: is missing"),
        ({"observations": ["x", {"entityName": "a", "contents": []}]}, "observations: mixes"),
        ({"observations": [{"contents": ["x"]}]}, "observations[0].entityName: is missing"),
    ],
)
def test_adding_says_what_is_wrong(alice: Caller, arguments: dict[str, Any], error: str) -> None:
    space(alice)
    with pytest.raises((NotFound, Invalid)) as refused:
        call(alice, "add_observations", **arguments)
    assert refused.value.message.startswith(error)


def test_a_superseded_observation_is_shown_on_request(alice: Caller) -> None:
    space(alice)
    first = Observation.objects.get(text=SPACE["observations"][0])
    call(alice, "add_observations", name="CachorroSpace", observations=["Stack: Astro 7"], supersedes=first.number)
    (entity,) = call(alice, "open_nodes", names=["CachorroSpace"])["entities"]
    assert entity["observations"] == [SPACE["observations"][1], "Stack: Astro 7"]
    (entity,) = call(alice, "open_nodes", names=["CachorroSpace"], include_superseded=True)["entities"]
    assert entity["observations"][0] == SPACE["observations"][0]
    with pytest.raises(NotFound):
        call(alice, "add_observations", name="Astro", observations=["x"], supersedes=first.number)


# -- relations --------------------------------------------------------------------------------------------


def test_relations_are_created_reported_ended_and_created_again(alice: Caller) -> None:
    space(alice)
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
    (relation_again,) = call(alice, "create_relations", relations=[uses_astro])["relations"]  # theirs never could again
    assert relation_again["id"] != relation["id"]
    assert call(alice, "delete_relations", relations=[uses_astro]) == {"deleted": [uses_astro]}
    answer = call(alice, "delete_relations", relations=[uses_astro, {**uses_astro, "from": "Nobody"}])
    assert answer["errors"] == [
        "Relation not found: CachorroSpace -> Astro (uses)",
        "Entity not found: Nobody or Astro",
    ]


def test_an_inverse_comes_and_ends_with_its_relation(alice: Caller) -> None:
    space(alice)
    part = {"from": "CachorroSpace", "to": "Astro", "relationType": "contiene"}
    (relation,) = call(alice, "create_relations", relations=[part])["relations"]
    inverse = Relation.objects.get(relation_type="parte_de")
    assert call(alice, "end_relation", relation_id=relation["id"])["inverse_expired_id"] == inverse.number
    assert not Relation.objects.filter(ended_at=None).exists()


# -- reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["astro", "ASTRO 6", "cachorro.space", "project", "0.38"])
def test_search_finds_parts_of_names_types_and_texts(alice: Caller, query: str) -> None:
    space(alice)
    assert "CachorroSpace" in names(call(alice, "search_nodes", query=query))


@pytest.mark.parametrize(
    ("query", "hits"), [("%", ["percent"]), ("_", ["under_score"]), ("É", ["école"]), ("  ", None), ("zz", [])]
)
def test_search_is_literal_and_knows_every_script(alice: Caller, query: str, hits: list[str] | None) -> None:
    entities = [{"name": "percent", "observations": ["100 %"]}, {"name": "under_score"}, {"name": "école"}]
    call(alice, "create_entities", entities=entities)
    answer = names(call(alice, "search_nodes", query=query))
    assert answer == (hits if hits is not None else ["percent", "under_score", "école"])


def test_search_and_read_are_paged(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": f"node {n}"} for n in range(5)])
    for tool, arguments in (("search_nodes", {"query": "node"}), ("read_graph", {})):
        first = call(alice, tool, limit=3, **arguments)
        rest = call(alice, tool, limit=3, cursor=first["next_cursor"], **arguments)
        assert names(first) + names(rest) == [f"node {n}" for n in range(5)]
        assert "next_cursor" not in rest


def test_deleted_texts_are_not_found_and_were_there(alice: Caller) -> None:
    space(alice)
    before = timezone.now()
    call(alice, "delete_observations", name="CachorroSpace", observations=[SPACE["observations"][0]])
    call(alice, "delete_entities", entityNames=["Astro"])
    assert names(call(alice, "search_nodes", query="Starlight")) == []
    then = call(alice, "read_graph", as_of=before.isoformat())
    assert names(then) == ["CachorroSpace", "Astro"]
    assert then["entities"][0]["observations"] == SPACE["observations"]
    Observation.objects.filter(ended_at__isnull=False).update(ended_at=timezone.now() - timedelta(days=60))
    Entity.objects.filter(deleted_at__isnull=False).update(deleted_at=timezone.now() - timedelta(days=60))
    assert tasks.purge() >= 2
    assert not Observation.objects.filter(text=SPACE["observations"][0]).exists()


def test_open_answers_in_the_order_asked_with_relations(alice: Caller) -> None:
    space(alice)
    call(alice, "create_relations", relations=[{"from": "CachorroSpace", "to": "Astro", "relationType": "uses"}])
    answer = call(alice, "open_nodes", names=["Astro", "nobody", "CachorroSpace"])
    assert names(answer) == ["Astro", "CachorroSpace"]
    assert answer["entities"][0]["relations"][0]["direction"] == "to"
    assert answer["relations"][0]["from"] == "CachorroSpace"


# -- meaning ----------------------------------------------------------------------------------------------


def test_semantic_search_answers_the_contract_s_keys(alice: Caller) -> None:
    space(alice)
    call(alice, "create_entities", entities=[{"name": "Bakery", "observations": ["Bread at six in the morning."]}])
    results = call(alice, "search_semantic", query="deployed on Vercel", limit=5)["results"]
    best = results[0]
    assert best["name"] == "CachorroSpace"
    assert set(best["scoring"]) == {"importance", "temporal_factor", "cooc_boost"}
    assert 0 <= best["distance"] <= 2
    assert best["rrf_score"] == pytest.approx(2 / 61, abs=1e-6)
    assert best["limbic_score"] == max(result["limbic_score"] for result in results)


def test_the_limbic_formula(alice: Caller) -> None:
    space(alice)
    first, second = Entity.objects.order_by("number")
    now = timezone.now()
    Entity.objects.filter(pk=first.pk).update(access_count=7, access_days=3, last_access=now)
    Entity.objects.filter(pk=second.pk).update(access_count=1, access_days=1, last_access=now - timedelta(hours=1_000))
    a, b = sorted((first, second), key=lambda entity: entity.pk)
    CoOccurrence.objects.create(first=a, second=b, count=3, last_at=now)
    entities = list(Entity.objects.order_by("number"))
    scores = limbic.scores({entity.pk: 0.5 for entity in entities}, entities, {})
    expected = 0.5 * (1 + 0.5 * 1 * 1 * 1.2) * 1.0 * (1 + 0.01 * 2)
    assert scores[first.pk].score == pytest.approx(expected, rel=1e-3)
    importance = (1 / 3) * (1 + 0.2 * (1 / 2))
    assert scores[second.pk].importance == pytest.approx(importance, rel=1e-3)
    assert scores[second.pk].temporal == pytest.approx(0.9048, rel=1e-3)


def test_uses_and_pairs_are_counted_by_a_worker(alice: Caller) -> None:
    space(alice)
    pks = list(Entity.objects.values_list("pk", flat=True))
    uses.count(pks)
    uses.count(pks)
    entity = Entity.objects.order_by("number")[0]
    assert (entity.access_count, entity.access_days) == (3, 1)
    assert CoOccurrence.objects.get().count == 2


# -- upkeep -----------------------------------------------------------------------------------------------


def crowd(caller: Caller, count: int = 28, entity_type: str = "Proyecto") -> list[str]:
    kinds = ("Invoices of the paper mill", "Seagulls over the harbour wall", "Violin lessons in the old school")
    texts = [f"{kinds[n % 3]}, note number {n}." for n in range(count)]
    call(caller, "create_entities", entities=[{"name": "Crowd", "entityType": entity_type, "observations": texts}])
    return texts


def test_an_entity_of_several_topics_is_analyzed_proposed_and_split(alice: Caller) -> None:
    texts = crowd(alice)
    analysis = call(alice, "analyze_entity_split", entity_name="Crowd")["analysis"]
    assert (analysis["observation_count"], analysis["threshold"], analysis["needs_split"]) == (28, 25, True)
    assert sorted(text for topic in analysis["topics"].values() for text in topic) == sorted(texts)
    proposal = call(alice, "propose_entity_split", entity_name="Crowd")
    splits = proposal["proposal"]["suggested_splits"]
    assert all(split["name"].startswith("Crowd - ") for split in splits)
    assert {relation["type"] for relation in proposal["proposal"]["relations_to_create"]} == {"contiene", "parte_de"}
    before = Observation.objects.get(text=splits[0]["observations"][0]).created_at
    answer = call(alice, "execute_entity_split", entity_name="Crowd", approved_splits=splits[:1])["result"]
    moved = len(splits[0]["observations"])
    assert answer == {
        "new_entities": [splits[0]["name"]],
        "moved_observations": moved,
        "relations_created": 2,
        "original_observations_remaining": 28 - moved,
    }
    row = Observation.objects.get(text=splits[0]["observations"][0])
    assert (row.entity.name, row.created_at) == (splits[0]["name"], before)
    assert call(alice, "search_semantic", query=splits[0]["observations"][0])["results"][0]["name"] == row.entity.name


def test_many_observations_of_one_topic_need_no_split(alice: Caller) -> None:
    """The older system split whatever was long."""
    texts = [f"Revenue excludes refunds and shipping, note {n}." for n in range(30)]
    call(alice, "create_entities", entities=[{"name": "One", "entityType": "Proyecto", "observations": texts}])
    assert call(alice, "analyze_entity_split", entity_name="One")["analysis"]["needs_split"] is False
    answer = call(alice, "propose_entity_split", entity_name="One")
    assert answer == {"proposal": None, "message": "Entity does not need splitting"}
    assert call(alice, "find_split_candidates") == {"candidates": []}


def test_a_split_is_all_or_nothing(alice: Caller) -> None:
    texts = crowd(alice)
    good = {"name": "A", "entity_type": "Proyecto", "observations": texts[:2]}
    for bad, error in (
        ({**good, "name": "B", "observations": ["never said"]}, Invalid),
        ({**good, "name": "B"}, Invalid),  # the first split has taken them
        ({**good, "name": "Crowd", "observations": texts[2:3]}, Conflict),
    ):
        with pytest.raises(error):
            call(alice, "execute_entity_split", entity_name="Crowd", approved_splits=[good, bad])
    assert list(Entity.objects.values_list("name", flat=True)) == ["Crowd"]
    assert Observation.objects.filter(entity__name="Crowd").count() == 28


def test_duplicates_are_pairs_and_clusters(alice: Caller) -> None:
    long = "Stack: FastMCP + SQLite + ONNX Runtime for embeddings"
    texts = ["Deployed on Vercel, custom domain", "Deployed on Vercel, custom domain!", long, "FastMCP", "Unrelated."]
    call(alice, "create_entities", entities=[{"name": "P", "observations": texts}])
    answer = call(alice, "find_duplicate_observations", entity_name="P")
    kinds = {(p["obs_text_a"], p["obs_text_b"]): p["match_type"] for p in answer["duplicate_pairs"]}
    assert kinds[texts[0], texts[1]] == "cosine"
    assert kinds[long, "FastMCP"] == "containment"
    assert (answer["entity_name"], answer["total_observations"]) == ("P", 5)
    assert {cluster["size"] for cluster in answer["clusters"]} == {2}


def test_the_report_counts_and_lists(alice: Caller) -> None:
    crowd(alice)
    call(alice, "add_observations", name="Crowd", observations=["Invoices of the paper mill, note number 0"])
    Entity.objects.update(created_at=timezone.now() - timedelta(days=145))
    answer = call(alice, "consolidation_report", stale_days=90)
    assert answer["summary"] == {
        "total_entities": 1,
        "total_observations": 29,
        "split_candidates_count": 1,
        "flagged_observations_count": 1,
        "stale_entities_count": 1,
        "large_entities_count": 0,
    }
    assert answer["stale_entities"][0]["last_accessed_days_ago"] == 145
    assert call(alice, "consolidation_report", stale_days=200)["stale_entities"] == []


# -- reflections ------------------------------------------------------------------------------------------


def test_a_reflection_is_added_and_found(alice: Caller) -> None:
    space(alice)
    text = "This entity represents the core architectural decision that shaped the entire project."
    number = Entity.objects.get(name="Astro").number
    ask = {"target_type": "entity", "target_id": number, "content": text, "author": "nolan", "mood": "insight"}
    result = call(alice, "add_reflection", **ask)["result"]
    assert {key: result[key] for key in ask} == ask
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
        ({"target_type": "global", "content": "x", "target_id": 1}, "target_id: is not taken"),
        ({"target_type": "global", "content": " "}, "content: is missing"),
        ({"target_type": "global", "content": "x", "mood": "angry"}, "mood: 'angry' is unknown"),
        ({"target_type": "global", "content": "x", "author": "me"}, "author: 'me' is unknown"),
    ],
)
def test_a_wrong_reflection_is_refused(alice: Caller, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises((Invalid, NotFound)) as refused:
        call(alice, "add_reflection", **arguments)
    assert refused.value.message.startswith(fault)


# -- files, graphs, concurrency ---------------------------------------------------------------------------

LINES = [
    {"type": "relation", "from": "a", "to": "b", "relationType": "knows"},  # before its entities
    {"type": "entity", "name": "a", "entityType": "person", "observations": ["one", "two"]},
    {"type": "entity", "name": "b", "entityType": "person", "observations": []},
]


def test_a_file_is_imported_once_and_written_back(alice: Caller, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    rubbish = ['{"type": "entity"', "[]", '{"type": "entity", "name": ""}', '{"type": "relation", "from": "a"}', ""]
    file.write_text("\n".join([*(json.dumps(line) for line in LINES), *rubbish]))
    answer = call(alice, "migrate", source_path=str(file))
    assert answer == {"entities_imported": 2, "relations_imported": 1, "errors": 1, "skipped": 3}
    again = call(alice, "migrate", source_path=str(file))
    assert (again["entities_imported"], again["relations_imported"]) == (0, 0)
    assert [json.loads(line) for line in jsonl.export_lines(alice)] == [*LINES[1:], LINES[0]]


def test_a_path_is_read_over_stdio_alone(alice: Caller) -> None:
    remote = replace(alice, door="mcp-http")
    with pytest.raises(Invalid, match="over stdio alone"):
        jsonl.migrate(source_path="/etc/passwd", caller=remote)
    text = "\n".join(json.dumps(line) for line in LINES)
    assert jsonl.migrate(jsonl=text, caller=remote).entities == 2
    with pytest.raises(Invalid, match="source_path is required"):
        call(alice, "migrate")


def test_each_person_has_a_graph_and_a_persona_may_share_one(alice: Caller, bob: Caller, olga: Caller) -> None:
    space(alice)
    for outsider in (bob, olga):
        assert call(outsider, "read_graph") == {"entities": [], "relations": []}
        assert call(outsider, "search_nodes", query="Astro") == {"entities": [], "relations": []}
        assert call(outsider, "search_semantic", query="Astro") == {"results": []}
        with pytest.raises(NotFound):
            call(outsider, "add_observations", name="Astro", observations=["x"])
    shared_a, shared_b = replace(alice, graph="sales"), replace(bob, graph="sales")
    call(shared_a, "create_entities", entities=[{"name": "Team"}])
    assert names(call(shared_b, "read_graph")) == ["Team"]
    assert names(call(alice, "read_graph")) == ["CachorroSpace", "Astro"]
    with pytest.raises(Forbidden):
        call(replace(olga, graph="sales"), "read_graph")


def test_entities_with_a_urn_tell_recall_what_is_near(alice: Caller, bob: Caller) -> None:
    orders, refunds = (
        "urn:li:dataset:(urn:li:dataPlatform:x,orders,PROD)",
        "urn:li:dataset:(urn:li:dataPlatform:x,r,PROD)",
    )
    call(alice, "create_entities", entities=[{"name": "O", "urn": orders}, {"name": "R", "urn": refunds}])
    call(alice, "create_relations", relations=[{"from": "R", "to": "O", "relationType": "subtracts from"}])
    assert neighbours(alice, [orders]) == ({refunds: 1}, "")
    assert neighbours(bob, [orders]) == ({}, "")


def test_an_observation_becomes_an_insight(alice: Caller, bob: Caller) -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:x,orders,PROD)"
    call(alice, "create_entities", entities=[{"name": "Orders", "urn": urn, "observations": ["One row an order."]}])
    number = Observation.objects.get().number
    insight = insights.capture(caller=alice, category="business_context", observation_id=number).insight
    assert (insight.record.content, insight.record.entity_urns) == ("Orders: One row an order.", [urn])
    assert insight.record.metadata == {"observation_id": number, "graph_entity": "Orders"}
    with pytest.raises(NotFound):
        insights.capture(caller=bob, category="business_context", observation_id=number)


@pytest.mark.django_db(transaction=True)
def test_forty_calls_at_once_keep_forty(alice: Caller) -> None:
    def create(n: int) -> None:
        try:
            call(alice, "create_entities", entities=[{"name": f"e{n}", "observations": [f"o{n}"]}])
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(create, range(40)))
    assert Entity.objects.count() == Observation.objects.count() == 40
    assert Graph.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_the_other_names_of_two_tools_are_taken(alice: Caller) -> None:
    async def act(client: Any) -> Any:
        await client.call_tool("create_entities", {"entities": [SPACE]})
        tool_names = [tool.name for tool in (await client.list_tools()).tools]
        return tool_names, await client.call_tool("propose_entity_split_tool", {"entity_name": "CachorroSpace"})

    tool_names, answer = as_caller(alice, act, toolsets=["graph"])
    assert len(tool_names) == 20
    assert "propose_entity_split_tool" not in tool_names
    assert answer.structured_content["proposal"] is None

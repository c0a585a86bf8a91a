"""Graphs: ownership and sharing, import and export, use by recall and insights, and concurrent calls."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.graph import jsonl
from knowledge.graph.catalog_links import neighbors
from knowledge.graph.models import Entity, Graph, Observation
from knowledge.graph.operations import Migrate
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from tests.knowledge.graph.calls import SPACE, call, create_space, names
from tests.mcp_client import as_caller

pytestmark = pytest.mark.django_db


LINES = [
    {"type": "relation", "from": "a", "to": "b", "relationType": "knows"},  # precedes its entities
    {"type": "entity", "name": "a", "entityType": "person", "observations": ["one", "two"]},
    {"type": "entity", "name": "b", "entityType": "person", "observations": []},
]


def test_a_file_is_imported_once_and_exported(alice: Caller, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    invalid_lines = [
        '{"type": "entity"',
        "[]",
        '{"type": "entity", "name": ""}',
        '{"type": "relation", "from": "a"}',
        "",
    ]
    file.write_text("\n".join([*(json.dumps(line) for line in LINES), *invalid_lines]))
    response = call(alice, "migrate", source_path=str(file))
    problems = response.pop("problems")
    assert response == {"entities_imported": 2, "relations_imported": 1, "errors": 1, "skipped": 3}
    assert problems == [
        "line 4: is not JSON in UTF-8",
        "line 5: is neither an entity nor a relation",
        "line 6: name is blank",
        "line 7: to is missing",
    ]
    again = call(alice, "migrate", source_path=str(file))
    assert (again["entities_imported"], again["relations_imported"]) == (0, 0)
    assert [json.loads(line) for line in jsonl.export_lines(alice)] == [*LINES[1:], LINES[0]]


def test_paths_are_accepted_only_over_stdio(alice: Caller) -> None:
    remote = replace(alice, channel="mcp-http")
    with pytest.raises(Invalid, match="over stdio only"):
        jsonl.migrate(remote, Migrate.read({"source_path": "/etc/passwd"}))
    text = "\n".join(json.dumps(line) for line in LINES)
    assert jsonl.migrate(remote, Migrate(jsonl=text)).entities == 2
    with pytest.raises(Invalid, match="source_path is required"):
        call(alice, "migrate")
    with pytest.raises(Invalid, match="jsonl is required"):
        jsonl.migrate(remote, Migrate.read({}))


def test_each_person_has_a_graph_and_a_persona_may_share_one(alice: Caller, bob: Caller, olga: Caller) -> None:
    create_space(alice)
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


def test_relations_between_entities_with_urns_are_neighbors_in_recall(alice: Caller, bob: Caller) -> None:
    orders, refunds = (
        "urn:li:dataset:(urn:li:dataPlatform:x,orders,PROD)",
        "urn:li:dataset:(urn:li:dataPlatform:x,r,PROD)",
    )
    call(alice, "create_entities", entities=[{"name": "O", "urn": orders}, {"name": "R", "urn": refunds}])
    call(alice, "create_relations", relations=[{"from": "R", "to": "O", "relationType": "subtracts from"}])
    assert neighbors(alice, [orders]) == ({refunds: 1}, "")
    assert neighbors(bob, [orders]) == ({}, "")


def test_an_observation_becomes_an_insight(alice: Caller, bob: Caller) -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:x,orders,PROD)"
    call(alice, "create_entities", entities=[{"name": "Orders", "urn": urn, "observations": ["One row an order."]}])
    number = Observation.objects.get().number
    insight = capture(alice, Capture(category="business_context", observation_id=number)).insight
    assert (insight.record.content, insight.record.entity_urns) == ("Orders: One row an order.", [urn])
    assert insight.record.metadata == {"observation_id": number, "graph_entity": "Orders"}
    with pytest.raises(NotFound):
        capture(bob, Capture.read({"category": "business_context", "observation_id": number}))


@pytest.mark.django_db(transaction=True)
def test_forty_concurrent_calls_create_forty_entities(alice: Caller) -> None:
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
def test_alternative_tool_names_are_accepted_but_not_listed(alice: Caller) -> None:
    async def action(client: Any) -> Any:
        await client.call_tool("create_entities", {"entities": [SPACE]})
        tool_names = [tool.name for tool in (await client.list_tools()).tools]
        return tool_names, await client.call_tool("propose_entity_split_tool", {"entity_name": "CachorroSpace"})

    tool_names, response = as_caller(alice, action, toolsets=["graph"])
    assert len(tool_names) == 20
    assert "propose_entity_split_tool" not in tool_names
    assert response.structured_content["proposal"] is None

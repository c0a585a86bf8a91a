"""The profile that replaces Anthropic's memory server: its advertised tools, and its behaviour call by call."""

from __future__ import annotations

import asyncio
import json
import random
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from mcp import Client

from foundation.people.caller import Caller
from knowledge.graph import anthropic
from knowledge.graph.models import Entity, ObservationPassage
from memories import tasks
from memory_project.mcp.server import build_server
from memory_project.models import User
from tests.mcp_client import environment

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.django_db(transaction=True)
CONTRACT = Path(anthropic.__file__).with_name("anthropic.json")
ALICE = {"name": "Alice", "entityType": "person", "observations": ["works at Acme Corp", "likes Programming"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
ACME = {"name": "Acme", "entityType": "company", "observations": ["makes Anvils"]}
KNOWS = {"from": "Alice", "to": "Bob", "relationType": "knows"}
WORKS = {"from": "Alice", "to": "Acme", "relationType": "works at"}


class Session:
    """Calls tools of the profile. Returns the structured content of each call."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def run(self, action: Any) -> Any:
        async def main() -> Any:
            server = build_server(profile="anthropic", identify=lambda request: self.caller)
            async with Client(server) as client:
                return await action(client)

        try:
            return asyncio.run(main())
        finally:
            connections.close_all()

    def calls(self, *requests: tuple[str, dict[str, Any]]) -> list[Any]:
        async def action(client: Any) -> Any:
            return [await client.call_tool(tool, arguments) for tool, arguments in requests]

        return list(self.run(action))

    def __call__(self, tool: str, **arguments: Any) -> Any:
        (response,) = self.calls((tool, arguments))
        assert not response.is_error, response.content[0].text
        return response.structured_content


@pytest.fixture
def memory(alice: Caller) -> Session:
    return Session(alice)


@pytest.fixture
def filled(memory: Session) -> Session:
    memory.calls(
        ("create_entities", {"entities": [ALICE, BOB, ACME]}), ("create_relations", {"relations": [KNOWS, WORKS]})
    )
    return memory


def names(graph: dict[str, Any]) -> list[str]:
    return [entity["name"] for entity in graph["entities"]]


def test_the_profile_advertises_the_nine_original_tools(memory: Session) -> None:
    listing = memory.run(lambda client: client.list_tools())
    entries = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listing.tools]
    contract = json.loads(CONTRACT.read_text())["tools"]
    assert [entry["name"] for entry in entries] == [tool["name"] for tool in contract]
    for entry, tool in zip(entries, contract, strict=True):
        for key in ("title", "description", "inputSchema", "outputSchema"):
            assert entry[key] == tool[key], (tool["name"], key)
        assert {k: entry["annotations"][k] for k in tool["annotations"]} == tool["annotations"]


def test_create_entities_returns_new_entities_and_keeps_existing_ones(memory: Session) -> None:
    assert memory("create_entities", entities=[ALICE, BOB]) == {"entities": [ALICE, BOB]}
    robot = {**ALICE, "entityType": "robot", "observations": ["is new"]}
    assert memory("create_entities", entities=[robot, ACME]) == {"entities": [ACME]}
    assert memory("open_nodes", names=["Alice"])["entities"] == [ALICE]
    assert memory("create_entities", entities=[]) == {"entities": []}


def test_text_content_equals_the_original(memory: Session) -> None:
    creation, deletion, reading = memory.calls(
        ("create_entities", {"entities": [ALICE]}), ("delete_entities", {"entityNames": ["x"]}), ("read_graph", {})
    )
    assert json.loads(creation.content[0].text) == [ALICE]
    assert creation.content[0].text.startswith("[\n  {")
    assert deletion.content[0].text == "Entities deleted successfully"
    assert json.loads(reading.content[0].text) == reading.structured_content


def test_create_relations_returns_new_relations_and_accepts_missing_entities(memory: Session) -> None:
    memory("create_entities", entities=[ALICE])
    assert memory("create_relations", relations=[KNOWS]) == {"relations": [KNOWS]}  # Bob does not exist yet
    assert memory("create_relations", relations=[KNOWS]) == {"relations": []}
    graph = memory("read_graph")
    assert (names(graph), graph["relations"]) == (["Alice"], [KNOWS])
    assert memory("create_entities", entities=[BOB]) == {"entities": [BOB]}  # the dangling relation did not create Bob
    assert names(memory("read_graph")) == ["Alice", "Bob"]


def test_add_observations_adds_new_texts_or_fails_completely(filled: Session) -> None:
    response = filled("add_observations", observations=[{"entityName": "Bob", "contents": ["a", "b"]}])
    assert response == {"results": [{"entityName": "Bob", "addedObservations": ["a", "b"]}]}
    response = filled("add_observations", observations=[{"entityName": "Bob", "contents": ["b", "c"]}])
    assert response["results"][0]["addedObservations"] == ["c"]
    additions = [{"entityName": "Alice", "contents": ["x"]}, {"entityName": "Nobody", "contents": ["x"]}]
    (response,) = filled.calls(("add_observations", {"observations": additions}))
    assert response.is_error
    assert "Entity with name Nobody not found" in response.content[0].text
    assert filled("open_nodes", names=["Alice"])["entities"] == [ALICE]


def test_deletions_cascade_and_ignore_missing_items(filled: Session) -> None:
    assert filled("delete_entities", entityNames=["Bob", "Nobody"])["success"] is True
    graph = filled("read_graph")
    assert (names(graph), graph["relations"]) == (["Alice", "Acme"], [WORKS])
    deletions = [
        {"entityName": "Alice", "observations": ["likes Programming", "x"]},
        {"entityName": "No", "observations": []},
    ]
    assert filled("delete_observations", deletions=deletions)["message"] == "Observations deleted successfully"
    assert filled("open_nodes", names=["Alice"])["entities"][0]["observations"] == ["works at Acme Corp"]
    assert filled("delete_relations", relations=[WORKS, KNOWS])["message"] == "Relations deleted successfully"
    assert filled("read_graph")["relations"] == []


@pytest.mark.parametrize(
    ("query", "hits", "relations"),
    [
        ("alice", ["Alice"], [KNOWS, WORKS]),  # by name, ignoring case
        ("company", ["Acme"], [WORKS]),  # by type, with relations that have one end among the hits
        ("programming", ["Alice"], [KNOWS, WORKS]),
        ("Bob", ["Bob"], [KNOWS]),
        ("nothing like it", [], []),
        ("", ["Alice", "Bob", "Acme"], [KNOWS, WORKS]),
    ],
)
def test_search_nodes(filled: Session, query: str, hits: list[str], relations: list[Any]) -> None:
    graph = filled("search_nodes", query=query)
    assert (names(graph), graph["relations"]) == (hits, relations)


@pytest.mark.parametrize(
    ("wanted_names", "hits", "relations"),
    [
        (["Bob"], ["Bob"], [KNOWS]),
        (["Acme", "Alice"], ["Alice", "Acme"], [KNOWS, WORKS]),  # in order of creation
        (["Nobody"], [], []),
        ([], [], []),
    ],
)
def test_open_nodes(filled: Session, wanted_names: list[str], hits: list[str], relations: list[Any]) -> None:
    graph = filled("open_nodes", names=wanted_names)
    assert (names(graph), graph["relations"]) == (hits, relations)


def test_a_long_text_is_found_by_any_of_its_words(memory: Session) -> None:
    dice = random.Random(1)
    words = ["".join(dice.choices(string.ascii_lowercase, k=8)) for _ in range(5_000)]
    memory("create_entities", entities=[{**BOB, "observations": [" ".join(words)]}])
    for query in (words[0], words[2_500], words[-1], " ".join(words[1_000:1_100])):
        assert names(memory("search_nodes", query=query)) == ["Bob"]


def test_vectors_are_made_by_a_worker(memory: Session) -> None:
    memory("create_entities", entities=[ALICE])
    memory("add_observations", observations=[{"entityName": "Alice", "contents": ["sings in a choir"]}])
    assert not ObservationPassage.objects.exists()
    assert tasks.run_index_jobs() == "3 closed, 0 put back or failed"
    assert ObservationPassage.objects.count() == 3


def test_sizes_are_not_limited(memory: Session) -> None:
    entities = [{"name": f"e{n}", "entityType": "t", "observations": ["o" * 5_000]} for n in range(120)]
    assert len(memory("create_entities", entities=entities)["entities"]) == 120


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_entities", {}),
        ("create_entities", {"entities": [{"name": "x"}]}),
        ("create_entities", {"entities": [{**BOB, "name": " "}]}),
        ("search_nodes", {"query": 7}),
        ("open_nodes", {"names": "Alice"}),
    ],
)
def test_invalid_input_is_an_error(memory: Session, tool: str, arguments: dict[str, Any]) -> None:
    (response,) = memory.calls((tool, arguments))
    assert response.is_error
    assert not Entity.objects.exists()


def test_forty_pipelined_calls_create_forty_entities(memory: Session) -> None:
    async def action(client: Any) -> None:
        await asyncio.gather(
            *(
                client.call_tool(
                    "create_entities", {"entities": [{"name": f"e{n}", "entityType": "t", "observations": ["o"]}]}
                )
                for n in range(40)
            )
        )

    memory.run(action)
    assert len(memory("read_graph")["entities"]) == 40


WRITER = """
import asyncio, os, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main(prefix, email):
    arguments = ["manage.py", "mcp", "--as", email, "--profile", "anthropic"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        for n in range(40):
            entity = {"name": f"{prefix}{n}", "entityType": "t", "observations": ["o"]}
            await client.call_tool("create_entities", {"entities": [entity]})

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def test_two_processes_of_forty_calls_create_eighty_entities(alice_user: User, memory: Session) -> None:
    env = {**environment(), "EMBEDDING_PROVIDER": "none"}
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, prefix, alice_user.email], env=env, cwd=ROOT) for prefix in "ab"
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert len(memory("read_graph")["entities"]) == 80


def test_the_graph_is_a_resource(filled: Session) -> None:
    async def action(client: Any) -> Any:
        return await client.list_resources(), await client.read_resource(anthropic.RESOURCE)

    listing, response = filled.run(action)
    contract = json.loads(CONTRACT.read_text())["resources"]
    entries = [entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in listing.resources]
    assert entries == contract
    assert names(json.loads(response.contents[0].text)) == ["Alice", "Bob", "Acme"]


def test_a_file_is_imported_and_exported_by_command(alice: Caller, memory: Session, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "entity", **entity}, separators=(",", ":")) for entity in (ALICE, BOB, ACME)]
    lines += [json.dumps({"type": "relation", **r}, separators=(",", ":")) for r in (KNOWS, WORKS)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    call_command("import_memory_json", str(source), "--as", alice.email)
    assert names(memory("read_graph")) == ["Alice", "Bob", "Acme"]
    call_command("import_memory_json", str(target), "--as", alice.email, "--export")
    assert target.read_text() == source.read_text()


def test_the_import_command_names_an_invalid_file_name(alice: Caller) -> None:
    with pytest.raises(CommandError, match="source_path: has 5000 characters"):
        call_command("import_memory_json", "x" * 5_000, "--as", alice.email)


def test_the_resource_is_the_whole_graph_however_large(memory: Session) -> None:
    entities = [{"name": f"Team {number}", "entityType": "team", "observations": ["x" * 900]} for number in range(62)]
    memory("create_entities", entities=entities)

    async def action(client: Any) -> Any:
        return await client.read_resource(anthropic.RESOURCE)

    graph = json.loads(memory.run(action).contents[0].text)
    assert graph == memory("read_graph")
    assert set(graph) == {"entities", "relations"}

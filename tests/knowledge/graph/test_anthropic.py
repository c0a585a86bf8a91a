"""The profile that takes the place of Anthropic's memory server: what it advertises, and its behaviour case by case."""

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
from django.core.management import call_command
from django.db import connections
from mcp import Client

from knowledge.graph import anthropic
from knowledge.graph.models import Entity, ObservationPassage
from memories import tasks
from memories.identity.caller import Caller
from memory_project.mcp.server import build_server
from memory_project.models import User
from tests.memory_project.test_mcp_server import ROOT, environment

pytestmark = pytest.mark.django_db(transaction=True)
CONTRACT = Path(anthropic.__file__).with_name("anthropic.json")
ALICE = {"name": "Alice", "entityType": "person", "observations": ["works at Acme Corp", "likes Programming"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
ACME = {"name": "Acme", "entityType": "company", "observations": ["makes Anvils"]}
KNOWS = {"from": "Alice", "to": "Bob", "relationType": "knows"}
WORKS = {"from": "Alice", "to": "Acme", "relationType": "works at"}


class Session:
    """One connection with the profile, and each call's data and text."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    def run(self, act: Any) -> Any:
        async def main() -> Any:
            server = build_server(profile="anthropic", identify=lambda request: self.caller)
            async with Client(server) as client:
                return await act(client)

        try:
            return asyncio.run(main())
        finally:
            connections.close_all()

    def calls(self, *asks: tuple[str, dict[str, Any]]) -> list[Any]:
        async def act(client: Any) -> Any:
            return [await client.call_tool(tool, arguments) for tool, arguments in asks]

        return list(self.run(act))

    def __call__(self, tool: str, **arguments: Any) -> Any:
        (answer,) = self.calls((tool, arguments))
        assert not answer.is_error, answer.content[0].text
        return answer.structured_content


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


def test_it_advertises_their_nine_tools_word_for_word(memory: Session) -> None:
    listing = memory.run(lambda client: client.list_tools())
    entries = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listing.tools]
    contract = json.loads(CONTRACT.read_text())["tools"]
    assert [entry["name"] for entry in entries] == [tool["name"] for tool in contract]
    for entry, tool in zip(entries, contract, strict=True):
        for key in ("title", "description", "inputSchema", "outputSchema"):
            assert entry[key] == tool[key], (tool["name"], key)
        assert {k: entry["annotations"][k] for k in tool["annotations"]} == tool["annotations"]


def test_create_entities_answers_new_ones_and_keeps_what_is_there(memory: Session) -> None:
    assert memory("create_entities", entities=[ALICE, BOB]) == {"entities": [ALICE, BOB]}
    robot = {**ALICE, "entityType": "robot", "observations": ["is new"]}
    assert memory("create_entities", entities=[robot, ACME]) == {"entities": [ACME]}
    assert memory("open_nodes", names=["Alice"])["entities"] == [ALICE]
    assert memory("create_entities", entities=[]) == {"entities": []}


def test_texts_are_theirs(memory: Session) -> None:
    creation, deletion, reading = memory.calls(
        ("create_entities", {"entities": [ALICE]}), ("delete_entities", {"entityNames": ["x"]}), ("read_graph", {})
    )
    assert json.loads(creation.content[0].text) == [ALICE]
    assert creation.content[0].text.startswith("[\n  {")
    assert deletion.content[0].text == "Entities deleted successfully"
    assert json.loads(reading.content[0].text) == reading.structured_content


def test_create_relations_answers_new_ones_and_may_dangle(memory: Session) -> None:
    memory("create_entities", entities=[ALICE])
    assert memory("create_relations", relations=[KNOWS]) == {"relations": [KNOWS]}  # Bob is not there
    assert memory("create_relations", relations=[KNOWS]) == {"relations": []}
    graph = memory("read_graph")
    assert (names(graph), graph["relations"]) == (["Alice"], [KNOWS])
    assert memory("create_entities", entities=[BOB]) == {"entities": [BOB]}  # it was never seen
    assert names(memory("read_graph")) == ["Alice", "Bob"]


def test_add_observations_adds_new_ones_or_nothing_at_all(filled: Session) -> None:
    answer = filled("add_observations", observations=[{"entityName": "Bob", "contents": ["a", "b"]}])
    assert answer == {"results": [{"entityName": "Bob", "addedObservations": ["a", "b"]}]}
    answer = filled("add_observations", observations=[{"entityName": "Bob", "contents": ["b", "c"]}])
    assert answer["results"][0]["addedObservations"] == ["c"]
    additions = [{"entityName": "Alice", "contents": ["x"]}, {"entityName": "Nobody", "contents": ["x"]}]
    (answer,) = filled.calls(("add_observations", {"observations": additions}))
    assert answer.is_error
    assert "Entity with name Nobody not found" in answer.content[0].text
    assert filled("open_nodes", names=["Alice"])["entities"] == [ALICE]


def test_deletes_cascade_and_are_silent_about_what_is_missing(filled: Session) -> None:
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
        ("alice", ["Alice"], [KNOWS, WORKS]),  # by name, whatever the case
        ("company", ["Acme"], [WORKS]),  # by type; a relation with one end among the hits
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
        (["Acme", "Alice"], ["Alice", "Acme"], [KNOWS, WORKS]),  # in the order in which they were made
        (["Nobody"], [], []),
        ([], [], []),
    ],
)
def test_open_nodes(filled: Session, wanted_names: list[str], hits: list[str], relations: list[Any]) -> None:
    graph = filled("open_nodes", names=wanted_names)
    assert (names(graph), graph["relations"]) == (hits, relations)


def test_a_long_text_is_found_by_any_of_its_words(memory: Session) -> None:
    letters = random.Random(1)
    words = ["".join(letters.choices(string.ascii_lowercase, k=8)) for _ in range(5_000)]
    memory("create_entities", entities=[{**BOB, "observations": [" ".join(words)]}])
    for words_asked in (words[0], words[2_500], words[-1], " ".join(words[1_000:1_100])):
        assert names(memory("search_nodes", query=words_asked)) == ["Bob"]


def test_vectors_are_made_by_a_worker(memory: Session) -> None:
    memory("create_entities", entities=[ALICE])
    memory("add_observations", observations=[{"entityName": "Alice", "contents": ["sings in a choir"]}])
    assert not ObservationPassage.objects.exists()
    assert tasks.run_index_jobs() == "3 closed, 0 put back or failed"
    assert ObservationPassage.objects.count() == 3


def test_nothing_is_limited(memory: Session) -> None:
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
def test_bad_input_is_an_error(memory: Session, tool: str, arguments: dict[str, Any]) -> None:
    (answer,) = memory.calls((tool, arguments))
    assert answer.is_error
    assert not Entity.objects.exists()


def test_forty_pipelined_calls_keep_forty(memory: Session) -> None:
    async def act(client: Any) -> None:
        await asyncio.gather(
            *(
                client.call_tool(
                    "create_entities", {"entities": [{"name": f"e{n}", "entityType": "t", "observations": ["o"]}]}
                )
                for n in range(40)
            )
        )

    memory.run(act)
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


def test_two_processes_with_forty_each_keep_eighty(alice_user: User, memory: Session) -> None:
    env = {**environment(), "EMBEDDING_PROVIDER": "none"}
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, prefix, alice_user.email], env=env, cwd=ROOT) for prefix in "ab"
    ]
    assert [process.wait(120) for process in processes] == [0, 0]
    assert len(memory("read_graph")["entities"]) == 80


def test_the_graph_is_a_resource(filled: Session) -> None:
    async def act(client: Any) -> Any:
        return await client.list_resources(), await client.read_resource(anthropic.RESOURCE)

    listing, answer = filled.run(act)
    contract = json.loads(CONTRACT.read_text())["resources"]
    entries = [entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in listing.resources]
    assert entries == contract
    assert names(json.loads(answer.contents[0].text)) == ["Alice", "Bob", "Acme"]


def test_a_file_comes_in_and_goes_out_by_command(alice: Caller, memory: Session, tmp_path: Path) -> None:
    lines = [json.dumps({"type": "entity", **entity}, separators=(",", ":")) for entity in (ALICE, BOB, ACME)]
    lines += [json.dumps({"type": "relation", **r}, separators=(",", ":")) for r in (KNOWS, WORKS)]
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("\n".join(lines))
    call_command("import_memory_json", str(source), "--as", alice.email)
    assert names(memory("read_graph")) == ["Alice", "Bob", "Acme"]
    call_command("import_memory_json", str(target), "--as", alice.email, "--export")
    assert target.read_text() == source.read_text()

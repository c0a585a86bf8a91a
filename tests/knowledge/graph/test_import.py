"""Import and export of memory files: what survives the round trip, what is reported, and names in other spellings."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from foundation.people.caller import Caller
from knowledge.graph import anthropic, jsonl
from knowledge.graph.models import Entity, Graph, Observation
from knowledge.graph.operations import MAX_NAME, Migrate
from tests.knowledge.graph.calls import call, names

pytestmark = pytest.mark.django_db
SEPARATORS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
COMPOSED, DECOMPOSED = "Café", unicodedata.normalize("NFD", "Café")


def line(**values: Any) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def entity(name: str, *observations: Any, kind: str = "thing") -> str:
    return line(type="entity", name=name, entityType=kind, observations=list(observations))


def relation(start: str, end: str, kind: str = "knows") -> str:
    return line(type="relation", **{"from": start, "to": end, "relationType": kind})


def import_text(caller: Caller, *lines: str) -> jsonl.Imported:
    return jsonl.migrate(caller, Migrate(jsonl="\n".join(lines)))


def export(caller: Caller) -> list[str]:
    return list(jsonl.export_lines(caller))


def test_a_thousand_entities_with_every_line_separator_pass_the_round_trip(alice: Caller, tmp_path: Path) -> None:
    lines = []
    for n in range(1_000):
        separator = SEPARATORS[n % len(SEPARATORS)]
        lines.append(entity(f"e{separator}{n}", f"one{separator}two", separator, kind=f"kind{separator}of"))
    lines += [
        relation(f"e{SEPARATORS[n % 10]}{n}", f"e{SEPARATORS[0]}0", f"is{SEPARATORS[n % 10]}in") for n in range(50)
    ]
    source, target = tmp_path / "memory.jsonl", tmp_path / "export.jsonl"
    source.write_bytes("\n".join(lines).encode())
    response = call(alice, "migrate", source_path=str(source))
    assert response == {"entities_imported": 1_000, "relations_imported": 50, "errors": 0, "skipped": 0}
    call_command("import_memory_json", str(target), "--as", alice.email, "--export")
    assert target.read_bytes() == source.read_bytes()


def test_an_export_that_is_imported_is_exported_byte_by_byte(alice: Caller, bob: Caller) -> None:
    """The graph has what only Anthropic's server and imports can write."""
    import_text(
        alice,
        entity("n" * MAX_NAME, " ", "a\r\nb", 7, None, {"key": [True, "ü"]}, kind=" "),
        entity(" padded ", "x" * 5_000),
        entity(COMPOSED, "composed"),
        entity(DECOMPOSED, "decomposed"),
        relation("n" * MAX_NAME, "nobody", ""),
        relation("someone", DECOMPOSED),
        relation(COMPOSED, " "),
    )
    first = export(alice)
    assert json.loads(first[0])["observations"] == [" ", "a\r\nb", "7", '{"key":[true,"ü"]}']
    assert len(first) == 7
    assert import_text(bob, *first).relations == 3
    assert export(bob) == first


def test_a_relation_whose_entities_are_missing_is_kept(alice: Caller) -> None:
    import_text(alice, entity("a"), relation("a", "b"))
    response = call(alice, "read_graph")
    assert (names(response), response["relations"][0]["to"]) == (["a"], "b")
    call(alice, "create_entities", entities=[{"name": "b"}])
    assert export(alice)[-1] == relation("a", "b")


@pytest.mark.parametrize("mark", ["\ufeff".encode(), b""])
def test_a_byte_order_mark_is_not_content(alice: Caller, tmp_path: Path, mark: bytes) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_bytes(mark + entity("a").encode() + b"\r\n" + entity("b").encode() + b"\r\n")
    assert call(alice, "migrate", source_path=str(file))["entities_imported"] == 2
    text = (mark + entity("c").encode()).decode()
    assert call(alice, "migrate", jsonl=text)["entities_imported"] == 1


def test_a_line_that_cannot_be_imported_is_reported_by_its_number(alice: Caller, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    bad = [
        b'{"type":"entity","name":"\xff"}',
        entity("n" * (MAX_NAME + 1)).encode(),
        entity("half \ud800").encode(errors="surrogatepass"),
        b'{"type":"entity","name":"nul \\u0000"}',
        line(type="entity", name="a", observations="text").encode(),
        relation("a", "b", "r" * 201).encode(),
    ]
    file.write_bytes(b"\n\n".join([entity("good").encode(), *bad]))
    response = call(alice, "migrate", source_path=str(file))
    assert [problem.partition(":")[0] for problem in response["problems"]] == [f"line {n}" for n in range(3, 14, 2)]
    assert (response["errors"], response["skipped"], names(call(alice, "read_graph"))) == (2, 4, ["good"])


def test_an_entity_with_an_unstorable_part_is_imported_without_this_part(alice: Caller) -> None:
    imported = import_text(
        alice, '{"type":"entity","name":"a","entityType":"t","observations":["one","nul \\u0000","two"]}',
        entity("b", kind="k" * 201),
    )  # fmt: skip
    assert [json.loads(text)["observations"] for text in export(alice)] == [["one", "two"], []]
    assert [problem[:24] for problem in imported.problems] == ["line 1: observations[1] ", "line 2: entityType has 2"]
    assert (imported.entities, imported.skipped) == (2, 0)


def test_spellings_of_one_name_in_a_file_stay_apart_and_are_reported(alice: Caller) -> None:
    imported = import_text(alice, entity(COMPOSED, "one"), entity("b"), entity(DECOMPOSED, "two"))
    (problem,) = imported.problems
    assert problem.startswith("line 3: the name ")
    assert problem.endswith("is another Unicode form of the name in line 1; both are kept")
    rows = Entity.objects.exclude(name="b").order_by("number")
    assert call(alice, "consolidation_report")["same_names"] == [
        {"names": [COMPOSED, DECOMPOSED], "ids": [row.number for row in rows]}
    ]
    for name, text in ((COMPOSED, "one"), (DECOMPOSED, "two")):
        (opened,) = call(alice, "open_nodes", names=[name])["entities"]
        assert opened["observations"] == [text]


def test_an_import_finds_entities_of_the_graph_in_another_spelling(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": COMPOSED, "observations": ["one"]}, {"name": "b"}])
    import_text(alice, entity(DECOMPOSED, "two"), relation("b", DECOMPOSED))
    assert [json.loads(text) for text in export(alice)] == [
        {"type": "entity", "name": COMPOSED, "entityType": "thing", "observations": ["one", "two"]},
        {"type": "entity", "name": "b", "entityType": "Generic", "observations": []},
        {"type": "relation", "from": "b", "to": COMPOSED, "relationType": "knows"},
    ]


def test_an_import_leaves_the_types_of_the_graph_alone(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": "orders", "entityType": "table", "observations": ["one"]}])
    imported = import_text(alice, entity("orders", "two", kind="thing"), entity("lanes", "three"))
    assert imported.problems == ["orders keeps its type table, which is thing in the file"]
    assert call(alice, "open_nodes", names=["orders"])["entities"][0]["entityType"] == "table"
    assert call(alice, "open_nodes", names=["orders"])["entities"][0]["observations"] == ["one", "two"]
    assert call(alice, "open_nodes", names=["lanes"])["entities"][0]["entityType"] == "thing"
    assert import_text(alice, line(type="entity", name="orders", observations=["three"])).problems == []


def test_every_tool_finds_a_name_in_another_spelling(alice: Caller) -> None:
    call(alice, "create_entities", entities=[{"name": COMPOSED}, {"name": DECOMPOSED, "observations": ["one"]}])
    assert Entity.objects.get().name == COMPOSED
    call(alice, "add_observations", name=DECOMPOSED, observations=["two", "three"])
    call(alice, "delete_observations", name=DECOMPOSED, observations=["one"])
    edge = {"from": DECOMPOSED, "to": COMPOSED, "relationType": "is"}
    call(alice, "create_relations", relations=[edge])
    assert call(alice, "create_relations", relations=[edge])["relations"][0]["error"] == "Relation already exists"
    call(alice, "add_reflection", target_type="entity", entity_name=DECOMPOSED, content="Why?")
    assert call(alice, "find_duplicate_observations", entity_name=DECOMPOSED)["total_observations"] == 2
    assert call(alice, "analyze_entity_split", entity_name=DECOMPOSED)["analysis"]["observation_count"] == 2
    part = {"name": "Part", "entity_type": "t", "observations": ["three"]}
    call(alice, "execute_entity_split", entity_name=DECOMPOSED, approved_splits=[part])
    (opened,) = call(alice, "open_nodes", names=[DECOMPOSED, COMPOSED])["entities"]
    assert (opened["name"], opened["observations"], len(opened["reflections"])) == (COMPOSED, ["two"], 1)
    assert call(alice, "delete_relations", relations=[edge])["deleted"] == [edge]
    assert call(alice, "delete_entities", entityNames=[DECOMPOSED]) == {"deleted": [DECOMPOSED]}
    assert names(call(alice, "read_graph")) == ["Part"]


def test_a_placeholder_in_another_spelling_becomes_the_entity(alice: Caller) -> None:
    import_text(alice, entity("a"), relation("a", DECOMPOSED))
    call(alice, "create_entities", entities=[{"name": COMPOSED}])
    assert [json.loads(text).get("name") for text in export(alice)] == ["a", COMPOSED, None]
    assert call(alice, "read_graph")["relations"][0]["to"] == COMPOSED


def test_the_profile_of_anthropic_compares_names_exactly(alice: Caller) -> None:
    both: list[Any] = [{"name": name, "entityType": "t", "observations": []} for name in (COMPOSED, DECOMPOSED)]
    assert anthropic.create_entities(alice, both).data == {"entities": both}
    for wanted in both:
        assert anthropic.open_nodes(alice, [wanted["name"]]).data["entities"] == [wanted]


def test_the_same_name_may_exist_in_two_graphs(alice: Caller) -> None:
    for caller in (alice, replace(alice, graph="sales")):
        call(caller, "create_entities", entities=[{"name": COMPOSED, "observations": ["one"]}])
    assert (Graph.objects.count(), Observation.objects.count()) == (2, 2)


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrapper", ["", "result", "structuredContent", "content"])
def test_a_saved_answer_of_read_graph_is_imported(alice: Caller, wrapper: str, indent: int | None) -> None:
    graph: Any = {
        "entities": [{"name": "Ana", "entityType": "person", "observations": ["likes tea"]}, {"name": "Bob"}],
        "relations": [{"from": "Ana", "to": "Bob", "relationType": "knows"}],
    }
    if wrapper == "content":
        graph = {"content": [{"type": "text", "text": json.dumps(graph)}]}
    elif wrapper:
        graph = {wrapper: graph}
    imported = import_text(alice, *json.dumps(graph, indent=indent).split("\n"))
    assert (imported.entities, imported.relations, imported.errors) == (1, 1, 0)
    assert imported.problems == ["item 2: is neither an entity nor a relation"]
    assert names(call(alice, "read_graph"))[:1] == ["Ana"]


def test_a_list_of_entities_is_imported(alice: Caller) -> None:
    imported = import_text(alice, f"[{entity('Ana', 'likes tea')},", f"{relation('Ana', 'Ana')}]")
    assert (imported.entities, imported.relations, imported.problems) == (1, 1, [])


def test_the_command_fails_if_nothing_could_be_imported(alice: Caller, tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    file.write_text('{"memories": []}')
    with pytest.raises(CommandError, match="nothing was imported"):
        call_command("import_memory_json", str(file), "--as", alice.email)


def test_a_file_that_is_imported_again_is_no_failure(alice: Caller, tmp_path: Path) -> None:
    file = tmp_path / "memory.jsonl"
    file.write_text(f"{entity('Ana', 'likes tea')}\nno JSON\n")
    for _ in range(2):
        call_command("import_memory_json", str(file), "--as", alice.email)

"""Saved graphs of Anthropic's memory server, in the forms in which people have them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_project.exchange.imports.formats import FORMATS
from tests.memory_project.import_samples import ENTITY, RELATION, lines, rows

GRAPH = {"entities": [ENTITY], "relations": [RELATION]}
TEXT_RESULT = {"content": [{"type": "text", "text": json.dumps(GRAPH)}]}


@pytest.mark.parametrize(
    "dump",
    [
        GRAPH,
        [ENTITY, RELATION],
        [{key: value for key, value in item.items() if key != "type"} for item in (ENTITY, RELATION)],
        {"result": GRAPH},
        {"structuredContent": GRAPH},
        TEXT_RESULT,
        TEXT_RESULT["content"],
        {"result": TEXT_RESULT},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_a_graph_is_read_in_each_form_in_which_it_is_saved(dump: Any, indent: int | None) -> None:
    content = json.dumps(dump, indent=indent).encode()
    assert FORMATS["mcp-memory"].recognizes(content[: 1 << 16], "memory.json")
    expected = [row.data for row in rows("mcp-memory", lines(ENTITY, RELATION))]
    assert [row.data for row in rows("mcp-memory", content)] == expected


@pytest.mark.parametrize("item", [ENTITY, RELATION])
def test_a_single_object_over_several_lines_is_read(item: Any) -> None:
    expected = [row.data for row in rows("mcp-memory", lines(item))]
    assert [row.data for row in rows("mcp-memory", json.dumps(item, indent=1).encode())] == expected


def test_a_name_within_another_word_does_not_name_the_subject() -> None:
    entity = {
        "type": "entity",
        "name": "AI",
        "entityType": "team",
        "observations": ["Maintained daily.", "Runs an AI."],
    }
    found = [row.data["content"] for row in rows("mcp-memory", lines(entity))]
    assert found == ["AI: Maintained daily.", "Runs an AI."]


def test_a_result_that_was_cut_is_named() -> None:
    cut = {"content": [{"type": "text", "text": json.dumps(GRAPH)[:-5]}]}
    (row,) = rows("mcp-memory", json.dumps(cut).encode())
    assert row.problem == "is no graph in JSON; the file may have been cut"

"""What people ask for in plain words, and the call that a model should make of it from the descriptions of the tools.

Read data/tool_requests.jsonl beside the descriptions when you change one. The tests check that tools accept the calls.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from foundation.people.caller import system_caller
from memory_project.mcp.tool_list import enabled_tools

FILE = Path(__file__).parent.parent / "data" / "tool_requests.jsonl"
REQUESTS = [json.loads(line.replace('"ID"', f'"{"0" * 32}"')) for line in FILE.read_text().splitlines()]
TOOLS = {tool.name: tool for tool in enabled_tools(["all"])}


@pytest.mark.parametrize("entry", REQUESTS, ids=lambda entry: entry["request"])
def test_the_tool_accepts_the_call(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    tool, arguments = TOOLS[entry["tool"]], entry["arguments"]
    monkeypatch.setattr("foundation.operations.fields.ENTITY_NAMES", {"any": lambda name: f"urn:li:dataset:{name}"})
    jsonschema.validate(arguments, tool.input_schema)
    choice, operation = tool._selected(system_caller(), "", arguments) or ("", None)
    assert operation is not None
    assert choice == arguments.get(tool.selector, choice)

    # as in OpenAI's strict mode: every argument, with null for those that are left out
    strict = {**dict.fromkeys(tool.input_schema["properties"]), **arguments}
    assert tool._selected(system_caller(), "", strict) == (choice, operation)


def test_every_tool_of_the_default_offer_is_asked_for() -> None:
    toolsets = ("memory", "knowledge", "analysis", "query", "storage")
    usual = {tool.name for tool in TOOLS.values() if tool.toolset in toolsets}
    # the others of a sequence: store findings, clear, look at one entity
    assert usual - {entry["tool"] for entry in REQUESTS} == {"analysis_store", "analysis_clear", "catalog_entity"}

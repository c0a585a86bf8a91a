"""Fuzzing of all tools: whatever a client sends, a tool succeeds or returns a domain error, never an internal one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.people.caller import Caller
from memory_project.mcp.server import build_server
from memory_project.mcp.tool_list import enabled_tools

pytestmark = pytest.mark.django_db(transaction=True)  # the calls run in threads, which commit
TOOLS = {offer.name: offer for offer in enabled_tools(["all"])}
URN = "urn:li:dataset:(urn:li:dataPlatform:hive,orders,PROD)"
texts = st.text(max_size=30) | st.sampled_from(
    ["", " ", "\x00", "\ud800", "0" * 32, URN, "[1]", "{}", "[[", "1e999", "a" * 5000]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def calls(draw: Any) -> tuple[str, dict[str, Any]]:
    """Generate a call of a tool: an existing command or action, and arguments of any kind."""
    offer = TOOLS[draw(st.sampled_from(sorted(TOOLS)))]
    choice = draw(st.sampled_from(sorted(offer.choices)))
    properties = offer.operation(choice).input_schema().get("properties", {})
    arguments = draw(st.dictionaries(st.sampled_from(sorted(properties) or ["x"]), values, max_size=6))
    for name in draw(st.lists(st.sampled_from(sorted(properties) or ["x"]), max_size=4)):
        arguments[name] = draw(plausible(properties.get(name, {})))
    if offer.selector:
        arguments[offer.selector] = choice
    return offer.name, arguments


def plausible(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([plausible(option) for option in schema["anyOf"]])
    if isinstance(schema.get("type"), list):
        return st.one_of([plausible({**schema, "type": kind}) for kind in schema["type"]])
    parts = {name: plausible(part) for name, part in schema.get("properties", {}).items()}
    kinds = {
        "integer": st.integers(-1, 10**20),
        "number": st.floats(),
        "boolean": st.booleans(),
        "null": st.none(),
        "array": st.lists(plausible(schema["items"]), max_size=3) if schema.get("items") else st.just([]),
        "object": st.fixed_dictionaries(parts),
    }
    return kinds.get(str(schema.get("type")), st.sampled_from(["Long enough a text.", URN, "0" * 32, "a"]))


@settings(max_examples=120)
@given(call=calls())
def test_no_call_causes_an_internal_error(ada: Caller, call: tuple[str, dict[str, Any]]) -> None:
    name, arguments = call
    server = build_server(toolsets=["all"], identify=lambda _: ada)
    result: Any = asyncio.run(server.call_tool(name, arguments))
    if result.is_error and result.structured_content is None:
        response = json.loads(result.content[0].text)
        assert response["code"] != "internal", response

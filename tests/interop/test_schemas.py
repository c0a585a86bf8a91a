"""The schemas of all tools through the converters of other authors, in strict mode where they have one."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from memory_project.mcp.tool_list import enabled_tools
from memory_project.mcp.tool_schema_cache import advertised_tools
from tests.interop.registry import ForeignClient

SCRIPTS = {
    "openai-agents": "schemas_openai_agents.py",
    "pydantic-ai": "schemas_pydantic_ai.py",
    "google-adk": "schemas_google_adk.py",
    "llama-index": "schemas_llama_index.py",
}
CONVERTERS = [
    ("openai-agents", "openai-agents, OpenAI strict"),
    ("pydantic-ai", "pydantic-ai, OpenAI strict"),
    ("pydantic-ai", "pydantic-ai, Gemini"),
    ("pydantic-ai", "pydantic-ai, Anthropic"),
    ("pydantic-ai", "google-genai, Gemini"),
    ("pydantic-ai", "anthropic"),
    ("google-adk", "google-adk, Gemini"),
    ("llama-index", "llama-index, pydantic"),
]


@functools.cache
def faults(client: ForeignClient) -> dict[str, dict[str, str]]:
    tools = advertised_tools(enabled_tools(["all"]))
    plan: Any = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in tools]
    return dict(client.run(SCRIPTS[client.name], plan))


@pytest.mark.parametrize(("installed", "converter"), CONVERTERS, indirect=["installed"])
def test_every_tool_converts(installed: ForeignClient, converter: str) -> None:
    by_tool = faults(installed)[converter]
    failed = {name: fault for name, fault in by_tool.items() if fault}
    tools = advertised_tools(enabled_tools(["all"]))
    assert len(by_tool) == len(tools)
    # The Agents SDK keeps tools with objects of any properties out of strict mode, and offers them without it.
    lenient = {tool.name for tool in tools if has_open_object(tool.input_schema)} if "agents" in converter else set()
    assert set(failed) == lenient, f"{converter}: {len(by_tool) - len(failed)} of {len(by_tool)} tools convert"


def has_open_object(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(has_open_object, schema))
    if not isinstance(schema, dict):
        return False
    is_open = "object" in schema.get("type", []) and not schema.get("properties")
    return is_open or any(map(has_open_object, schema.values()))

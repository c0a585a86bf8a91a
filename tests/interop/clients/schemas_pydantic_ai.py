"""Convert tools for OpenAI's strict mode, Gemini and Anthropic as pydantic-ai and the SDKs of the vendors do."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

from anthropic.lib.tools.mcp import mcp_tool
from google.genai import _mcp_utils
from mcp.types import Tool
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer

Convert = Callable[[dict[str, Any]], Any]


def openai_strict(tool: dict[str, Any]) -> None:
    """Convert, and check what OpenAI requires: closed objects, and each argument required or nullable."""
    optional = set(tool["inputSchema"].get("properties", {})) - set(tool["inputSchema"].get("required", []))
    schema = OpenAIJsonSchemaTransformer(tool["inputSchema"], strict=True).walk()
    for name in optional:
        part = schema["properties"][name]
        if "null" not in part.get("type", []) and {"type": "null"} not in part.get("anyOf", []):
            raise ValueError(f"{name} can't be left out")
    if any(part.get("additionalProperties") is not False for part in objects(schema)):
        raise ValueError("an object is open")


def objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for item in schema for part in objects(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema] if "object" in schema.get("type", []) else []
    return [*own, *(part for value in schema.values() for part in objects(value))]


def converts(convert: Convert) -> Callable[[dict[str, Any]], str]:
    def fault(tool: dict[str, Any]) -> str:
        try:
            convert(copy.deepcopy(tool))
        except Exception as error:
            return str(error) or type(error).__name__
        return ""

    return fault


CONVERTERS: dict[str, Convert] = {
    "pydantic-ai, OpenAI strict": openai_strict,
    "pydantic-ai, Gemini": lambda tool: GoogleJsonSchemaTransformer(tool["inputSchema"], strict=True).walk(),
    "pydantic-ai, Anthropic": lambda tool: AnthropicJsonSchemaTransformer(tool["inputSchema"], strict=None).walk(),
    "google-genai, Gemini": lambda tool: _mcp_utils.mcp_to_gemini_tool(Tool.model_validate(tool)),
    "anthropic": lambda tool: mcp_tool(Tool.model_validate(tool), None),
}

tools = json.load(sys.stdin)
print(
    json.dumps(
        {name: {tool["name"]: converts(convert)(tool) for tool in tools} for name, convert in CONVERTERS.items()}
    )
)

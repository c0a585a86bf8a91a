"""Convert tools for OpenAI's strict mode, Gemini and Anthropic as pydantic-ai and the SDKs of the vendors do."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from typing import Any

import anthropic
from google.genai import _mcp_utils
from mcp.types import Tool
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer
from pydantic_ai.profiles.openai import OpenAIJsonSchemaTransformer
from pydantic_ai.providers.anthropic import AnthropicJsonSchemaTransformer

Convert = Callable[[dict[str, Any]], Any]


def openai_strict(tool: dict[str, Any]) -> None:
    transformer = OpenAIJsonSchemaTransformer(tool["inputSchema"], strict=None)
    transformer.walk()
    if not transformer.is_strict_compatible:
        raise ValueError("not compatible with strict mode")


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
    "pydantic-ai, Anthropic": lambda tool: AnthropicJsonSchemaTransformer(tool["inputSchema"], strict=True).walk(),
    "google-genai, Gemini": lambda tool: _mcp_utils.mcp_to_gemini_tool(Tool.model_validate(tool)),
    "anthropic, strict": lambda tool: anthropic.transform_schema(tool["inputSchema"]),
}

tools = json.load(sys.stdin)
print(
    json.dumps(
        {name: {tool["name"]: converts(convert)(tool) for tool in tools} for name, convert in CONVERTERS.items()}
    )
)

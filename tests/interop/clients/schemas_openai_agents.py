"""Convert tools for OpenAI's strict mode as the OpenAI Agents SDK does."""

from __future__ import annotations

import json
import sys
from typing import Any

from agents.strict_schema import ensure_strict_json_schema


def fault(tool: dict[str, Any]) -> str:
    try:
        ensure_strict_json_schema(tool["inputSchema"], _reject_open_objects=True)
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


print(json.dumps({"openai-agents, OpenAI strict": {tool["name"]: fault(tool) for tool in json.load(sys.stdin)}}))

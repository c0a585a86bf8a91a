"""Convert tools to pydantic models as LlamaIndex does."""

from __future__ import annotations

import json
import sys
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

SPECIFICATION = McpToolSpec(client=BasicMCPClient("http://localhost"))


def fault(tool: dict[str, Any]) -> str:
    try:
        SPECIFICATION.create_model_from_json_schema(tool["inputSchema"], "Arguments").model_json_schema()
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


print(json.dumps({"llama-index, pydantic": {tool["name"]: fault(tool) for tool in json.load(sys.stdin)}}))

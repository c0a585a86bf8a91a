"""Convert tools to Gemini's function declarations as Google's Agent Development Kit does."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from google.adk.tools.mcp_tool import McpTool  # noqa: E402
from mcp.types import Tool  # noqa: E402


def fault(tool: dict[str, Any]) -> str:
    try:
        McpTool(mcp_tool=Tool.model_validate(tool), mcp_session_manager=None)._get_declaration()  # type: ignore[arg-type]
    except Exception as error:
        return str(error) or type(error).__name__
    return ""


print(json.dumps({"google-adk, Gemini": {tool["name"]: fault(tool) for tool in json.load(sys.stdin)}}))

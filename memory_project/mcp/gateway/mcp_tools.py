from __future__ import annotations

from memory_project.mcp.gateway.finding import find_tools, use_tool

TOOLS = [find_tools, use_tool]

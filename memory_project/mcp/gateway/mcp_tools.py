from __future__ import annotations

from dataclasses import replace

from memory_project.mcp.gateway.tool_search import find_tools, use_tool

# In read-only mode, too, use_tool can be called: whether a call writes is decided by the tool that it names.
TOOLS = [find_tools, replace(use_tool, reading=("",))]

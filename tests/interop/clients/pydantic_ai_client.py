"""pydantic-ai's MCP toolset, which raises ModelRetry for an error."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import ModelRetry
from pydantic_ai.mcp import MCPToolset


def toolset(plan: dict[str, Any]) -> Any:
    if plan["transport"] == "http":
        return MCPToolset(plan["url"], headers={"Authorization": f"Bearer {plan['token']}"})
    command, *arguments = plan["command"]
    return MCPToolset(StdioTransport(command, arguments, env=plan["env"], cwd=plan["cwd"]))


async def call(connected: Any, step: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await connected.direct_call_tool(step["tool"], step["arguments"])
    except ModelRetry as error:
        return {"text": error.message, "is_error": True}
    return {"text": answer if isinstance(answer, str) else json.dumps(answer, default=str), "is_error": False}


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    async with toolset(plan) as connected:
        tools = await connected.list_tools()
        results = [await call(connected, step) for step in plan["calls"]]
        return {"tools": [tool.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

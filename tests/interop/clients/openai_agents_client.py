"""The MCP servers of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp


def server(plan: dict[str, Any]) -> Any:
    if plan["transport"] == "http":
        headers = {"Authorization": f"Bearer {plan['token']}"}
        return MCPServerStreamableHttp({"url": plan["url"], "headers": headers}, client_session_timeout_seconds=60)
    command, *arguments = plan["command"]
    params: Any = {"command": command, "args": arguments, "env": plan["env"], "cwd": plan["cwd"]}
    return MCPServerStdio(params, client_session_timeout_seconds=60)


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    async with server(plan) as connected:
        tools = await connected.list_tools()
        results = []
        for call in plan["calls"]:
            result = await connected.call_tool(call["tool"], call["arguments"])
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
            results.append({"text": text, "is_error": bool(is_error)})
        return {"tools": [tool.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

"""LangChain's adapters, whose tools raise ToolException for an error."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from langchain_core.tools import ToolException
from langchain_mcp_adapters.client import MultiServerMCPClient


def connection(plan: dict[str, Any]) -> dict[str, Any]:
    if plan["transport"] == "http":
        headers = {"Authorization": f"Bearer {plan['token']}"}
        return {"transport": "streamable_http", "url": plan["url"], "headers": headers}
    command, *arguments = plan["command"]
    return {"transport": "stdio", "command": command, "args": arguments, "env": plan["env"], "cwd": plan["cwd"]}


async def call(tool: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await tool.ainvoke(arguments)
    except ToolException as error:
        return {"text": str(error), "is_error": True}
    text = answer if isinstance(answer, str) else "\n".join(block.get("text", "") for block in answer)
    return {"text": text, "is_error": text.startswith('{"error"')}


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    client: Any = MultiServerMCPClient({"commonplace": connection(plan)})
    async with client.session("commonplace") as session:
        from langchain_mcp_adapters.tools import load_mcp_tools

        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        results = [await call(tools[step["tool"]], step["arguments"]) for step in plan["calls"]]
        return {"tools": list(tools), "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

"""The Python SDK, version 1."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        if plan["transport"] == "http":
            headers = {"Authorization": f"Bearer {plan['token']}"}
            read, write, _ = await stack.enter_async_context(streamablehttp_client(plan["url"], headers=headers))
        else:
            command, *arguments = plan["command"]
            server = StdioServerParameters(command=command, args=arguments, env=plan["env"], cwd=plan["cwd"])
            read, write = await stack.enter_async_context(stdio_client(server))
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        tools = (await session.list_tools()).tools
        results = []
        for call in plan["calls"]:
            result = await session.call_tool(call["tool"], call["arguments"])
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            results.append({"text": text, "is_error": result.isError})
        return {"tools": [tool.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

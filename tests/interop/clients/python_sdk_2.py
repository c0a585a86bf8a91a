"""The Python SDK, version 2."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        if plan["transport"] == "http":
            headers = {"Authorization": f"Bearer {plan['token']}"}
            http_client = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=60))
            transport: Any = streamable_http_client(plan["url"], http_client=http_client)
        else:
            command, *arguments = plan["command"]
            transport = stdio_client(
                StdioServerParameters(command=command, args=arguments, env=plan["env"], cwd=plan["cwd"])
            )
        client = await stack.enter_async_context(Client(transport))
        tools = (await client.list_tools()).tools
        results = []
        for call in plan["calls"]:
            result = await client.call_tool(call["tool"], call["arguments"])
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            results.append({"text": text, "is_error": bool(result.is_error)})
        return {"tools": [tool.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

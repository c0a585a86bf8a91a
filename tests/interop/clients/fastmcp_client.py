"""The client of fastmcp."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    if plan["transport"] == "http":
        transport: Any = StreamableHttpTransport(plan["url"], headers={"Authorization": f"Bearer {plan['token']}"})
    else:
        command, *arguments = plan["command"]
        transport = StdioTransport(command, arguments, env=plan["env"], cwd=plan["cwd"])
    async with Client(transport) as client:
        tools = await client.list_tools()
        results = []
        for call in plan["calls"]:
            result = await client.call_tool(call["tool"], call["arguments"], raise_on_error=False)
            text = "\n".join(getattr(block, "text", "") for block in result.content)
            results.append({"text": text, "is_error": result.is_error})
        return {"tools": [tool.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

"""LlamaIndex's client and its tool specification."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    if plan["transport"] == "http":
        client = BasicMCPClient(plan["url"], headers={"Authorization": f"Bearer {plan['token']}"}, timeout=60)
    else:
        command, *arguments = plan["command"]
        # it takes no working directory
        client = BasicMCPClient(command, args=arguments, env=plan["env"], timeout=60)
    tools = await McpToolSpec(client=client).to_tool_list_async()
    results = []
    for call in plan["calls"]:
        result: Any = await client.call_tool(call["tool"], call["arguments"])
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        is_error = getattr(result, "is_error", None) or getattr(result, "isError", None)
        results.append({"text": text, "is_error": bool(is_error)})
    return {"tools": [tool.metadata.name for tool in tools], "results": results}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

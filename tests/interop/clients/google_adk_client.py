"""The MCP toolset of Google's Agent Development Kit."""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from types import SimpleNamespace
from typing import Any

warnings.simplefilter("ignore")

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.agents.invocation_context import InvocationContext  # noqa: E402
from google.adk.sessions import InMemorySessionService  # noqa: E402
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams, StreamableHTTPConnectionParams  # noqa: E402
from google.adk.tools.tool_context import ToolContext  # noqa: E402
from mcp import StdioServerParameters  # noqa: E402


def connection(plan: dict[str, Any]) -> Any:
    if plan["transport"] == "http":
        headers = {"Authorization": f"Bearer {plan['token']}"}
        return StreamableHTTPConnectionParams(url=plan["url"], headers=headers, timeout=60)
    command, *arguments = plan["command"]
    server = StdioServerParameters(command=command, args=arguments, env=plan["env"], cwd=plan["cwd"])
    return StdioConnectionParams(server_params=server, timeout=60)


async def tool_context() -> ToolContext:
    service = InMemorySessionService()
    session = await service.create_session(app_name="interop", user_id="user")
    agent = LlmAgent(name="agent", model="none")
    return ToolContext(
        InvocationContext(session_service=service, session=session, agent=agent, invocation_id="interop")
    )


def read(answer: Any) -> dict[str, Any]:
    content = SimpleNamespace(**answer) if isinstance(answer, dict) else answer
    blocks = getattr(content, "content", None) or []
    text = "\n".join(block.get("text", "") for block in blocks) or json.dumps(answer, default=str)
    is_error = (
        getattr(content, "isError", None) or getattr(content, "is_error", None) or getattr(content, "error", None)
    )
    return {"text": text, "is_error": bool(is_error)}


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    toolset = McpToolset(connection_params=connection(plan))
    try:
        tools: dict[str, Any] = {tool.name: tool for tool in await toolset.get_tools()}
        context = await tool_context()
        results = [
            read(await tools[call["tool"]].run_async(args=call["arguments"], tool_context=context))
            for call in plan["calls"]
        ]
        return {"tools": list(tools), "results": results}
    finally:
        await toolset.close()


print("\n" + json.dumps(asyncio.run(main(json.load(sys.stdin)))))

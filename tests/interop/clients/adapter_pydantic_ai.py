"""The client's toolset in an agent of Pydantic AI, with a scripted model."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from commonplace_client import AsyncCommonplace
from commonplace_client.adapters.pydantic_ai import commonplace_toolset
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    text = f"The harvest of {plan['run']} is counted in crates."
    calls = [
        ToolCallPart("remember", {"content": "short"}),
        ToolCallPart("remember", {"content": text}),
        ToolCallPart("recall", {"question": text}),
        ToolCallPart("capture_insight", {"text": text, "category": "business_context"}),
        ToolCallPart("context_for", {"entities": ["urn:li:dataset:(urn:li:dataPlatform:x,nothing,PROD)"]}),
    ]
    tools: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        tools[:] = [tool.name for tool in info.function_tools]
        return ModelResponse([calls.pop(0)] if calls else [TextPart("done")])

    async with AsyncCommonplace(plan["url"], plan["token"]) as client:
        agent = Agent(FunctionModel(model), toolsets=[commonplace_toolset(client)])
        result = await agent.run("Remember the harvest.")
    parts = [part for message in result.all_messages() for part in message.parts]
    answers = [
        {"kind": part.part_kind, "content": str(part.content)}
        for part in parts
        if part.part_kind in ("tool-return", "retry-prompt")
    ]
    return {"tools": sorted(tools), "answers": answers, "text": text}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

"""The client's memory block in LlamaIndex's Memory: what leaves the short-term memory is found again."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from commonplace_client import AsyncCommonplace
from commonplace_client.adapters.llama_index import CommonplaceBlock
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.memory import Memory


async def main(plan: dict[str, Any]) -> dict[str, Any]:
    run = plan["run"]
    async with AsyncCommonplace(plan["url"], plan["token"]) as client:
        await client.remember(f"The {run} warehouse counts crates, not bottles.")
        block = CommonplaceBlock(client=client)
        memory = Memory.from_defaults(
            session_id=run, token_limit=120, token_flush_size=60, chat_history_token_ratio=0.5, memory_blocks=[block]
        )
        await memory.aput_messages(
            [
                ChatMessage(role="system", content="You are brief."),
                ChatMessage(role="user", content=f"My team in {run} calls the bottling line Hydra. " * 2),
                ChatMessage(role="assistant", content="I will call it Hydra."),
                ChatMessage(role="user", content="word " * 60),
                ChatMessage(role="assistant", content="word " * 60),
            ]
        )
        turns = [(turn["role"], turn["content"]) async for turn in client.turns(conversation_id=run, tier="stm")]
        shown = await memory.aget(input=f"What does my team in {run} call the bottling line, and what counts crates?")
        empty = await block.aget([])
        split = f"{run} " + "long " * 5_000
        await block.aput([ChatMessage(role="user", content=split)], session_id=f"{run}-long")
        long = [turn["content"] async for turn in client.turns(conversation_id=f"{run}-long", tier="stm")]
    return {
        "stored": sorted(turns),
        "shown": "\n".join(str(message.content) for message in shown),
        "empty": empty,
        "parts": [len(long), sum(map(len, long)) >= len(split.strip()) - 1],
    }


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))

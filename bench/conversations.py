"""Measure the recall of conversations that were stored with store_memory.

    python bench/conversations.py DIR [--enrich]

DIR holds records.jsonl (turns with scope, author, ts and text) and qa.jsonl (questions with their relevant turns). Each
conversation belongs to its own user and is stored by an MCP client of the conversation toolset. Each question is asked
with recall_memory and with hybrid_search. A long-term memory counts as the turn that it was derived from. Prints recall
at 5 and at 10.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import scratch

CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
AT_ONCE = 100  # messages per call
SERVICE = "service@bench.example"


async def store(client: Any, records: list[dict[str, Any]]) -> dict[str, str]:
    """Store each conversation under its own user. Return the data set's turn id for each short-term memory id."""
    by_scope = defaultdict(list)
    for record in records:
        by_scope[record["scope"]].append(record)
    turn_ids: dict[str, str] = {}
    for scope, turns in by_scope.items():
        for start in range(0, len(turns), AT_ONCE):
            part = turns[start : start + AT_ONCE]
            messages = [
                {
                    "role": "human",
                    "content": turn["text"]
                    + (f" [shared image: {turn['image_caption']}]" if turn["image_caption"] else ""),
                    "author": turn["author"],
                    "timestamp": turn["ts"],
                }
                for turn in part
            ]
            arguments = {"user_id": scope, "conversation_id": scope, "messages": messages}
            response = await client.call_tool("store_memory", arguments)
            turn_ids |= dict(zip(response.structured_content["stm_ids"], (turn["id"] for turn in part), strict=True))
    return turn_ids


def enrichment_summary() -> str:
    """Report how often a memory was repeated, and how many merges are proposed."""
    from django.db.models import Sum  # noqa: PLC0415 - after setup()

    from memories.conversation.models import MergeProposal  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    strengthened = MemoryRecord.objects.filter(tier="ltm").aggregate(n=Sum("access_count"))["n"]
    return f"{strengthened} repetitions that strengthened a memory, {MergeProposal.objects.count()} merges proposed"


async def ask_questions(client: Any, tool: str, questions: list[dict[str, Any]], turn_ids: dict[str, str]) -> None:
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    times = []
    for question in questions:
        started = time.perf_counter()
        arguments = {"user_id": question["scope"], "query": question["text"], "limit": 10}
        response = await client.call_tool(tool, arguments)
        times.append((time.perf_counter() - started) * 1000)
        hits = response.structured_content["results"]
        ranked = [turn_ids.get(hit["_id"]) or turn_ids.get(hit.get("derived_from", ""), "") for hit in hits]
        relevant = set(question["relevant"])
        five, ten = (len(relevant & set(ranked[:k])) / len(relevant) for k in (5, 10))
        results[f"{question['category']} {CATEGORIES[question['category']]}"].append((five, ten))
    print(f"\n{tool}: p50 {statistics.median(times):.0f} ms\n{'category':<16}{'questions':>10}{'R@5':>9}{'R@10':>9}")
    everything = [row for rows in results.values() for row in rows]
    for name, rows in [*sorted(results.items()), ("all", everything)]:
        five, ten = (statistics.fmean(row[n] for row in rows) for n in (0, 1))
        print(f"{name:<16}{len(rows):>10}{five:>9.3f}{ten:>9.3f}")


async def measure(directory: Path, *, enrich: bool) -> None:
    from mcp import Client  # noqa: PLC0415 - after setup()

    from foundation.people.caller import ACT_FOR_USERS, Caller  # noqa: PLC0415 - after setup()
    from memories.conversation import tasks  # noqa: PLC0415 - after setup()
    from memory_project.mcp.server import build_server  # noqa: PLC0415 - after setup()

    records = [json.loads(line) for line in (directory / "records.jsonl").open()]
    questions = [json.loads(line) for line in (directory / "qa.jsonl").open()]
    questions = [question for question in questions if question["category"] in CATEGORIES and question["relevant"]]
    caller = Caller(
        email=SERVICE, persona="bench", personas=frozenset({"bench"}), rights=frozenset({ACT_FOR_USERS}), channel="mcp"
    )
    async with Client(build_server(toolsets=["conversation"], identify=lambda _: caller)) as client:
        started = time.perf_counter()
        turn_ids = await store(client, records)
        print(f"{len(turn_ids)} turns stored in {time.perf_counter() - started:.0f} s")
        if enrich:
            print(await asyncio.to_thread(tasks.enrich))
            print(await asyncio.to_thread(enrichment_summary))
        for tool in ("recall_memory", "hybrid_search"):
            await ask_questions(client, tool, questions, turn_ids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument(
        "--enrich", action="store_true", help="enrich the memories, as a worker would, before asking the questions"
    )
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        asyncio.run(measure(options.dir, enrich=options.enrich))


if __name__ == "__main__":
    main()

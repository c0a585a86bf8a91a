"""Compare the knowledge graph with Anthropic's memory server as both grow.

    python bench/graph.py [--sizes 200,1000,3000,30000] [--peer-most 3000] [--peer PATH]

One client calls both stdio servers in one run: @modelcontextprotocol/server-memory from npm (PATH is its index.js;
without it, npx fetches the package), and ours with --profile anthropic. Each entity has five observations of about a
hundred characters. Prints p50 and p95 in ms of a search with one hit, a search without hits, adding an observation and
opening a node, and finally the ratios. The peer is not measured beyond --peer-most entities, because it rewrites its
whole file at every change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from typing import Any

import scratch

VOCABULARY = "invoice ledger harbour violin seagull paper mill depot pallet voucher orchard tram chapel lantern"
WORDS = VOCABULARY.split()
REPETITIONS = 60
WARM_UP = 5  # warm-up calls that are not counted
BATCH = 50
OBSERVATIONS = 5
EMAIL = "graph@bench.example"


def entity(number: int) -> dict[str, Any]:
    dice = random.Random(number)
    texts = [f"Note {n}: {' '.join(dice.choices(WORDS, k=13))}." for n in range(OBSERVATIONS)]
    return {"name": f"entity {number:06d}", "entityType": "thing", "observations": texts}


async def fill(client: Any, low: int, high: int) -> None:
    for start in range(low, high, BATCH):
        batch = [entity(number) for number in range(start, min(start + BATCH, high))]
        await client.call_tool("create_entities", {"entities": batch})


async def measure(client: Any, size: int) -> dict[str, list[float]]:
    """Return the milliseconds of each kind of call. The kinds take turns."""
    dice = random.Random(size)
    times: dict[str, list[float]] = {"search, 1 hit": [], "search, none": [], "add one": [], "open one": []}
    for turn in range(REPETITIONS + WARM_UP):
        name = f"entity {dice.randrange(size):06d}"
        calls = {
            "search, 1 hit": ("search_nodes", {"query": name}),
            "search, none": ("search_nodes", {"query": f"nothing {turn}"}),
            "add one": ("add_observations", {"observations": [{"entityName": name, "contents": [f"More {turn}."]}]}),
            "open one": ("open_nodes", {"names": [name]}),
        }
        for kind, (tool, arguments) in calls.items():
            started = time.perf_counter()
            response = await client.call_tool(tool, arguments)
            assert not response.is_error, response.content[0].text
            times[kind].append((time.perf_counter() - started) * 1000)
    return {kind: values[WARM_UP:] for kind, values in times.items()}


def servers(folder: str, peer: str) -> dict[str, Any]:
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from mcp.client.stdio import StdioServerParameters  # noqa: PLC0415 - after setup()

    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    command = [str(scratch.ROOT / "manage.py"), "mcp", "--as", EMAIL, "--profile", "anthropic"]
    peer_environment = {**os.environ, "MEMORY_FILE_PATH": f"{folder}/memory.jsonl"}
    start = ["node", peer] if peer else ["npx", "-y", "@modelcontextprotocol/server-memory"]
    return {
        "theirs": StdioServerParameters(command=start[0], args=start[1:], env=peer_environment),
        "ours": StdioServerParameters(
            command=sys.executable, args=command, env=scratch.environment(url), cwd=str(scratch.ROOT)
        ),
    }


def fill_ours(low: int, high: int) -> None:
    """Import the entities that fill() would create. Skips embedding, because neither search nor add uses vectors."""
    from django.test import override_settings  # noqa: PLC0415 - after setup()

    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from knowledge.graph import jsonl  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    caller = build_caller(User.objects.get(email=EMAIL), channel="bench")
    with override_settings(EMBEDDING_PROVIDER="none"):
        jsonl.import_lines(caller, (json.dumps({"type": "entity", **entity(n)}) for n in range(low, high)))


async def grow(name: str, parameters: Any, sizes: list[int], limit: int) -> dict[int, dict[str, float]]:
    from mcp import Client  # noqa: PLC0415 - after setup()
    from mcp.client.stdio import stdio_client  # noqa: PLC0415 - after setup()

    medians: dict[int, dict[str, float]] = {}
    async with Client(stdio_client(parameters)) as client:
        low = 0
        for size in [size for size in sizes if size <= limit]:
            if name == "ours":
                await asyncio.to_thread(fill_ours, low, size)
            else:
                await fill(client, low, size)
            low = size
            times = await measure(client, size)
            medians[size] = {kind: statistics.median(values) for kind, values in times.items()}
            for kind, values in times.items():
                p95 = sorted(values)[int(0.95 * len(values)) - 1]
                print(f"{name:<8}{size:>8}  {kind:<16}{medians[size][kind]:>8.1f}{p95:>8.1f}", flush=True)
    return medians


def compare(medians: dict[str, dict[int, dict[str, float]]]) -> None:
    for size in medians["ours"]:
        for kind, median in medians["ours"][size].items():
            peer = medians.get("theirs", {}).get(size, {}).get(kind)
            ratio = f"{median / peer:.2f} x theirs" if peer else ""
            growth = median / medians["ours"][min(medians["ours"])][kind]
            print(f"{size:>8}  {kind:<16}{ratio:>16}   {growth:.2f} x our smallest size")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="200,1000,3000,30000")
    parser.add_argument("--peer-most", type=int, default=3_000, help="largest size at which the peer is measured")
    parser.add_argument("--peer", default="", help="path of the peer's index.js")
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sizes.split(","))
    scratch.setup()
    with scratch.database(), tempfile.TemporaryDirectory() as folder:
        from memory_project.models import User  # noqa: PLC0415 - after setup()

        User.objects.create_user(EMAIL, "x")
        medians: dict[str, dict[int, dict[str, float]]] = {}
        for name, parameters in servers(folder, options.peer).items():
            limit = options.peer_most if name == "theirs" else sizes[-1]
            medians[name] = asyncio.run(grow(name, parameters, sizes, limit))
        compare(medians)
    print(json.dumps({"entities": sizes, "observations_each": OBSERVATIONS}))


if __name__ == "__main__":
    main()

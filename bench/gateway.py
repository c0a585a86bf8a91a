"""Measure what a call of an upstream's tool costs through Commonplace.

    python bench/gateway.py [--calls 300]

Starts an MCP server over HTTP (tests/upstream.py) and calls one of its tools over one connection each: directly,
through Commonplace's HTTP server without attached memories, and through it with them. The three take turns, so that
they share what else the machine does. The database has the demo's catalog and memories, whose tables the statements
name.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import scratch

ROOT = Path(__file__).resolve().parent.parent
UPSTREAM_PORT = 8497
STATEMENTS = [
    "SELECT sum(amount) FROM sales.orders WHERE status = 'paid'",
    "SELECT * FROM sales.refunds ORDER BY refunded_at DESC LIMIT 10",
    "SELECT customer_id, count(*) FROM sales.orders GROUP BY customer_id",
    "SELECT 1",
]


def fill() -> str:
    """Fill the database with the demo, and return a token of its analyst."""
    from foundation import embedding  # noqa: PLC0415 - after setup()
    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from memories.retrieval import term_statistics  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()
    from memory_project.operating import demo  # noqa: PLC0415 - after setup()

    embedding.current(wait_s=300)
    demo.load_demo_catalog()
    people = demo.make_people()
    list(demo.make_memories(people))
    demo.make_insights(people)
    term_statistics.refresh()
    return create_token(system_caller(), user=people["maya"], name="bench")[1]


def serve() -> str:
    """Serve MCP over HTTP in a thread. Returns its address."""
    import uvicorn  # noqa: PLC0415 - after setup()

    from memory_project import asgi  # noqa: PLC0415 - after setup()
    from memory_project.web.request_limits import uvicorn_options  # noqa: PLC0415 - after setup()

    options = {**uvicorn_options(), "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(asgi.application, host="127.0.0.1", port=0, **options))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"


async def measure(addresses: dict[str, tuple[str, str, Any]], token: str, calls: int) -> dict[str, list[float]]:
    """Return the times of calls in ms by name. `addresses` has for each name a URL, a tool and the call's `_meta`."""
    import httpx2  # noqa: PLC0415 - after setup()
    from mcp import Client  # noqa: PLC0415 - after setup()
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - after setup()

    times: dict[str, list[float]] = {name: [] for name in addresses}
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        clients = {
            name: Client(streamable_http_client(url, http_client=http)) for name, (url, _, _) in addresses.items()
        }
        for client in clients.values():
            await client.__aenter__()
        for number in range(-20, calls):  # the first calls open connections
            sql = f"{STATEMENTS[number % len(STATEMENTS)]} -- {number}"
            for name, client in clients.items():
                _, tool, meta = addresses[name]
                started = time.perf_counter()
                result = await client.call_tool(tool, {"sql": sql}, meta=meta)
                if number >= 0:
                    times[name].append((time.perf_counter() - started) * 1000)
                assert not result.is_error, result.content
        for client in reversed(clients.values()):
            await client.__aexit__(None, None, None)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=300)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "upstreams.toml"
        url = f"http://127.0.0.1:{UPSTREAM_PORT}/mcp"
        file.write_text(f'[upstreams.wh]\nurl = "{url}"\npersonas = ["*"]\nplatform = "snowflake"\n')
        os.environ["MCP_UPSTREAMS"] = str(file)
        command = [sys.executable, "-m", "tests.upstream", folder, "http", str(UPSTREAM_PORT)]
        upstream = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            scratch.setup()
            with scratch.database():
                token = fill()
                through = serve()
                wait_for_tools()
                addresses: dict[str, tuple[str, str, Any]] = {
                    "upstream alone": (url, "run_query", {}),
                    "through the gateway": (through, "wh_run_query", {"commonplace/memory_context": False}),
                    "and with memories": (through, "wh_run_query", {}),
                }
                report(asyncio.run(measure(addresses, token, arguments.calls)))
        finally:
            upstream.terminate()


def wait_for_tools() -> None:
    from memory_project.mcp.gateway import registry  # noqa: PLC0415 - after setup()

    deadline = time.monotonic() + 30
    while "wh_run_query" not in registry.refreshed(at_once=True).tools:
        if time.monotonic() > deadline:
            raise SystemExit("the upstream was not listed within 30 s")
        time.sleep(0.1)


def report(times: dict[str, list[float]]) -> None:
    alone = statistics.median(times["upstream alone"])
    print("| call | p50 ms | p95 ms | more than alone, p50 ms |\n|---|---|---|---|")
    for name, values in times.items():
        median, high = statistics.median(values), statistics.quantiles(values, n=20)[18]
        print(f"| {name} | {median:.1f} | {high:.1f} | {median - alone:.1f} |")


if __name__ == "__main__":
    main()

"""Measure recall over HTTP with growing numbers of clients: calls per second, and milliseconds per call.

    python bench/recall_http.py [--size 10000] [--clients 1,8,32] [--calls 200]

Uses the memories of recall_speed.py, divided among eight owners. `manage.py mcp --transport http` serves them. Each
client has its own connection and sends its next call as soon as it has a response. There is one server process, so
throughput stops growing once its cores are busy.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import recall_speed
import scratch


@contextmanager
def served() -> Iterator[str]:
    """Start the server and yield its address."""
    from django.conf import settings  # noqa: PLC0415 - after setup()

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    command = [sys.executable, str(scratch.ROOT / "manage.py"), "mcp", "--transport", "http", "--port", str(port)]
    process = subprocess.Popen(command, env={**os.environ, "DATABASE_URL": url}, cwd=scratch.ROOT)
    try:
        for _ in range(200):
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


async def send_queries(
    url: str, token: str, queries: list[str], times: list[float], connected: asyncio.Barrier
) -> None:
    import httpx2  # noqa: PLC0415 - after setup()
    from mcp import Client  # noqa: PLC0415 - after setup()
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - after setup()

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60) as http_client,
        Client(streamable_http_client(url, http_client=http_client)) as client,
    ):
        await client.call_tool("memory_recall", {"query": queries[0]})
        await connected.wait()
        for query in queries:
            started = time.perf_counter()
            response = await client.call_tool("memory_recall", {"query": query})
            if response.is_error:
                raise SystemExit(str(response.content[0]))
            times.append((time.perf_counter() - started) * 1000)


async def measure(url: str, tokens: list[str], queries: list[str], clients: int) -> tuple[float, list[float]]:
    """Return the calls per second, and the milliseconds of each call."""
    times: list[float] = []
    share = max(len(queries) // clients, 2)
    connected = asyncio.Barrier(clients + 1)
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            start = number * share % len(queries)
            part = (queries + queries)[start : start + share]
            group.create_task(send_queries(url, tokens[number % len(tokens)], part, times, connected))
        await connected.wait()
        started = time.perf_counter()
    return len(times) / (time.perf_counter() - started), times


def token_of(user: Any) -> str:
    from memories.identity.caller import system_caller  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()

    return create_token(caller=system_caller(), user=user, name="bench")[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--calls", type=int, default=200)
    options = parser.parse_args()
    scratch.setup()
    with scratch.database():
        from memory_project.models import User  # noqa: PLC0415 - after setup()

        # The memories are divided among eight people, because the server runs only a few calls of one person at once.
        people = [f"owner{number}@bench.example" for number in range(8)]
        tokens = [token_of(User.objects.create_user(email, None)) for email in people]
        texts = recall_speed.load(options.size, lambda number: people[number % len(people)])
        queries = recall_speed.questions(texts, options.calls)
        with served() as url:
            asyncio.run(measure(url, tokens, queries[:20], 2))  # warm-up
            print(f"{'clients':>8}{'calls/s':>10}{'p50 ms':>10}{'p95 ms':>10}")
            for clients in map(int, options.clients.split(",")):
                rate, times = asyncio.run(measure(url, tokens, queries, clients))
                p95 = sorted(times)[int(len(times) * 0.95) - 1]
                print(f"{clients:>8}{rate:>10.1f}{statistics.median(times):>10.1f}{p95:>10.1f}")


if __name__ == "__main__":
    main()

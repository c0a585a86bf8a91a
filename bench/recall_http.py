"""Measure recall over HTTP with growing numbers of clients: calls per second, milliseconds per call, and CPU time.

    python bench/recall_http.py [--size 10000] [--clients 1,8,32] [--calls 200] [--processes 1]
                                [--rounds 3] [--beside CHECKOUT] [--keep]

Uses the memories of recall_speed.py, divided among eight owners. `manage.py serve` serves them. Each client has its own
connection and sends its next call as soon as it has a response. One server process computes on one core, so throughput
stops growing once its cores are busy.

Each round sends `--calls` calls to each server, one server after the other, so that they meet the same machine:

- this checkout
- the checkout named by `--beside`, with the same database
- the floor: a tool of the bare SDK that returns its argument, served by uvicorn

The CPU time is that of the server's processes, and not that of the client or PostgreSQL. With `--keep`, the database
stays for the next run with the same --size.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import recall_speed
import scratch

PEOPLE = [f"owner{number}@bench.example" for number in range(8)]
FLOOR = "floor"


@dataclass
class Server:
    """A server and what was measured of it, by number of clients."""

    name: str
    url: str
    process: psutil.Process
    times: dict[int, list[float]] = field(default_factory=dict)  # milliseconds of each call
    took_s: dict[int, float] = field(default_factory=dict)
    cpu_s: dict[int, float] = field(default_factory=dict)

    def rate(self, clients: int) -> float:
        return len(self.times[clients]) / self.took_s[clients]

    def cpu_ms(self, clients: int) -> float:
        return 1000 * self.cpu_s[clients] / len(self.times[clients])

    def used_cpu_s(self) -> float:
        """Return the CPU time of the server's processes so far, in seconds."""
        times = [process.cpu_times() for process in (self.process, *self.process.children(recursive=True))]
        return float(sum(entry.user + entry.system for entry in times))

    def measure(self, clients: int, tokens: Sequence[str], queries: Sequence[str]) -> None:
        cpu_s: list[float] = []
        took_s, times = asyncio.run(
            send(self.url, clients, tokens, queries, on_connected=lambda: cpu_s.append(self.used_cpu_s()))
        )
        self.times.setdefault(clients, []).extend(times)
        self.took_s[clients] = self.took_s.get(clients, 0.0) + took_s
        self.cpu_s[clients] = self.cpu_s.get(clients, 0.0) + self.used_cpu_s() - cpu_s[0]


@contextmanager
def started(name: str, command: Sequence[str], folder: Path) -> Iterator[Server]:
    """Start a server with the address of this run's database, and wait until it listens."""
    from django.conf import settings  # noqa: PLC0415 - after setup()

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    process = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], env=scratch.environment(url), cwd=folder
    )
    try:
        for _ in range(600):
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield Server(name, f"http://127.0.0.1:{port}/mcp", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


async def send(
    url: str,
    clients: int,
    tokens: Sequence[str],
    queries: Sequence[str],
    on_connected: Callable[[], None] = lambda: None,
) -> tuple[float, list[float]]:
    """Send each query once, divided among the clients. Return the seconds in all, and the milliseconds of each call."""
    times: list[float] = []
    connected = asyncio.Barrier(clients + 1)
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            part = queries[number::clients] or queries[:1]
            group.create_task(_send_as_client(url, tokens[number % len(tokens)], part, times, connected))
        while connected.n_waiting < clients:
            await asyncio.sleep(0.01)
        on_connected()
        await connected.wait()
        start = time.perf_counter()
    return time.perf_counter() - start, times


async def _send_as_client(
    url: str, token: str, queries: Sequence[str], times: list[float], connected: asyncio.Barrier
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
            start = time.perf_counter()
            response = await client.call_tool("memory_recall", {"query": query})
            if response.is_error:
                raise SystemExit(str(response.content[0]))
            times.append((time.perf_counter() - start) * 1000)


def serve_floor(port: int) -> None:
    """Serve a tool of the bare SDK that returns its argument."""
    import uvicorn  # noqa: PLC0415 - not needed by the client
    from mcp.server.mcpserver import MCPServer  # noqa: PLC0415 - not needed by the client

    server: MCPServer[Any] = MCPServer("floor", log_level="WARNING")

    @server.tool(name="memory_recall")
    def echo(query: str) -> str:
        return query

    uvicorn.run(server.streamable_http_app(stateless_http=True), port=port, log_level="warning", access_log=False)


def tokens_of_people() -> list[str]:
    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    people = [User.objects.filter(email=email).first() or User.objects.create_user(email, None) for email in PEOPLE]
    return [create_token(system_caller(), user=person, name="bench")[1] for person in people]


def compare(servers: Sequence[Server], options: argparse.Namespace, tokens: Sequence[str], queries: list[str]) -> None:
    for server in servers:
        asyncio.run(send(server.url, 8, tokens, queries[: 20 * options.processes]))  # warm-up
    print(f"{'clients':>8} {'server':<10}{'calls/s':>10}{'p50 ms':>10}{'p95 ms':>10}{'CPU ms/call':>14}")
    for clients in map(int, options.clients.split(",")):
        for number in range(options.rounds):
            for server in servers[:: -1 if number % 2 else 1]:
                server.measure(clients, tokens, queries)
        for server in servers:
            times = sorted(server.times[clients])
            figures = (server.rate(clients), statistics.median(times), times[int(len(times) * 0.95) - 1])
            row = "".join(f"{figure:>10.1f}" for figure in figures)
            print(f"{clients:>8} {server.name:<10}{row}{server.cpu_ms(clients):>14.2f}", flush=True)
        this = servers[0]
        for other in servers[1:]:
            rates, cpu = this.rate(clients) / other.rate(clients), other.cpu_ms(clients) / this.cpu_ms(clients)
            print(f"{'':>8} {rates:.2f} times the rate of {other.name}, {cpu:.2f} times as many calls per CPU second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--clients", default="1,8,32")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1, help="web processes of each server but the floor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="folder of another checkout")
    parser.add_argument("--keep", action="store_true", help="keep the database for the next run")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)  # serve the floor
    options = parser.parse_args()
    if options.port:
        return serve_floor(options.port)
    scratch.setup()
    with scratch.database(keep=options.keep) as is_new, ExitStack() as stack:
        if is_new:
            # Divided among eight people, because the server runs only a few calls of one person at once.
            recall_speed.load(options.size, lambda number: PEOPLE[number % len(PEOPLE)])
        tokens = tokens_of_people()
        queries = recall_speed.questions(recall_speed.sentences(options.size), options.calls)[: options.calls]
        serve = ["manage.py", "serve", "--processes", str(options.processes)]
        servers = [stack.enter_context(started("this", serve, scratch.ROOT))]
        if options.beside:
            servers.append(stack.enter_context(started("beside", serve, options.beside.resolve())))
        servers.append(stack.enter_context(started(FLOOR, [__file__], scratch.ROOT)))
        compare(servers, options, tokens, queries)


if __name__ == "__main__":
    main()

"""Measure how long one person waits while other clients flood the server.

    python bench/fairness.py [--size 2000] [--clients 90] [--calls 60] [--kinds recall,rest,…] [--rounds 1]

`manage.py serve` runs with a database of its own. A colleague sends one recall after the other over MCP: alone, then
while a second process floods the server, and then alone again. Prints p50 and p95 in ms, the ratio of the p50 to the
mean of both times alone, and what the flood got. Each client of the flood sends its next request as soon as it has a
response, and ignores Retry-After. The kinds:

- recall, rest, page, remember, context, sql: calls of one other person with one token, or one browser session
- tokens: recalls of one other person with a token of its own for each client
- sign-in: wrong passwords for different accounts, over 30 connections
- unknown, anonymous: MCP calls with made-up tokens, and without any
- half-open: connections that never finish their headers
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import recall_speed
import scratch

FLOODER, COLLEAGUE = "flooder@bench.example", "colleague@bench.example"
KINDS = (
    "recall", "rest", "page", "remember", "context", "sql", "tokens", "sign-in", "unknown", "anonymous", "half-open",
)  # fmt: skip
WAREHOUSE = 'kind = "sql"\nengine = "duckdb"\ndatabase = "bench.duckdb"\nread_personas = ["analyst"]\n'
SLOW_SQL = "SELECT count(*) FROM range(20000) a, range(20000) b WHERE (a.range * b.range) % 7 = 3"
WARM_UP = 5  # calls that are not counted


@dataclass(frozen=True)
class Keys:
    """What the clients sign in with."""

    colleague: str
    flooder: list[str]  # tokens
    session: str  # a browser session of the flooder


# -- a client without the cost of a library, which would compete with the server for the cores -----------------


def request(method: str, path: str, body: str = "", **headers: str) -> bytes:
    fields = {"Host": "localhost", "Content-Length": str(len(body.encode())), **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def tool_call(token: str, tool: str, **arguments: Any) -> bytes:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return request(
        "POST", "/mcp", json.dumps(call), Authorization=f"Bearer {token}", Content_Type="application/json",
        Accept="application/json, text/event-stream", MCP_Protocol_Version="2025-06-18",
    )  # fmt: skip


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> tuple[int, bytes]:
    writer.write(message)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding: chunked" in head:
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return status, b"".join(parts)
    lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
    return status, await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""


async def client(port: int, message: Callable[[int], bytes], counts: Counter[str]) -> None:
    turns = itertools.count()
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for turn in turns:
                    status, _ = await exchange(reader, writer, message(turn))
                    counts[str(status)] += 1
            finally:
                writer.close()
        except (OSError, asyncio.IncompleteReadError):
            counts["closed"] += 1
            await asyncio.sleep(0.01)


async def half_open(port: int, counts: Counter[str]) -> None:
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            counts["held"] += 1
            await reader.read(1)
            counts["held"] -= 1
            counts["closed"] += 1
            writer.close()
            await asyncio.sleep(0.1)
        except OSError:
            counts["refused"] += 1
            await asyncio.sleep(0.01)


def message_of(kind: str, keys: Keys, queries: list[str], number: int, turn: int) -> bytes:
    """Return request `turn` of client `number`."""
    token = keys.flooder[number % len(keys.flooder) if kind == "tokens" else 0]
    query = queries[(number + turn) % len(queries)]
    if kind in ("recall", "tokens"):
        return tool_call(token, "memory_recall", query=query)
    if kind == "rest":
        bearer = {"Authorization": f"Bearer {token}", "Content_Type": "application/json"}
        return request("POST", "/api/v1/memories/recall/", json.dumps({"query": query}), **bearer)
    if kind == "page":
        return request("GET", "/insights/", Cookie=f"sessionid={keys.session}")
    if kind == "remember":
        text = f"{query} of client {number}, note {turn}."
        return tool_call(token, "memory_manage", command="remember", content=text)
    if kind == "context":
        return tool_call(token, "catalog_search", query=f"sales.orders {query}")
    if kind == "sql":
        return tool_call(token, "query_sql", source="warehouse", sql=SLOW_SQL)
    if kind == "sign-in":
        form = f"csrfmiddlewaretoken={'a' * 32}&username=nobody{number}-{turn}@bench.example&password=wrong"
        headers = {"Content_Type": "application/x-www-form-urlencoded", "Cookie": f"csrftoken={'a' * 32}"}
        return request("POST", "/sign-in/", form, **headers)
    if kind == "unknown":
        return tool_call(f"cpl_{number}-{turn}", "memory_recall", query=query)
    return request("POST", "/mcp", "{}", Content_Type="application/json")


async def flood(kind: str, port: int, clients: int, keys: Keys, queries: list[str]) -> None:
    """Send requests until standard input ends, then print what came back."""
    counts: Counter[str] = Counter()
    count = {"sign-in": 30, "half-open": 200}.get(kind, clients)
    tasks = [
        asyncio.create_task(
            half_open(port, counts)
            if kind == "half-open"
            else client(port, functools.partial(message_of, kind, keys, queries, number), counts)
        )
        for number in range(count)
    ]
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(counts))


@contextmanager
def flooding(kind: str, port: int, clients: int, keys: Keys, queries: list[str]) -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()
    job = json.dumps([kind, port, clients, vars(keys), queries])
    process = subprocess.Popen(
        [sys.executable, __file__, "--flood", job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    time.sleep(2)
    try:
        yield counts
    finally:
        output, _ = process.communicate("")
        counts.update(json.loads(output.splitlines()[-1]))


async def colleague(port: int, token: str, queries: list[str]) -> list[float]:
    """Return the milliseconds of each call."""
    times: list[float] = []
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for query in queries:
        started = time.perf_counter()
        status, body = await exchange(reader, writer, tool_call(token, "memory_recall", query=query))
        times.append((time.perf_counter() - started) * 1000)
        if status != 200 or b'"isError":true' in body:
            raise SystemExit(f"the colleague got {status}: {body[:300]!r}")
    writer.close()
    return sorted(times[WARM_UP:])


# -- the server -----------------------------------------------------------------------------------------------


@contextmanager
def served() -> Iterator[int]:
    from django.conf import settings  # noqa: PLC0415 - after setup()

    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    database = settings.DATABASES["default"]
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    command = [sys.executable, str(scratch.ROOT / "manage.py"), "serve", "--port", str(port)]
    with open(settings.COMMONPLACE_HOME / "fairness.log", "w") as log:
        process = subprocess.Popen(command, env=scratch.environment(url), cwd=scratch.ROOT, stderr=log)
    try:
        for _ in range(300):
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


def set_up(size: int, clients: int) -> tuple[Keys, list[str]]:
    import duckdb  # noqa: PLC0415 - after setup()
    from django.conf import settings  # noqa: PLC0415 - after setup()
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: PLC0415
    from django.contrib.sessions.backends.db import SessionStore  # noqa: PLC0415

    from analysis.models import DeclaredSource  # noqa: PLC0415 - after setup()
    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    flooder, friend = (User.objects.create_user(email, None) for email in (FLOODER, COLLEAGUE))
    texts = recall_speed.load(size, lambda number: (FLOODER, COLLEAGUE)[number % 2])
    folder = Path(settings.ANALYSIS_FILES)
    folder.mkdir(parents=True, exist_ok=True)
    duckdb.connect(str(folder / "bench.duckdb")).close()
    DeclaredSource.objects.create(name="warehouse", declaration=WAREHOUSE)
    session = SessionStore()
    session[SESSION_KEY] = str(flooder.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = flooder.get_session_auth_hash()
    session.save()

    def token(user: Any) -> str:
        return create_token(system_caller(), user=user, name="bench")[1]

    keys = Keys(token(friend), [token(flooder) for _ in range(clients)], str(session.session_key))
    return keys, recall_speed.questions(texts, 200)


def report(port: int, keys: Keys, queries: list[str], options: argparse.Namespace) -> None:
    def measure() -> list[float]:
        return asyncio.run(colleague(port, keys.colleague, queries[: options.calls + WARM_UP]))

    measure()  # warm-up
    print(f"{'flood':<12}{'p50 alone':>12}{'p50':>10}{'p95':>10}{'ratio':>8}  responses to the flood", flush=True)
    for kind in options.kinds.split(",") * options.rounds:
        before = statistics.median(measure())
        with flooding(kind, port, options.clients, keys, queries) as counts:
            times = measure()
        time.sleep(3)  # the flood's last calls end
        alone = (before + statistics.median(measure())) / 2
        p50, p95 = statistics.median(times), times[int(len(times) * 0.95) - 1]
        print(f"{kind:<12}{alone:>12.1f}{p50:>10.1f}{p95:>10.1f}{p50 / alone:>8.2f}  {dict(counts)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=90)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--flood", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        kind, port, clients, keys, queries = json.loads(options.flood)
        return asyncio.run(flood(kind, port, clients, Keys(**keys), queries))
    scratch.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after setup()

    call_command("collectstatic", "--no-input", verbosity=0)
    with scratch.database():
        keys, queries = set_up(options.size, options.clients)
        with served() as port:
            report(port, keys, queries, options)


if __name__ == "__main__":
    main()

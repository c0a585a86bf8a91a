"""Replay the working day of a company in some minutes, and measure each operation and each process.

    python bench/load_model.py [--minutes 10] [--people 500] [--memories 200000] [--processes 1] [--seed 7]
                               [--json FILE] [--keep]

The day of one person and their agents. The numbers are assumptions, not counts of a real company:

- context   30  prompts that the hook of an agent sends (REST)
- recall    12  questions of an agent (memory_recall over MCP)
- remember   2  new memories (memory_manage over MCP)
- browse     8  pages: own memories, a search, one memory, an entity, the graph
- review     -  the queue (a page) and a decision (REST) for each of 60 insights a day and fifty people; one account
                does all of it, so its calls wait for each other

Calls arrive at random times with these rates (a Poisson process for each operation) from a fixed seed, whether earlier
ones are answered or not. The time of a call counts from when it should have been sent, so that waiting is not hidden. A
real web server and a real worker serve the day, as the application's role, so that row-level security applies. The data
are those of page_data.py.

CPU time and memory are those of the groups of processes. Memory is the proportional set size, in which pages that
several processes share count once. A run with --keep leaves the database, with what the day has changed, to the next.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import scratch
from page_data import fill
from page_rows import ADMIN, CURATOR, SENTENCES, WORDS, Size

A_DAY = {"context": 30, "recall": 12, "remember": 2, "browse": 8}  # operations of one person
PEOPLE_PER_CURATOR, DECISIONS_PER_CURATOR = 50, 60
TIMEOUT_S = 120.0
AT_ONCE = 200  # connections of the simulated clients
PAGES = ("/", "/?q={words}", "/memories/{memory}/", "/knowledge/entity/?urn={urn}", "/graph/", "/news/")
QUEUE = "/review/all/?state=pending"
MCP_HEADERS = {"Accept": "application/json, text/event-stream"}


@dataclass(frozen=True)
class Call:
    at: float  # seconds from the start
    operation: str
    person: int


@dataclass
class World:
    """What the calls need: credentials of people by number, and rows to ask for."""

    tokens: list[str]
    cookies: list[str]
    curator_token: str
    admin_token: str
    curator_cookie: str
    memories: list[str]
    urns: list[str]
    pending: list[str]  # insights; each is decided once


@dataclass
class Group:
    """The processes of one part of the installation, and what they have used during the day."""

    name: str
    root: psutil.Process
    cpu_s: float = 0.0
    max_mb: float = 0.0
    _cpu_at_start: float = field(default=0.0, repr=False)

    def processes(self) -> list[psutil.Process]:
        return [self.root, *self.root.children(recursive=True)]

    def used_cpu_s(self) -> float:
        """Return the CPU time so far, with that of children that have ended."""
        total = 0.0
        for process in self.processes():
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total

    def start(self) -> None:
        self._cpu_at_start = self.used_cpu_s()

    def look(self) -> None:
        size = 0
        for process in self.processes():
            try:
                size += process.memory_full_info().pss
            except psutil.Error:
                continue
        self.max_mb = max(self.max_mb, size / 1e6)
        self.cpu_s = self.used_cpu_s() - self._cpu_at_start


def day(people: int, seconds: float, seed: int) -> list[Call]:
    """Return the calls of a day, compressed into `seconds`, in the order of their times."""
    dice = random.Random(seed)
    amounts = {name: count * people for name, count in A_DAY.items()}
    amounts["review"] = max(people // PEOPLE_PER_CURATOR, 1) * DECISIONS_PER_CURATOR
    calls = []
    for operation, amount in amounts.items():
        at = dice.expovariate(amount / seconds)
        while at < seconds:
            calls.append(Call(at, operation, dice.randrange(people)))
            at += dice.expovariate(amount / seconds)
    return sorted(calls, key=lambda call: call.at)


# -- the installation ------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def started(name: str, *arguments: str, **more: str) -> Iterator[Group]:
    """Run a command of manage.py on the database of this run, as the application's role.

    `more` are environment variables, such as another DATABASE_URL.
    """
    from django.conf import settings  # noqa: PLC0415 - after setup()

    from memory_project.operating.postgres.server import APPLICATION  # noqa: PLC0415 - after setup()

    environment = dict(os.environ)
    if not settings.DATABASE_URL:
        database = settings.DATABASES["default"]
        environment["DATABASE_URL"] = f"postgresql://{APPLICATION}@/{database['NAME']}?host={database['HOST']}"
    command = [sys.executable, "-W", "ignore", str(scratch.ROOT / "manage.py"), *arguments]
    process = subprocess.Popen(command, env={**environment, **more}, cwd=scratch.ROOT)
    try:
        yield Group(name, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def postgres() -> list[Group]:
    """Return the group of PostgreSQL's processes, if it runs on this machine."""
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    if not connection.settings_dict["HOST"].startswith("/") or not psutil.pid_exists(pid):
        return []
    server = psutil.Process(pid).parent()
    return [Group("postgres", server)] if server else []


def world(people: int) -> World:
    from importlib import import_module  # noqa: PLC0415 - after setup()

    from django.conf import settings  # noqa: PLC0415 - after setup()
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY  # noqa: PLC0415

    from foundation.people.caller import system_caller  # noqa: PLC0415 - after setup()
    from knowledge.models import Insight  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()
    from memory_project.accounts.tokens import create_token  # noqa: PLC0415 - after setup()
    from memory_project.models import User  # noqa: PLC0415 - after setup()

    store = import_module(settings.SESSION_ENGINE).SessionStore

    def cookie(user: User) -> str:
        session = store()
        session[SESSION_KEY], session[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session.create()
        return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"

    def token(user: User) -> str:
        # with the right that setting up webhooks and subscriptions needs
        return create_token(system_caller(), user=user, name="bench", rights=["administer"])[1]

    users = [User.objects.get(email=f"owner{number}@bench.example") for number in range(people)]
    curator = User.objects.get(email=CURATOR)
    shared = MemoryRecord.objects.filter(visibility="everyone", status="active").exclude(entity_urns=[])
    pending = Insight.objects.filter(state="pending", record__persona__in=["persona0", "persona1", "persona2"])
    return World(
        tokens=[token(user) for user in users],
        cookies=[cookie(user) for user in users],
        curator_token=token(curator),
        admin_token=token(User.objects.get(email=ADMIN)),
        curator_cookie=cookie(curator),
        memories=[str(pk) for pk in shared.values_list("pk", flat=True)[:500]],
        urns=[urns[0] for urns in shared.values_list("entity_urns", flat=True)[:500]],
        pending=[pk.hex for pk in pending.values_list("pk", flat=True)[:5_000]],
    )


# -- the clients -----------------------------------------------------------------------------------------------


class Clients:
    """Sends the calls and keeps their times. Each call has its own random choices, which depend on the seed only."""

    def __init__(self, url: str, world: World, seed: int) -> None:
        self.url, self.world, self.seed = url, world, seed
        self.times: dict[str, list[float]] = {}  # ms by operation
        self.errors: dict[str, int] = {}
        self.examples: dict[str, str] = {}  # operation → its first error
        self.approved: list[str] = []  # insights

    async def replay(self, calls: Sequence[Call]) -> None:
        import httpx2  # noqa: PLC0415 - after setup()

        limits = httpx2.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
        async with httpx2.AsyncClient(base_url=self.url, timeout=TIMEOUT_S, limits=limits) as client:
            start = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number, call in enumerate(calls):
                    await asyncio.sleep(max(start + call.at - time.perf_counter(), 0.0))
                    group.create_task(self._send(client, call, random.Random(self.seed * 1_000_003 + number), start))

    async def _send(self, client: Any, call: Call, dice: random.Random, start: float) -> None:
        problem = ""
        try:
            problem = await getattr(self, f"_{call.operation}")(client, call, dice)
        except Exception as error:  # a time-out or a broken connection is an error of the server, too
            problem = repr(error)
        self.times.setdefault(call.operation, []).append((time.perf_counter() - start - call.at) * 1000)
        if problem:
            self.errors[call.operation] = self.errors.get(call.operation, 0) + 1
            self.examples.setdefault(call.operation, problem[:300])

    async def _context(self, client: Any, call: Call, dice: random.Random) -> str:
        body = {"session": f"session {call.person}", "program": "claude", "prompt": sentence(dice)}
        return _problem(await client.post("/api/v1/hooks/prompt/", json=body, headers=self._token(call)))

    async def _recall(self, client: Any, call: Call, dice: random.Random) -> str:
        return await self._tool(client, call, "memory_recall", {"query": sentence(dice)})

    async def _remember(self, client: Any, call: Call, dice: random.Random) -> str:
        content = f"{sentence(dice)} (noted as {dice.getrandbits(32)})."
        return await self._tool(client, call, "memory_manage", {"command": "remember", "content": content})

    async def _browse(self, client: Any, call: Call, dice: random.Random) -> str:
        address = dice.choice(PAGES).format(
            words=quote(" ".join(dice.sample(WORDS, 2))),
            memory=dice.choice(self.world.memories),
            urn=quote(dice.choice(self.world.urns)),
        )
        return _problem(await client.get(address, headers={"Cookie": self.world.cookies[call.person]}))

    async def _review(self, client: Any, call: Call, dice: random.Random) -> str:
        if problem := _problem(await client.get(QUEUE, headers={"Cookie": self.world.curator_cookie})):
            return problem
        if not self.world.pending:
            return ""  # all are decided, so the curator only looks
        insight = self.world.pending.pop()
        headers = {"Authorization": f"Bearer {self.world.curator_token}"}
        approved = await client.post("/api/v1/insights/approve/", json={"insight_ids": [insight]}, headers=headers)
        if not (problem := _problem(approved)):
            self.approved.append(insight)
        return problem

    async def _tool(self, client: Any, call: Call, name: str, arguments: dict[str, Any]) -> str:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        response = await client.post("/mcp", json=body, headers={**MCP_HEADERS, **self._token(call)})
        is_error = '"isError":true' in response.text or '"error":{' in response.text
        return response.text if is_error else _problem(response)

    def _token(self, call: Call) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.world.tokens[call.person]}"}


class Writers(Clients):
    """Clients who write over REST, and keep the ids of the memories whose writing was acknowledged."""

    def __init__(self, url: str, world: World, seed: int) -> None:
        super().__init__(url, world, seed)
        self.acknowledged: list[str] = []

    async def _remember(self, client: Any, call: Call, dice: random.Random) -> str:
        content = f"Store {dice.getrandbits(32)} counts its till at {dice.randrange(24)}."
        response = await client.post("/api/v1/memories/", json={"content": content}, headers=self._token(call))
        if response.status_code >= 300:
            return f"{response.status_code} {response.text}"
        self.acknowledged.append(response.json()["memory"]["id"])
        return ""

    def count_lost(self) -> int:
        """Return how many of the acknowledged memories are missing. The connection must see all rows."""
        from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

        return len(self.acknowledged) - MemoryRecord.objects.filter(pk__in=self.acknowledged).count()


def _problem(response: Any) -> str:
    return "" if response.status_code < 300 else f"{response.status_code} {response.text}"


def sentence(dice: random.Random) -> str:
    text = dice.choice(SENTENCES).replace("%1$s", f"fernhill.sales.table_{dice.randrange(300)}")
    text = text.replace("%2$s", f"column_{dice.randrange(20)}")
    return str(text).replace("%3$s", dice.choice(WORDS)).replace("%4$s", dice.choice(WORDS))


# -- the report ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    operation: str
    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    errors: int


def rows(clients: Clients) -> list[Row]:
    found = []
    for operation, times in sorted(clients.times.items()):
        ordered = sorted(times)
        p50, p95, p99 = (
            round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 1) for share in (0.5, 0.95, 0.99)
        )
        found.append(Row(operation, len(ordered), p50, p95, p99, clients.errors.get(operation, 0)))
    return found


def report(clients: Clients, groups: Sequence[Group], seconds: float, file: Path | None) -> None:
    table = rows(clients)
    print(f"\n{'operation':<12}{'count':>8}{'p50 ms':>10}{'p95 ms':>10}{'p99 ms':>10}{'errors':>8}")
    for row in table:
        print(f"{row.operation:<12}{row.count:>8}{row.p50_ms:>10}{row.p95_ms:>10}{row.p99_ms:>10}{row.errors:>8}")
    print(f"\n{'processes':<12}{'CPU s':>8}{'of a core':>12}{'max. MB':>10}")
    for group in groups:
        print(f"{group.name:<12}{group.cpu_s:>8.1f}{group.cpu_s / seconds:>11.0%}{group.max_mb:>11.0f}")
    for operation, problem in clients.examples.items():
        print(f"\nfirst error of {operation}: {problem}")
    if file:
        processes = [
            {"name": group.name, "cpu_s": round(group.cpu_s, 2), "max_mb": round(group.max_mb)} for group in groups
        ]
        result = {"seconds": round(seconds, 1), "operations": [asdict(row) for row in table], "processes": processes}
        file.write_text(json.dumps(result, indent=1) + "\n")


@contextmanager
def repeated(every_s: float, do: Callable[[], None]) -> Iterator[None]:
    """Call a function again and again in a thread during the block, with this pause before each call."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(every_s):
            do()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def watched(groups: Sequence[Group]) -> Iterator[None]:
    """Look at the processes every two seconds during the block, and at its end."""

    def look() -> None:
        for group in groups:
            group.look()

    for group in groups:
        group.start()
    try:
        with repeated(2.0, look):
            yield
    finally:
        look()


def wait_until_ready(port: int) -> None:
    import httpx2  # noqa: PLC0415 - after setup()

    for _ in range(600):
        try:
            if httpx2.get(f"http://127.0.0.1:{port}/healthz", headers={"Host": "localhost"}).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit("the web server did not become ready")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--people", type=int, default=500)
    parser.add_argument("--memories", type=int, default=200_000)
    parser.add_argument("--processes", type=int, default=1, help="web processes")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--keep", action="store_true", help="keep the database for the next run with --keep")
    parser.add_argument("--json", type=Path, help="file for the result as JSON")
    options = parser.parse_args()
    scratch.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after setup()

    call_command("collectstatic", "--no-input", verbosity=0)
    calls = day(options.people, options.minutes * 60, options.seed)
    with scratch.database(keep=options.keep) as is_new, ExitStack() as stack:
        if is_new:
            # The data name owners up to number 499, so they need 500 people, of whom some take no part.
            fill(Size(options.memories, owners=max(options.people, 500)))
        people_and_rows, port = world(options.people), free_port()
        serve = ("serve", "--port", str(port), "--processes", str(options.processes))
        groups = [stack.enter_context(started("web", *serve)), stack.enter_context(started("worker", "qcluster"))]
        groups += postgres()
        wait_until_ready(port)
        warm_up = Clients(f"http://localhost:{port}", people_and_rows, 0)
        asyncio.run(warm_up.replay([Call(0.2 * n, name, n) for n, name in enumerate([*A_DAY, *A_DAY])]))
        print(f"{len(calls):,} calls of {options.people} people in {options.minutes:g} minutes", flush=True)
        clients = Clients(f"http://localhost:{port}", people_and_rows, options.seed)
        began = time.perf_counter()
        with watched(groups), suppress(KeyboardInterrupt):  # what was measured until Ctrl-C is reported, too
            asyncio.run(clients.replay(calls))
        report(clients, groups, time.perf_counter() - began, options.json)


if __name__ == "__main__":
    main()

"""Let a company work for an hour, and draw what grows: memory, connections, tables, queues, and times.

    python bench/soak.py [--minutes 60] [--people 40] [--memories 20000] [--seed 7] [--picture docs/img/soak.svg]
                         [--json FILE]

The people and their agents work as in load_model.py, a day in these minutes. Besides, colleagues import files, archive
memories together and undo that, curators apply what they approved to a DataHub that fails at times, others change
the catalog, a program gets each event by webhook, and a handbook is subscribed to. Every SAMPLE_S seconds, the size of
each process, the connections, temporary files, tables, queues and open cases are read. The curves are written to
PICTURE, and the slope of each after the first third is printed.

At the end, when the queues are as short as before, four rules are checked on the whole database; the command ends
with status 1 if one is broken: each acknowledged memory is there, nobody reads a memory of others that is not shared
with them, each text has the vectors of what it says now, and the counts of words are those of a recount.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import scratch
import soak_systems
from curves import Chart, Line, drawing
from load_model import (
    TIMEOUT_S,
    Call,
    Group,
    Row,
    Writers,
    day,
    free_port,
    postgres,
    repeated,
    rows,
    started,
    wait_until_ready,
    world,
)
from page_data import fill
from page_rows import Size
from soak_systems import Systems

SAMPLE_S = 10.0
QUIET_S = 300.0  # seconds that the queues have at the end to become as short as before
# Seconds without progress after which the work on the test data counts as done; longer than a worker takes to start.
UNCHANGED_S = 120.0
TELL_EVERY_S = 60.0  # between two lines that say how much of it is left
# operations of one person a day, besides those of load_model.py
EXTRA = {"import": 0.5, "bulk": 0.5, "catalog": 1, "apply": 0.75, "sync": 0.25}
EVENTS = ["insight.captured", "insight.decided", "insight.applied", "memory.stale", "memory.verified"]
IMPORTED = 20  # rows of a file
AT_ONCE = 50  # memories of a bulk action
TABLES_DRAWN = 6
SIZES = """
    SELECT relname, pg_total_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"""
STATE = """
    SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
           (SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()),
           (SELECT count(*) FROM index_jobs WHERE status IN ('pending', 'running')),
           (SELECT count(*) FROM django_q_ormq), (SELECT count(*) FROM jobs WHERE ended_at IS NULL),
           (SELECT count(*) FROM webhook_deliveries WHERE state = 'waiting'),
           (SELECT count(*) FROM memory_records WHERE status = 'stale'),
           (SELECT count(*) FROM insights WHERE state = 'pending'),
           (SELECT count(*) FROM changesets WHERE state IN ('planned', 'partial'))"""
QUEUES = ("vectors to compute", "tasks", "jobs", "deliveries")
CASES = ("stale memories", "insights to review", "changesets written in part")


@dataclass
class Samples:
    """Values by the name of their curve, each with the seconds since the start."""

    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, at: float, value: float) -> None:
        self.curves.setdefault(name, []).append((at, value))

    def slope(self, name: str) -> tuple[float, float]:
        """Return the growth an hour after the first third, by least squares, and the mean."""
        points = self.curves[name]
        points = points[len(points) // 3 :]
        mean_at = sum(at for at, _ in points) / len(points)
        mean = sum(value for _, value in points) / len(points)
        spread = sum((at - mean_at) ** 2 for at, _ in points)
        rise = sum((at - mean_at) * (value - mean) for at, value in points)
        return (rise / spread * 3600 if spread else 0.0), mean


class Company(Writers):
    """The clients of load_model.py, who also import files, archive memories together and change the catalog."""

    def __init__(self, url: str, people: Any, seed: int, systems: Systems) -> None:
        super().__init__(url, people, seed)
        self.systems = systems
        self.recent: list[tuple[str, float]] = []  # operation and ms of the calls since the last sample
        self.unfinished: list[str] = []  # changesets that were written in part
        self.subscription = ""

    async def set_up(self) -> None:
        """Register the program of each fifth person, and subscribe to the handbook."""
        import httpx2  # noqa: PLC0415 - after setup()

        webhook = {"name": "Chat", "url": self.systems.webhook_url, "kinds": EVENTS}
        handbook = {"name": "Handbook", "kind": "folder", "location": str(self.systems.handbook), "interval_min": 5}
        self.systems.write_page(random.Random(self.seed))
        async with httpx2.AsyncClient(base_url=self.url, timeout=TIMEOUT_S) as client:
            for token in self.world.tokens[::5]:
                answer = await client.post("/api/v1/webhooks/", json=webhook, headers=_bearer(token))
                answer.raise_for_status()
            answer = await client.post("/api/v1/subscriptions/", json=handbook, headers=_bearer(self.world.admin_token))
            answer.raise_for_status()
            self.subscription = answer.json()["id"]

    async def _send(self, client: Any, call: Call, dice: random.Random, start: float) -> None:
        await super()._send(client, call, dice, start)
        self.recent.append((call.operation, self.times[call.operation][-1]))  # the one that has just ended

    async def _import(self, client: Any, call: Call, dice: random.Random) -> str:
        lines = ["content", *(f"Imported fact {dice.getrandbits(40)} of a file." for _ in range(IMPORTED))]
        files = {"file": ("facts.csv", "\n".join(lines).encode())}
        response = await client.post("/api/v1/imports/", files=files, headers=self._token(call))
        return "" if response.status_code < 300 else f"{response.status_code} {response.text}"

    async def _bulk(self, client: Any, call: Call, dice: random.Random) -> str:
        return await asyncio.to_thread(archive_and_undo, f"owner{call.person}@bench.example")

    async def _catalog(self, client: Any, call: Call, dice: random.Random) -> str:
        self.systems.change_catalog(dice.choice(self.world.urns), dice.randrange(10))
        return ""

    async def _sync(self, client: Any, call: Call, dice: random.Random) -> str:
        self.systems.write_page(dice)
        address = f"/api/v1/subscriptions/{self.subscription}/runs/"
        response = await client.post(address, json={}, headers=_bearer(self.world.admin_token))
        return (
            "" if response.status_code < 300 or response.status_code == 409 else _text(response)
        )  # 409: one is running

    async def _apply(self, client: Any, call: Call, dice: random.Random) -> str:
        """Write an approved insight to the catalog, or finish what a fault has stopped. Roll back one of three."""
        headers = _bearer(self.world.curator_token)
        waiting = self.unfinished or self.approved
        if not waiting:
            return ""
        pk = waiting.pop(0)
        if waiting is self.unfinished:
            response = await client.post(f"/api/v1/changesets/{pk}/resume/", json={}, headers=headers)
        else:
            shown = (await client.get(f"/api/v1/insights/{pk}/", headers=headers)).json()
            changes = [
                {"change_type": action["action_type"], "target": action["target"], "detail": action["detail"]}
                for action in shown["suggested_actions"]
            ]
            body = {"insight_ids": [pk], "changes": changes, "entity_urn": shown["entity_urns"][0]}
            response = await client.post("/api/v1/changesets/", json=body, headers=headers)
        if response.status_code in (502, 503):  # DataHub's fault: somebody tries again
            waiting.append(pk)
            return ""
        if response.status_code >= 300:
            return _text(response)
        answer = response.json()
        changeset = answer["changeset_id"]
        if answer["state"] == "partial":
            self.unfinished.append(changeset)
        elif answer["state"] == "applied" and dice.randrange(3) == 0:
            address = f"/api/v1/changesets/{changeset}/roll-back/"
            response = await client.post(address, json={"skip_conflicts": True}, headers=headers)
            return "" if response.status_code < 300 or response.status_code in (502, 503) else _text(response)
        return ""


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _text(response: Any) -> str:
    return f"{response.status_code} {response.text}"


def archive_and_undo(email: str) -> str:
    """Archive the newest memories of a person in one bulk action, and undo it. Returns what went wrong."""
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - after setup()
    from django.db import connection  # noqa: PLC0415 - after setup()

    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()
    from memories.writing import bulk_actions  # noqa: PLC0415 - after setup()

    try:
        caller = build_caller(get_user_model().objects.get(email=email), channel="bench")
        own = MemoryRecord.objects.filter(created_by=email, status="active").order_by("-created_at")
        ids = list(own.values_list("pk", flat=True)[:AT_ONCE])
        batch = bulk_actions.start(caller, act="forget", unit_ids=ids)
        deadline = time.monotonic() + QUIET_S
        while not batch.finished_at:
            if time.monotonic() > deadline:
                return f"the batch {batch.pk} has not ended in {QUIET_S:g} s"
            time.sleep(0.5)
            batch.refresh_from_db()
        bulk_actions.undo(caller, batch_id=batch.pk)
    finally:
        connection.close()  # of this thread
    return ""


def calls_of(people: int, seconds: float, seed: int) -> list[Call]:
    dice = random.Random(seed + 1)
    extra = [
        Call(dice.uniform(0, seconds), operation, dice.randrange(people))
        for operation, amount in EXTRA.items()
        for _ in range(int(amount * people))
    ]
    return sorted([*day(people, seconds, seed), *extra], key=lambda call: call.at)


# -- reading ---------------------------------------------------------------------------------------------------


def read_database(samples: Samples, at: float) -> None:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute(STATE)
        connections, temporary, *lengths = cursor.fetchone()
        cursor.execute(SIZES)
        for table, size in cursor.fetchall():
            samples.add(f"table {table}", at, size / 1e6)
    samples.add("connections", at, connections)
    samples.add("temporary files, MB", at, float(temporary) / 1e6)
    for name, length in zip([*QUEUES, *CASES], lengths, strict=True):
        samples.add(f"{'queue' if name in QUEUES else 'cases'} {name}", at, length)


def read_processes(samples: Samples, groups: Sequence[Group], at: float) -> None:
    for group in groups:
        size = 0
        files = 0
        for process in group.processes():
            try:
                size += process.memory_full_info().pss
                files += process.num_fds()
            except psutil.Error:
                continue
        samples.add(f"memory {group.name}", at, size / 1e6)
        samples.add(f"files {group.name}", at, files)


def read_times(samples: Samples, company: Company, at: float) -> None:
    recent, company.recent = company.recent, []
    for operation in sorted({operation for operation, _ in recent}):
        ordered = sorted(ms for name, ms in recent if name == operation)
        samples.add(f"p50 {operation}", at, ordered[len(ordered) // 2])
        samples.add(f"p95 {operation}", at, ordered[min(int(len(ordered) * 0.95), len(ordered) - 1)])


# -- rules -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Backlog:
    """What waits: the length of each queue, and the number of texts by kind that lack vectors of what they say now."""

    queues: tuple[int, ...]
    gaps: Mapping[str, int]

    @classmethod
    def now(cls) -> Backlog:
        from django.db import connection  # noqa: PLC0415 - after setup()

        from memories.retrieval import index_status, indexing  # noqa: PLC0415 - after setup()

        with connection.cursor() as cursor:
            cursor.execute(STATE)
            queues = cursor.fetchone()[2 : 2 + len(QUEUES)]
        model = index_status.model()
        return cls(queues, {source.kind: source.gaps(model).count() for source in indexing.SOURCES.values()})

    @property
    def lengths(self) -> tuple[int, ...]:
        """The work that waits, as in QUEUES. A text that lacks vectors is work, whether it has been queued or not."""
        return max(self.queues[0], sum(self.gaps.values())), *self.queues[1:]

    @property
    def size(self) -> int:
        return sum(self.lengths)

    def is_at_most(self, other: Backlog) -> bool:
        return all(mine <= theirs for mine, theirs in zip(self.lengths, other.lengths, strict=True))


def settled() -> Backlog:
    """Wait until the workers have done what there is to do for the test data, and return what is left over."""
    shortest = Backlog.now()
    changed_at = time.monotonic()
    told_at = 0.0
    while shortest.size and time.monotonic() < changed_at + UNCHANGED_S:
        if time.monotonic() > told_at + TELL_EVERY_S:
            told_at = time.monotonic()
            print(f"{shortest.size:,} texts and tasks of the test data wait for the worker", flush=True)
        time.sleep(1.0)
        found = Backlog.now()
        if found.size < shortest.size:
            shortest = found
            changed_at = time.monotonic()
    return shortest


def quiet_again(before: Backlog) -> Backlog:
    """Return what is left when the queues are as short as before, or after QUIET_S."""
    deadline = time.monotonic() + QUIET_S
    found = Backlog.now()
    while not found.is_at_most(before) and time.monotonic() < deadline:
        time.sleep(1.0)
        found = Backlog.now()
    return found


def broken_rules(company: Company, before: Backlog, after: Backlog) -> list[str]:
    from django.contrib.auth import get_user_model  # noqa: PLC0415 - after setup()

    from foundation.database import identity  # noqa: PLC0415 - after setup()
    from foundation.people.permissions import build_caller  # noqa: PLC0415 - after setup()
    from memories.models import MemoryRecord  # noqa: PLC0415 - after setup()

    found = [] if after.is_at_most(before) else [f"after {QUIET_S:g} s, the queues were {after.lengths}"]
    if lost := company.count_lost():
        found.append(f"{lost} of {len(company.acknowledged)} acknowledged memories are missing")
    for user in get_user_model().objects.filter(email__startswith="owner")[:20]:
        caller = build_caller(user, channel="bench")
        by_rule = set(MemoryRecord.objects.visible_to(caller).values_list("pk", flat=True))
        with identity.acting_as(caller):
            by_policy = set(MemoryRecord.objects.values_list("pk", flat=True))
        if foreign := by_policy - by_rule:
            found.append(f"{user.email} can read {len(foreign)} memories of others")
    for kind, missing in after.gaps.items():
        if missing > before.gaps.get(kind, 0):
            found.append(f"{missing} texts of the kind {kind} have no vectors of what they say now")
    if wrong := wrong_counts():
        found.append(f"{wrong} counts of words differ from a recount")
    return found


def wrong_counts() -> int:
    """Return how many exact counts of words differ from a recount of all memories."""
    from django.db import connection, transaction  # noqa: PLC0415 - after setup()

    from memories.retrieval import term_changes, term_statistics  # noqa: PLC0415 - after setup()

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")  # what changes meanwhile is in neither
        term_changes.update()
        counted = counts_of_words()
        term_statistics.refresh()
        recounted = counts_of_words()
    return sum(counted.get(word) != recounted.get(word) for word in counted.keys() | recounted.keys())


def counts_of_words() -> dict[tuple[str, ...], int]:
    from django.db import connection  # noqa: PLC0415 - after setup()

    with connection.cursor() as cursor:
        cursor.execute("SELECT lexeme, owner, persona, documents FROM memory_lexemes WHERE NOT rough")
        return {tuple(word): documents for *word, documents in cursor.fetchall()}


# -- the report ------------------------------------------------------------------------------------------------


def charts(samples: Samples) -> list[Chart]:
    def lines(prefix: str) -> list[Line]:
        return [
            Line(name.removeprefix(prefix).strip(), points)
            for name, points in samples.curves.items()
            if name.startswith(prefix)
        ]

    tables = sorted(lines("table "), key=lambda line: line.points[0][1] - line.points[-1][1])[:TABLES_DRAWN]
    return [
        Chart("Memory of processes, MB", lines("memory ")),
        Chart("Open files", lines("files ")),
        Chart("Connections", lines("connections")),
        Chart("Temporary files written, MB", lines("temporary")),
        Chart("Tables that grow most, with indexes, MB", tables),
        Chart("Queues", lines("queue ")),
        Chart("Open cases", lines("cases ")),
        Chart("Median of the calls in ten seconds, ms", lines("p50 ")),
        Chart("95th percentile, ms", lines("p95 ")),
    ]


def print_report(samples: Samples, table: Sequence[Row], examples: Mapping[str, str]) -> None:
    print(f"\n{'operation':<12}{'count':>8}{'p50 ms':>10}{'p95 ms':>10}{'errors':>8}")
    for row in table:
        print(f"{row.operation:<12}{row.count:>8}{row.p50_ms:>10}{row.p95_ms:>10}{row.errors:>8}")
    print(f"\n{'curve':<42}{'mean':>12}{'an hour more':>14}")
    for name in sorted(samples.curves):
        growth, mean = samples.slope(name)
        if abs(growth) > 0.02 * abs(mean) and not name.startswith("p"):
            print(f"{name:<42}{mean:>12.1f}{growth:>+14.1f}")
    for operation, problem in examples.items():
        print(f"\nfirst error of {operation}: {problem}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--picture", type=Path, default=scratch.ROOT / "docs" / "img" / "soak.svg")
    parser.add_argument("--json", type=Path, help="file for all samples")
    options = parser.parse_args()
    scratch.setup()
    from django.core.management import call_command  # noqa: PLC0415 - after setup()

    call_command("collectstatic", "--no-input", verbosity=0)
    calls = calls_of(options.people, options.minutes * 60, options.seed)
    samples = Samples()
    with scratch.database(), ExitStack() as stack:
        fill(Size(options.memories, owners=500))  # the data name owners up to number 499
        systems = stack.enter_context(soak_systems.running())
        systems.load_catalog()
        people, port = world(options.people), free_port()
        groups = [
            stack.enter_context(started("web", "serve", "--port", str(port), **systems.settings)),
            stack.enter_context(started("worker", "qcluster", **systems.settings)),
            *postgres(),
        ]
        wait_until_ready(port)
        before = settled()  # the texts of the test data get their vectors first
        company = Company(f"http://localhost:{port}", people, options.seed, systems)
        asyncio.run(company.set_up())
        print(f"{len(calls):,} calls of {options.people} people in {options.minutes:g} minutes", flush=True)

        began = time.perf_counter()

        def read() -> None:
            at = time.perf_counter() - began
            read_processes(samples, groups, at)
            read_database(samples, at)
            read_times(samples, company, at)

        with repeated(SAMPLE_S, read):
            asyncio.run(company.replay(calls))
        broken = broken_rules(company, before, quiet_again(before))
    if options.json:
        options.json.write_text(json.dumps(samples.curves) + "\n")
    options.picture.write_text(drawing(charts(samples)))
    print_report(samples, rows(company), company.examples)
    print(f"\n{systems.received:,} events were delivered by webhook")
    for rule in broken:
        print(f"\nBROKEN: {rule}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

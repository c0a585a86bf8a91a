"""Let the primary of a cluster with Patroni fail six times while a company works, and count what was lost.

    python bench/failover.py [--faults 6] [--people 40] [--memories 2000] [--every 60] [--seed 7] [--out FILE]

The cluster is that of deploy/ha and docs/ha.md: two database machines with Patroni in synchronous mode, etcd on three,
HAProxy, PgBouncer, two web processes and a worker. The database machines are network namespaces of this one, so it
needs Linux and root. The people of load_model.py work, and write more than there. The faults take turns: all processes
of the primary's machine are killed, PostgreSQL alone is, or the machine's network is cut. Between two faults the
machine comes back and becomes the synchronous standby. The kernel closes the connections of killed processes, and
keeps what they have written.

The table has for each fault the seconds until there is a new primary, until the first answer to a write, a recall and a
page that were sent after the fault, and the calls that failed, by what a person saw. It ends with status 1 if an
acknowledged write is missing in the end.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import scratch
from load_model import Call, Writers, day, started, wait_until_ready, world
from page_data import fill
from page_rows import Size
from patroni_cluster import FILES, PASSWORD, Cluster, wait_until

WRITES = 30  # new memories of a person, in place of the two of a day
GROUPS = {"write": ("remember",), "recall": ("context", "recall"), "page": ("browse", "review")}
KINDS = ("machine", "server", "network")
BEFORE_S = 20.0  # of work before the first fault
AFTER_S = 20.0  # of work after the last machine is back
EXAMPLES = 6  # answers to failed calls that are shown for a fault
HOME_PORT = 8000


@dataclass(frozen=True)
class Answer:
    operation: str
    sent: float  # seconds of time.monotonic()
    answered: float
    problem: str  # "" if the call did what it should


@dataclass
class Fault:
    machine: str
    kind: str  # one of KINDS
    at: float  # when the processes were gone, or the network was
    primary_after_s: float = math.inf
    whole_after_s: float = math.inf  # until there is a synchronous standby again
    until: float = math.inf  # the next fault, or the end

    def first_success_s(self, answers: Sequence[Answer], group: str) -> float:
        """Return the seconds from the fault to the first success of a call that was sent after it."""
        ended = [a.answered for a in answers if a.sent > self.at and not a.problem and a.operation in GROUPS[group]]
        return min(ended, default=math.inf) - self.at

    def last_failure_s(self, answers: Sequence[Answer]) -> float:
        return (
            max((a.answered for a in answers if self.at <= a.answered < self.until and a.problem), default=self.at)
            - self.at
        )

    def failed(self, answers: Sequence[Answer]) -> Counter[str]:
        return Counter(a.problem for a in answers if self.at <= a.answered < self.until and a.problem)


class Company(Writers):
    """Writers who keep every answer."""

    def __init__(self, url: str, people: Any, seed: int) -> None:
        super().__init__(url, people, seed)
        self.answers: list[Answer] = []

    async def _send(self, client: Any, call: Call, dice: random.Random, start: float) -> None:
        sent = time.monotonic()
        try:
            problem = seen_in(await getattr(self, f"_{call.operation}")(client, call, dice))
        except Exception as error:  # a broken connection is what a person sees, too
            problem = type(error).__name__
        self.answers.append(Answer(call.operation, sent, time.monotonic(), problem))


def seen_in(answer: str) -> str:
    """Return the message for people in a failed call's answer: JSON, the JSON of a tool as text in JSON, or a page."""
    found = re.search(r'\\?"(?:detail|error|message)\\?":\s*\\?"([^"\\]+)|<h1[^>]*>([^<]+)', answer)
    text = (found[1] or found[2]) if found else answer[:80]
    return " ".join(text.split()).replace("|", "/")


def calls_of(people: int, seconds: float, seed: int) -> list[Call]:
    dice = random.Random(seed + 1)
    writes = [Call(dice.uniform(0, seconds), "remember", dice.randrange(people)) for _ in range(WRITES * people)]
    return sorted([*day(people, seconds, seed), *writes], key=lambda call: call.at)


def disturb(cluster: Cluster, faults: int, every_s: float, found: list[Fault]) -> None:
    """Let the primary fail again and again, and wait each time until the cluster is whole."""
    time.sleep(BEFORE_S)
    for number in range(faults):
        machine, kind = cluster.primary(), KINDS[number % len(KINDS)]
        match kind:
            case "machine":
                cluster.kill_machine(machine)
            case "server":
                cluster.kill_server(machine)
            case "network":
                cluster.cut_network(machine)
        fault = Fault(machine, kind, time.monotonic())
        if found:
            found[-1].until = fault.at
        found.append(fault)
        wait_until(lambda machine=machine: cluster.primary() not in ("", machine), "a new primary")  # type: ignore[misc]
        fault.primary_after_s = time.monotonic() - fault.at
        if kind == "machine":
            cluster.start_machine(machine)
        elif kind == "network":
            cluster.mend_network(machine)
        wait_until(cluster.is_whole, "a synchronous standby")
        fault.whole_after_s = time.monotonic() - fault.at
        time.sleep(max(every_s - fault.whole_after_s, 5.0))
    time.sleep(AFTER_S)
    found[-1].until = time.monotonic()


def database_url(role: str, port: int, database: str = "commonplace") -> str:
    return f"postgres://{role}:{PASSWORD}@127.0.0.1:{port}/{database}"


def settings_of(folder: Path) -> dict[str, str]:
    """Return the environment variables of the web processes and the worker."""
    return {
        "DATABASE_URL": database_url("commonplace_app", 6432),
        "DATABASE_OWNER_URL": database_url("commonplace_owner", 5000),
        "SECRET_KEY": "of a trial, and no other",
        "COMMONPLACE_HOME": str(folder / "home"),
        "COMMONPLACE_URL": f"http://localhost:{HOME_PORT}",
        "TRUSTED_PROXIES": "127.0.0.1",
    }


def manage(*arguments: str, settings: dict[str, str]) -> None:
    command = [sys.executable, "-W", "ignore", str(scratch.ROOT / "manage.py"), *arguments]
    subprocess.run(command, env={**os.environ, **settings}, check=True, stdout=subprocess.DEVNULL)


def report(faults: Sequence[Fault], company: Company, lost: int) -> str:
    lines = [
        "| fault of the | new primary after, s | first write | first recall | first page | last failure |"
        " standby again after | calls that failed | most frequent answers |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for fault in faults:
        firsts = " | ".join(f"{fault.first_success_s(company.answers, group):.1f}" for group in GROUPS)
        failed = fault.failed(company.answers)
        seen = "; ".join(f"{count} × {text}" for text, count in failed.most_common(EXAMPLES))
        lines.append(
            f"| {fault.kind} | {fault.primary_after_s:.1f} | {firsts} |"
            f" {fault.last_failure_s(company.answers):.1f} | {fault.whole_after_s:.1f} | {failed.total()} | {seen} |"
        )
    total = len(company.answers)
    bad = sum(1 for answer in company.answers if answer.problem)
    lines += [
        "",
        f"{total:,} calls, {bad:,} of them failed; {len(company.acknowledged):,} writes acknowledged, {lost} lost",
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=6)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two faults, at least")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, help="file for the table in Markdown")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the programs are stopped then, too
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="failover-")))
        cluster = new_cluster(folder)
        stack.callback(cluster.stop)
        cluster.start()
        create_database(cluster)
        settings = settings_of(folder)
        manage("migrate", settings=settings)
        os.environ |= settings | {"DATABASE_URL": database_url("postgres", 5000)}  # row-level security doesn't bind it
        scratch.setup()
        from django.core.management import call_command  # noqa: PLC0415 - after setup()
        from django.db import connection  # noqa: PLC0415 - after setup()

        call_command("collectstatic", "--no-input", verbosity=0)
        fill(Size(options.memories, owners=500))
        people = world(options.people)
        for number in (1, 2):
            stack.enter_context(started("web", "serve", "--port", str(HOME_PORT + number), **settings))
        stack.enter_context(started("worker", "qcluster", **settings))
        wait_until_ready(HOME_PORT + 1)
        wait_until_ready(HOME_PORT)
        seconds = BEFORE_S + options.faults * options.every + AFTER_S
        company = Company(f"http://localhost:{HOME_PORT}", people, options.seed)
        faults: list[Fault] = []
        with ThreadPoolExecutor(1) as executor:
            disturbing = executor.submit(disturb, cluster, options.faults, options.every, faults)
            asyncio.run(company.replay(calls_of(options.people, seconds, options.seed)))
            disturbing.result()  # raises what ended it
        connection.close()
        lost = company.count_lost()
        connection.close()
        table = report(faults, company, lost)
    print(table)
    if options.out:
        options.out.write_text(table + "\n")
    return 1 if lost else 0


def new_cluster(folder: Path) -> Cluster:
    from memory_project.operating.postgres.server import EmbeddedPostgres  # noqa: PLC0415 - after the path is set

    packaged = EmbeddedPostgres(folder)
    account = packaged.account
    if account is None:
        raise SystemExit("run this as root: it makes network namespaces")
    os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o755)
    return Cluster(folder, account, packaged.binaries)


def leads_to_primary() -> bool:
    """Return whether HAProxy leads to the primary. Until it has asked Patroni twice, it leads to both servers."""
    try:
        with psycopg.connect(database_url("postgres", 5000, "postgres")) as connection:
            return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)
    except psycopg.Error:
        return False


def create_database(cluster: Cluster) -> None:
    wait_until(lambda: all(leads_to_primary() for _ in range(4)), "HAProxy knows the primary")
    script = str(FILES / "roles.sql")
    command = [str(cluster.binaries / "psql"), "--set=ON_ERROR_STOP=1", f"--file={script}"]
    server = ["--host=127.0.0.1", "--port=5000", "--username=postgres", "postgres"]
    passwords = dict.fromkeys(("OWNER_PASSWORD", "APP_PASSWORD", "PGPASSWORD"), PASSWORD)
    subprocess.run([*command, *server], env={**os.environ, **passwords}, check=True)


if __name__ == "__main__":
    sys.exit(main())

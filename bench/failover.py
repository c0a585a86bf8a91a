"""Kill the primary of a cluster with Patroni five times while a company works, and count what was lost.

    python bench/failover.py [--kills 5] [--people 40] [--memories 2000] [--every 60] [--seed 7] [--out FILE]

The cluster is that of deploy/ha and docs/ha.md on loopback addresses of this machine: etcd, two database machines with
Patroni in synchronous mode, HAProxy, PgBouncer, two web processes and a worker. The people of load_model.py work, and
write more than there. Every other kill ends Patroni with its server, as if the machine were gone; the others end the
server alone. Between two kills the killed machine comes back and becomes the synchronous standby. The kernel closes the
connections of killed processes, and keeps what they have written: a machine whose network ends is noticed later.

The table has for each kill the seconds until there is a new primary, until the first answer to a write, a recall and a
page that were sent after the kill, and the calls that failed, by what a person saw. It ends with status 1 if an
acknowledged write is missing in the end. It runs as root or as an account that may run PostgreSQL.
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
BEFORE_S = 20.0  # of work before the first kill
AFTER_S = 20.0  # of work after the last machine is back
EXAMPLES = 3  # answers to failed calls that are shown for a kill
HOME_PORT = 8000


@dataclass(frozen=True)
class Answer:
    operation: str
    sent: float  # seconds of time.monotonic()
    answered: float
    problem: str  # "" if the call did what it should


@dataclass
class Kill:
    machine: str
    is_whole_machine: bool
    at: float  # when its processes were gone
    primary_after_s: float = math.inf
    whole_after_s: float = math.inf  # until there is a synchronous standby again
    until: float = math.inf  # the next kill, or the end

    def first_success_s(self, answers: Sequence[Answer], group: str) -> float:
        """Return the seconds from the kill to the first success of a call that was sent after it."""
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


def kill_primaries(cluster: Cluster, kills: int, every_s: float, found: list[Kill]) -> None:
    """Kill the primary again and again, and wait each time until the cluster is whole."""
    time.sleep(BEFORE_S)
    for number in range(kills):
        machine = cluster.primary()
        is_whole_machine = number % 2 == 0
        if is_whole_machine:
            cluster.kill_machine(machine)
        else:
            cluster.kill_server(machine)
        kill = Kill(machine, is_whole_machine, time.monotonic())
        found.append(kill)
        wait_until(lambda machine=machine: cluster.primary() not in ("", machine), "a new primary")  # type: ignore[misc]
        kill.primary_after_s = time.monotonic() - kill.at
        if kill.is_whole_machine:
            cluster.start_machine(machine)
        wait_until(cluster.is_whole, "a synchronous standby")
        kill.whole_after_s = time.monotonic() - kill.at
        time.sleep(max(every_s - kill.whole_after_s, 5.0))
        kill.until = time.monotonic()
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


def report(kills: Sequence[Kill], company: Company, lost: int) -> str:
    lines = [
        "| killed | new primary after, s | first write | first recall | first page | last failure |"
        " standby again after | calls that failed | most frequent answers |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kill in kills:
        firsts = " | ".join(f"{kill.first_success_s(company.answers, group):.1f}" for group in GROUPS)
        failed = kill.failed(company.answers)
        seen = "; ".join(f"{count} × {text}" for text, count in failed.most_common(EXAMPLES))
        lines.append(
            f"| {'machine' if kill.is_whole_machine else 'server'} | {kill.primary_after_s:.1f} | {firsts} |"
            f" {kill.last_failure_s(company.answers):.1f} | {kill.whole_after_s:.1f} | {failed.total()} | {seen} |"
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
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--people", type=int, default=40)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two kills, at least")
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
        seconds = BEFORE_S + options.kills * options.every + AFTER_S
        company = Company(f"http://localhost:{HOME_PORT}", people, options.seed)
        kills: list[Kill] = []
        with ThreadPoolExecutor(1) as executor:
            killing = executor.submit(kill_primaries, cluster, options.kills, options.every, kills)
            asyncio.run(company.replay(calls_of(options.people, seconds, options.seed)))
            killing.result()  # raises what ended it
        connection.close()
        lost = company.count_lost()
        connection.close()
        table = report(kills, company, lost)
    print(table)
    if options.out:
        options.out.write_text(table + "\n")
    return 1 if lost else 0


def new_cluster(folder: Path) -> Cluster:
    from memory_project.operating.postgres.server import EmbeddedPostgres  # noqa: PLC0415 - after the path is set

    packaged = EmbeddedPostgres(folder)
    account = packaged.account
    if account is None:
        return Cluster(folder, {}, packaged.binaries)
    os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o755)
    return Cluster(folder, {"user": account.pw_uid, "group": account.pw_gid}, packaged.binaries)


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

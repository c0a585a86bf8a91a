"""Two homes with one database: sessions and pushes work across both, no task is lost, and another key is refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import psycopg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, SUPERUSER, EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, START_WITHIN_S, command, environment

TASKS_EACH = 20
# Creates a person with a session and a token. Schedules would only take time here.
SET_UP = """
import json
from django.test import Client
from django_q.models import Schedule
from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User
Schedule.objects.update(repeats=0)
person = User.objects.create_superuser("ana@example.org", "a long password")
browser = Client()
browser.force_login(person, "django.contrib.auth.backends.ModelBackend")
token = create_token(system_caller(), user=person, name="agent")[1]
print(json.dumps({"session": browser.cookies["sessionid"].value, "token": token}))
"""
# each script is a process of its own, and starting one takes seconds
QUEUE = """
from django_q.tasks import async_task
for number in range(%s):
    async_task("tests.operations.noted_tasks.note", %r, f"%s {number}")
"""


@dataclass
class Machine:
    home: Path
    port: int
    database: Path  # the folder of the server's socket
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        at = f"@{quote(str(self.database), safe='')}/{DATABASE}"
        urls = {
            "DATABASE_URL": f"postgres://{APPLICATION}{at}",
            "DATABASE_OWNER_URL": f"postgres://{OWNER}{at}",
            "COMMONPLACE_FILES": str(self.home.parent / "files"),
        }
        return {**environment(self.home, self.port), **urls}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(*arguments), env=self.environment, cwd=ROOT, capture_output=True, text=True)

    def script(self, code: str) -> str:
        done = self.run("shell", "--no-imports", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self.home / f"{arguments[0]}.log", "wb") as log:
            process = subprocess.Popen(
                command(*arguments), env=self.environment, cwd=ROOT, stdout=log, stderr=log, process_group=0
            )
        self.processes.append(process)
        return process

    def stop(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def machine(home: Path, database: Path) -> Iterator[Machine]:
    machine = Machine(home, free_port(), database)
    try:
        yield machine
    finally:
        machine.stop()


@pytest.fixture(scope="module")
def machines() -> Iterator[tuple[Machine, Machine, Machine]]:
    """Two machines with the same key and a third with its own, and a database in the first one's home."""
    with prepared_home("tables") as (home, _), ExitStack() as stack:
        server = EmbeddedPostgres(home)
        server.ensure_running()
        homes = [home, home / "second", home / "third"]
        for other in homes[1:]:
            other.mkdir()
        shutil.copy(home / "secret_key", homes[1] / "secret_key")
        first, second, third = (stack.enter_context(machine(folder, server.socket_dir)) for folder in homes)
        yield first, second, third


def until(condition: Any, what: str) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def is_healthy(machine: Machine) -> bool:
    try:
        return httpx2.get(f"{machine.url}/healthz", timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def test_two_homes_share_a_database_and_lose_nothing(machines: tuple[Machine, Machine, Machine]) -> None:
    first, second, third = machines
    file = first.home / "noted"
    made = json.loads(first.script(SET_UP + QUEUE % (TASKS_EACH, str(file), "first")).splitlines()[-1])
    second.script(QUEUE % (TASKS_EACH, str(file), "second"))
    for one in (first, second):
        one.start("serve", "--port", str(one.port))
    workers_lose_no_task(first, second, file)

    for one in (first, second):
        until(lambda one=one: is_healthy(one), f"{one.home} has no healthy server:\n{one.log('serve')}")
        # the session was made elsewhere, and nobody has collected the second home's static files
        with httpx2.Client(base_url=one.url, cookies={"sessionid": made["session"]}) as browser:
            page = browser.get("/", follow_redirects=True)
            assert (page.status_code, "ana@example.org" in page.text) == (200, True)
            style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
            assert style.startswith("/static/")
            assert browser.get(style).status_code == 200
    assert pushed(first, second, made["token"]) == [""]

    refused = third.run("serve", "--port", str(third.port))
    assert refused.returncode == 1
    assert "Set SECRET_KEY as on the other machines, or copy their COMMONPLACE_HOME/secret_key" in refused.stderr
    assert "Traceback" not in refused.stderr


def workers_lose_no_task(first: Machine, second: Machine, file: Path) -> None:
    """Let both workers run, kill one of them in the middle, and check that each task has been done."""

    def done() -> Counter[str]:
        return Counter(file.read_text().splitlines()) if file.exists() else Counter()

    killed = first.start("qcluster")
    second.start("qcluster")
    until(lambda: len(done()) >= 8, f"no tasks are done:\n{first.log('qcluster')}{second.log('qcluster')}")
    os.killpg(killed.pid, signal.SIGKILL)
    with psycopg.connect(host=str(first.database), user=SUPERUSER, dbname=DATABASE, autocommit=True) as connection:
        # as if `retry` were over, after which the queue gives the tasks of a killed worker to another one
        claimed = connection.execute("UPDATE django_q_ormq SET lock = now() WHERE lock > now()").rowcount

    def is_empty() -> bool:
        with psycopg.connect(host=str(first.database), user=SUPERUSER, dbname=DATABASE) as connection:
            return connection.execute("SELECT count(*) FROM django_q_ormq").fetchone() == (0,)

    until(is_empty, f"tasks are left:\n{second.log('qcluster')}")
    assert set(done()) == {f"{name} {number}" for name in ("first", "second") for number in range(TASKS_EACH)}
    assert sum(done().values()) <= 2 * TASKS_EACH + claimed  # only claimed tasks may have been done twice


def pushed(writer: Machine, listener: Machine, token: str) -> list[str]:
    """Return what a client of `listener` receives when a memory is written through `writer`."""
    headers = {"Authorization": f"Bearer {token}"}

    async def main() -> list[str]:
        received: list[str] = []
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(f"{listener.url}/mcp", http_client=http)) as client,
            client.listen(resources_list_changed=True, resource_subscriptions=[]) as events,
        ):
            body = {"insight_text": "Refunds are late.", "category": "data_quality"}
            answer = await http.post(f"{writer.url}/api/v1/insights/", json=body)
            assert answer.status_code == 201, answer.text
            with anyio.fail_after(60):
                async for event in events:
                    received.append(getattr(event, "uri", ""))
                    break
        return received

    return asyncio.run(main())

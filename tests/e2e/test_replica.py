"""A replica and a failover, with real servers: a primary, its standby and a web server that knows both."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from memory_project.postgres.server import APPLICATION, DATABASE, OWNER, SUPERUSER, EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, folder_and_port

ALICE, BOB = "alice@example.org", "bob@example.org"
MAKE = f"""
from django.core.management import call_command
from memory_project.models import User
for email in {ALICE!r}, {BOB!r}:
    User.objects.create_user(email, "a long password")
    call_command("createtoken", email)
"""
PATIENCE_S = 60


class Standby(EmbeddedPostgres):
    """A streaming copy of another embedded server."""

    def follow(self, primary: EmbeddedPostgres) -> None:
        for folder in (self.socket_dir, self.data):
            self._owned_dir(folder)
        copied = self._run(
            str(self.binaries / "pg_basebackup"), f"--pgdata={self.data}", "--write-recovery-conf", "--checkpoint=fast",
            f"--host={primary.socket_dir}", f"--username={SUPERUSER}",
        )  # fmt: skip
        assert copied.returncode == 0, copied.stdout
        self._start()


class Site:
    """A web server with a primary and a replica, and its people's connections."""

    def __init__(self, home: Path, port: int, primary: EmbeddedPostgres, standby: Standby) -> None:
        self.primary, self.standby = primary, standby
        hosts = f"{primary.socket_dir},{standby.socket_dir}"
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **environment(home, port),
            "DATABASE_URL": f"postgres://{APPLICATION}@/{DATABASE}?host={hosts}",
            "DATABASE_OWNER_URL": f"postgres://{OWNER}@/{DATABASE}?host={hosts}",
            "DATABASE_REPLICA_URL": f"postgres://{APPLICATION}@/{DATABASE}?host={standby.socket_dir}",
            "DATABASE_REPLICA_MAX_LAG_S": "600",
        }
        self.tokens: dict[str, str] = {}

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(command(*arguments), env=self.environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def call(self, email: str, method: str, path: str, body: Any = None) -> Any:
        response = self.respond(email, method, path, body)
        assert response.status_code < 300, response.text
        return response.json()

    def respond(self, email: str, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[email]}"}
        return httpx2.request(method, f"{self.url}/api/v1/{path}", json=body, headers=headers, timeout=PATIENCE_S)

    def remember(self, email: str, text: str) -> str:
        return str(self.call(email, "POST", "memories/", {"content": text})["memory"]["id"])

    def listed(self, email: str) -> set[str]:
        return {memory["content"] for memory in self.call(email, "GET", "memories/?limit=100")["items"]}

    def recalled(self, email: str, query: str) -> set[str]:
        found = self.call(email, "POST", "memories/recall/", {"query": query})
        return {memory["content"] for memory in found["memories"]}

    def wait_for_replay(self) -> None:
        """Wait until the replica has what the primary has."""
        end = value(self.primary, "SELECT pg_current_wal_flush_lsn()::text")
        eventually(lambda: value(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{end}'"))

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the replica stay as it is for the time of a block."""
        self.wait_for_replay()
        value(self.standby, "SELECT pg_wal_replay_pause()")
        eventually(lambda: value(self.standby, "SELECT pg_get_wal_replay_pause_state() = 'paused'"))
        try:
            yield
        finally:
            value(self.standby, "SELECT pg_wal_replay_resume()")
            self.wait_for_replay()


def value(server: EmbeddedPostgres, statement: str) -> Any:
    with server.connect(DATABASE) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[arg-type]  # statements of this module
    return row and row[0]


def eventually(is_so: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with prepared_home("tables") as (home, port), folder_and_port() as (other_home, _):
        primary, standby = EmbeddedPostgres(home), Standby(other_home)
        primary.ensure_running()
        standby.follow(primary)
        running = Site(home, port, primary, standby)
        created = running.manage("shell", "--no-imports", "-c", MAKE).splitlines()
        running.tokens = dict(zip((ALICE, BOB), created, strict=True))
        with open(home / "serve.log", "w") as log:
            process = subprocess.Popen(command("serve"), env=running.environment, cwd=ROOT, stdout=log, stderr=log)
        try:
            eventually(lambda: accepts(port) or process.poll() is not None)
            yield running
            print((home / "serve.log").read_text())
        finally:
            process.terminate()
            process.wait(30)


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_reads_go_to_the_replica_except_for_ones_own_changes(site: Site) -> None:
    site.remember(ALICE, "Refunds are booked on the day of the return.")
    with site.paused():
        assert site.listed(BOB) == {"Refunds are booked on the day of the return."}
        site.remember(ALICE, "Refunds of gift cards count as revenue.")
        # Bob reads from the replica, which doesn't have it yet. Alice sees her own change at once.
        assert len(site.listed(BOB)) == 1
        assert len(site.recalled(BOB, "refunds")) == 1
        assert len(site.listed(ALICE)) == 2
        assert len(site.recalled(ALICE, "refunds")) == 2
    assert site.listed(BOB) == site.listed(ALICE)
    assert site.recalled(BOB, "refunds") == site.recalled(ALICE, "refunds")

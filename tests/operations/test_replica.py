"""A replica and a failover, with real servers: a primary, its standby and a web server that knows both."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, folder_and_port
from tests.operations.standby import Standby

ALICE, BOB = "alice@example.org", "bob@example.org"
MAKE = f"""
from django.core.management import call_command
from memory_project.models import User
for email in {ALICE!r}, {BOB!r}:
    User.objects.create_user(email, "a long password")
    call_command("createtoken", email)
"""
PATIENCE_S = 60
# Run with Django's settings of the web server: statements that the replica refuses are repeated on the primary.
FALLS_BACK = """
import threading, time, uuid
import psycopg
from django.conf import settings
from django.test import Client
from foundation.operations.errors import Conflict
from foundation.database import identity, locks, prepared_statements, replica
from memory_project.operating.doctor import machines
from memory_project.operating.postgres.server import SUPERUSER

def is_replica():
    return prepared_statements.rows("SELECT pg_is_in_recovery()", [])[0][0]

def lock_for_a_moment():
    time.sleep(0.5)
    with psycopg.connect(host=%(primary)r, user=SUPERUSER, dbname="commonplace", autocommit=True) as primary:
        primary.execute("TRUNCATE conflicting")

with identity._within(identity.Identity(email=%(email)r, shared="*")):
    with replica.reading():
        assert is_replica()
        with replica.connection_for_reading().cursor() as cursor:
            cursor.execute("CREATE TEMPORARY TABLE written AS SELECT pg_is_in_recovery() AS replica")  # 25006
        assert not is_replica()
    with replica.reading():
        assert is_replica()
        thread = threading.Thread(target=lock_for_a_moment)
        thread.start()
        sql = "SELECT pg_is_in_recovery(), (SELECT pg_sleep(3) WHERE pg_is_in_recovery()) FROM conflicting"
        with replica.connection_for_reading().cursor() as cursor:
            cursor.execute(sql)  # 40001: the replay needs the table
            assert cursor.fetchall() == []  # of the primary, where it is empty now
        assert not is_replica()
        thread.join()
with locks.exclusive("test", uuid.uuid4(), Conflict("busy")):
    with psycopg.connect(host=%(standby)r, user=SUPERUSER, dbname="commonplace") as standby:
        assert standby.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
settings.ALLOWED_HOSTS.append("testserver")
client = Client(headers={"Authorization": "Bearer " + %(token)r})
assert "Commonplace-Replica-Lag" not in client.get("/api/v1/memories/").headers
assert machines.replica().state == "ok"
settings.DATABASE_REPLICA_MAX_LAG_S = -1.0
assert machines.replica().state == "warning"
response = client.get("/api/v1/memories/")
assert response.status_code == 200 and "Commonplace-Replica-Lag" in response.headers
"""


class Site:
    """A web server with a primary and a replica, and its people's connections."""

    def __init__(self, home: Path, port: int, primary: EmbeddedPostgres, standby: Standby) -> None:
        self.primary, self.standby = primary, standby
        # The standby comes first, so whatever connects without a look at the kind of server finds the wrong one.
        hosts = f"{standby.socket_dir},{primary.socket_dir}"
        self.url = f"http://127.0.0.1:{port}"
        self.environment = {
            **environment(home, port),
            "DATABASE_URL": f"postgres://{APPLICATION}@/{DATABASE}?host={hosts}",
            "DATABASE_OWNER_URL": f"postgres://{OWNER}@/{DATABASE}?host={hosts}",
            "DATABASE_REPLICA_URL": f"postgres://{APPLICATION}@/{DATABASE}?host={standby.socket_dir}",
            "DATABASE_REPLICA_MAX_LAG_S": "600",
        }
        self.tokens: dict[str, str] = {}
        self.browsers: dict[str, Any] = {}

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

    def remember(self, email: str, text: str, visibility: str = "persona") -> str:
        body = {"content": text, "visibility": visibility}
        return str(self.call(email, "POST", "memories/", body)["memory"]["id"])

    def listed(self, email: str) -> set[str]:
        return {memory["content"] for memory in self.call(email, "GET", "memories/?limit=100")["items"]}

    def recalled(self, email: str, query: str) -> set[str]:
        found = self.call(email, "POST", "memories/recall/", {"query": query})
        return {memory["content"] for memory in found["memories"]}

    def tool(self, email: str, name: str, **arguments: Any) -> str:
        """Call an MCP tool, and return the response as text."""

        async def call() -> str:
            headers = {"Authorization": f"Bearer {self.tokens[email]}"}
            async with (
                httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
                Client(streamable_http_client(f"{self.url}/mcp", http_client=http)) as client,
            ):
                return str((await client.call_tool(name, arguments)).structured_content)

        with ThreadPoolExecutor(1) as pool:  # Playwright may run an event loop in this thread
            return pool.submit(asyncio.run, call()).result()

    def page(self, email: str, path: str) -> str:
        """Return a page as a signed-in person sees it."""
        if email not in self.browsers:
            browser = self.browsers[email] = httpx2.Client(base_url=self.url, timeout=PATIENCE_S, follow_redirects=True)
            form = browser.get("/sign-in/").text
            csrf = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form)
            assert csrf is not None
            fields = {"username": email, "password": "a long password", "csrfmiddlewaretoken": csrf[1]}
            browser.post("/sign-in/", data=fields)
        return str(self.browsers[email].get(path).text)

    def wait_for_replay(self) -> None:
        """Wait until the replica has what the primary has."""
        value(self.primary, "SELECT pg_logical_emit_message(true, '', '')")  # its commit writes the log to disk
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
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
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
        finally:
            for browser in running.browsers.values():
                browser.close()
            process.terminate()
            process.wait(30)


def accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_reads_go_to_the_replica_except_for_ones_own_changes(site: Site) -> None:
    site.remember(ALICE, "Refunds are booked on the day of the return.")
    private = site.remember(ALICE, "Refunds of the board are settled by hand.", "private")
    with site.paused():
        assert site.respond(BOB, "GET", f"memories/{private}/").status_code == 404
        assert site.listed(BOB) == {"Refunds are booked on the day of the return."}
        site.remember(ALICE, "Refunds of gift cards count as revenue.")
        # Bob reads from the replica, which doesn't have it yet. Alice sees her own change at once.
        assert len(site.listed(BOB)) == 1
        assert len(site.recalled(BOB, "refunds")) == 1
        assert len(site.listed(ALICE)) == 3
        assert len(site.recalled(ALICE, "refunds")) == 3
    assert len(site.listed(BOB)) == 2
    assert len(site.recalled(BOB, "refunds")) == 2


def test_what_is_taken_away_is_gone_for_everybody_at_once(site: Site) -> None:
    erased, made_private, corrected = (site.remember(ALICE, f"Margin rule {number}") for number in range(3))
    for path, body in (
        (f"{erased}/erase/", {"confirm": True}),
        (f"{made_private}/share/", {"visibility": "private"}),
        (f"{corrected}/supersede/", {"content": "Margin is net of freight.", "reason": "It was wrong."}),
    ):
        with site.paused():
            before = site.listed(BOB)
            site.remember(ALICE, f"Noise beside {path}")
            assert site.listed(BOB) == before  # of the replica
            site.call(ALICE, "POST", f"memories/{path}", body)
            assert site.respond(BOB, "GET", f"memories/{path.split('/')[0]}/").status_code == 404 or "supersede" in path
            after = site.listed(BOB)
            assert before - after  # what was taken away
            assert f"Noise beside {path}" in after  # of the primary


def test_tools_and_pages_read_from_the_replica(site: Site) -> None:
    site.page(ALICE, "/"), site.page(BOB, "/")  # signing in is a change
    with site.paused():
        memory = site.remember(ALICE, "Invoices are due after thirty days.")
        assert "thirty days" not in site.tool(BOB, "memory_recall", query="invoices due")
        assert "thirty days" in site.tool(ALICE, "memory_recall", query="invoices due")
        assert "thirty days" not in site.page(BOB, f"/memories/{memory}/")
        assert "thirty days" in site.page(ALICE, f"/memories/{memory}/")
    assert "thirty days" in site.page(BOB, f"/memories/{memory}/")


def test_a_statement_that_the_replica_refuses_is_repeated_on_the_primary(site: Site) -> None:
    value(site.standby, "ALTER SYSTEM SET max_standby_streaming_delay = 0")
    value(site.standby, "SELECT pg_reload_conf()")
    value(site.primary, f"CREATE TABLE conflicting AS SELECT 1 AS one; GRANT SELECT ON conflicting TO {APPLICATION}")
    site.wait_for_replay()
    values = {
        "email": BOB, "token": site.tokens[BOB],
        "primary": str(site.primary.socket_dir), "standby": str(site.standby.socket_dir),
    }  # fmt: skip
    site.manage("shell", "--no-imports", "-c", FALLS_BACK % values)


def test_without_the_replica_the_primary_is_read(site: Site) -> None:
    site.standby._pg_ctl("stop", "-m", "immediate")
    try:
        site.remember(ALICE, "Returns are counted in the month of the sale.")
        assert "Returns are counted in the month of the sale." in site.listed(BOB)
        assert httpx2.get(f"{site.url}/healthz", timeout=PATIENCE_S).json()["replica"] == "away"
    finally:
        site.standby._start()
    site.wait_for_replay()
    eventually(lambda: site.listed(BOB) and httpx2.get(f"{site.url}/healthz", timeout=60).json()["replica"] == "ok")


def test_after_a_failover_writes_go_on_and_none_is_lost(site: Site) -> None:
    value(site.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
    value(site.primary, "SELECT pg_reload_conf()")
    eventually(lambda: value(site.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state <> 'async'"))
    confirmed = {f"Before the failover {number}" for number in range(5)}
    for text in sorted(confirmed):
        site.remember(ALICE, text)
    pid = site.primary.status().pid
    assert pid is not None
    started = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: httpx2.get(f"{site.url}/healthz", timeout=PATIENCE_S).status_code == 503)
    assert site.respond(ALICE, "POST", "memories/", {"content": "Nobody accepts this."}).status_code == 503
    value(site.standby, "SELECT pg_promote()")
    eventually(lambda: site.respond(ALICE, "POST", "memories/", {"content": "After the failover"}).status_code < 300)
    print(f"writes went on {time.monotonic() - started:.1f} s after the primary was killed")
    assert httpx2.get(f"{site.url}/healthz", timeout=PATIENCE_S).status_code == 200
    assert confirmed | {"After the failover"} <= site.listed(ALICE) & site.listed(BOB)

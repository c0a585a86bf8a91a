"""Isolation under load: many calls of one person, slow clients and a hanging embedder don't affect other people."""

from __future__ import annotations

import asyncio
import json
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from memory_project.web.request_limits import HEADERS_WITHIN_S
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, START_WITHIN_S, STOP_WITHIN_S, command, environment
from tests.http_servers import QuietHandler, serving
from tests.other_processes import until

PEOPLE = "greedy@example.org", "patient@example.org"
AT_ONCE, WAITING, CROWD = 3, 4, 12  # calls of one person
REFUSED = CROWD - AT_ONCE - WAITING
MAKE = """
from django.core.management import call_command
from memory_project.models import User
for email in %r:
    User.objects.create_user(email, "a long password")
    call_command("createtoken", email)
"""


class Hanging(QuietHandler):
    """An embedding server that accepts requests and never responds."""

    release = threading.Event()
    requests = 0

    def do_POST(self) -> None:
        Hanging.requests += 1
        self.release.wait(60)


@contextmanager
def hanging_embedder() -> Iterator[str]:
    Hanging.release = threading.Event()
    with serving(Hanging) as url:
        yield f"{url}/v1"
        Hanging.release.set()


class Served:
    def __init__(self, home: Path, port: int, settings: dict[str, str]) -> None:
        self.home, self.url = home, f"http://127.0.0.1:{port}"
        self.environment = {**environment(home, port), **settings}
        self.port = port
        self.tokens: dict[str, str] = {}

    def manage(self, *arguments: str) -> str:
        process = subprocess.run(command(*arguments), env=self.environment, cwd=ROOT, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def health(self) -> tuple[int, dict[str, Any], float]:
        started = time.monotonic()
        response = httpx2.get(f"{self.url}/healthz", timeout=60)
        return response.status_code, response.json(), time.monotonic() - started


def accepts_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with prepared_home("tables") as (home, port), hanging_embedder() as embedder:
        settings = {
            "EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "hangs", "EMBEDDING_URL": embedder,
            "EMBEDDING_CALLER_TIMEOUT_S": "20", "DATABASE_POOL_SIZE": "3",
            "CALLS_AT_ONCE": str(AT_ONCE), "CALLS_WAITING": str(WAITING),
        }  # fmt: skip
        server = Served(home, port, settings)
        created = server.manage("shell", "--no-imports", "-c", MAKE % (PEOPLE,)).splitlines()
        server.tokens = dict(zip(PEOPLE, created, strict=True))
        with open(home / "serve.log", "w") as log:
            process = subprocess.Popen(command("serve"), env=server.environment, cwd=ROOT, stdout=log, stderr=log)
        try:
            assert until(lambda: accepts_connections(port) or process.poll() is not None, START_WITHIN_S)
            assert process.poll() is None, (home / "serve.log").read_text()
            yield server
        finally:
            process.terminate()
            process.wait(STOP_WITHIN_S)


def ignore(result: Any) -> None:
    pass


async def calls(
    served: Served, email: str, count: int, arguments: dict[str, Any], when_ended: Callable[[Any], None] = ignore
) -> list[Any]:
    """Make so many calls at once. Returns the result or the error of each, which `when_ended` gets as they end."""

    async def call(client: Client) -> Any:
        try:
            result: Any = await client.call_tool("memory_recall", arguments)
        except Exception as error:
            result = error
        when_ended(result)
        return result

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {served.tokens[email]}"}, timeout=60) as http,
        Client(streamable_http_client(f"{served.url}/mcp", http_client=http)) as client,
    ):
        return list(await asyncio.gather(*(call(client) for _ in range(count))))


def content_of(response: Any) -> dict[str, Any]:
    return dict(json.loads(response.content[0].text) if response.is_error else response.structured_content)


def run_calls(responses: Coroutine[Any, Any, list[Any]]) -> list[Any]:
    """Run the calls in another thread, because Playwright may run an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, responses).result()


def test_many_calls_of_one_person_leave_room_for_others(served: Served) -> None:
    responses: list[Any] = []
    refused: list[MCPError] = []
    arguments = {"query": "do refunds count?"}

    def note_refusal(result: Any) -> None:
        if isinstance(result, MCPError):
            refused.append(result)
        if len(refused) == REFUSED:
            Hanging.release.set()

    crowd = threading.Thread(
        target=lambda: responses.extend(run_calls(calls(served, PEOPLE[0], CROWD, arguments, note_refusal)))
    )
    crowd.start()
    checks = [served.health()]
    while crowd.is_alive():
        checks.append(served.health())
        time.sleep(0.1)
    Hanging.release.clear()
    # health checks don't wait behind the calls; one in ten, and the median, tolerate a slow machine
    assert sum(status != 200 for status, _, _ in checks) <= len(checks) / 10
    assert statistics.median(took for _, _, took in checks) < 2
    assert len(refused) == REFUSED
    assert "let some of them finish" in str(refused[0])
    successes = [content_of(response) for response in responses if not isinstance(response, MCPError)]
    assert all(response["degraded"] and response["ranking"] == "lexical" for response in successes)
    other_responses = run_calls(calls(served, PEOPLE[1], 1, {"query": "x", "strategy": "lexical"}))
    assert not other_responses[0].is_error


def test_a_hanging_embedder_is_not_called_again_and_health_reports_it(served: Served) -> None:
    run_calls(calls(served, PEOPLE[1], 3, {"query": "do refunds count?"}))
    before = Hanging.requests
    responses = run_calls(calls(served, PEOPLE[1], 3, {"query": "do refunds count?"}))
    assert all(content_of(response)["degraded"] for response in responses)
    status, body, _ = served.health()
    assert (status, body["embeddings"], body["degraded"]) == (200, "away", True)
    assert Hanging.requests - before <= 1  # one call may try again after a while


@pytest.mark.parametrize(("path", "kind"), [("/mcp", "json"), ("/api/v1/memories/", "json"), ("/sign-in/", "html")])
def test_a_body_that_is_too_large_is_rejected_before_it_is_buffered(served: Served, path: str, kind: str) -> None:
    for body in (b"x" * 6_000_000, iter([b"x" * 1_000_000] * 7)):
        response = httpx2.post(f"{served.url}{path}", content=body, timeout=60)
        if response.status_code == 401:  # without a token, the body is not read at all
            continue
        assert response.status_code == 413
        assert kind in response.headers["content-type"]
        assert "the request is too large" in response.text.lower()  # a page has it as a sentence


def test_a_request_with_incomplete_headers_is_dropped(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as half:
        half.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        half.settimeout(HEADERS_WITHIN_S + 5)
        assert half.recv(100) == b""


@contextmanager
def database_that_cannot_start(served: Served) -> Iterator[None]:
    """Stop the database, after its next start was made to fail: any process of the product may start it at once."""
    configuration = served.home / "postgres" / "postgresql.auto.conf"
    before = configuration.read_text()
    configuration.write_text(before + "\nno_such_setting = on\n")
    try:
        served.manage("db", "stop")
        yield
    finally:
        configuration.write_text(before)


def test_without_database_every_channel_responds_within_seconds(served: Served) -> None:
    token = served.tokens[PEOPLE[1]]
    with database_that_cannot_start(served):
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        for path, body in (("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}), ("/api/v1/memories/", {})):
            for _ in range(80):  # a token that was looked up before is known until the server notices
                response = httpx2.post(f"{served.url}{path}", json=body, headers=headers, timeout=30)
                if response.status_code != 200:
                    break
                time.sleep(0.5)
            assert response.status_code == 503, response.text
            assert response.json()["code"] == "degraded"
            assert response.headers["Retry-After"] == "5"
        page = httpx2.get(f"{served.url}/", cookies={"sessionid": "x" * 32}, timeout=30)
        assert (page.status_code, page.headers["Retry-After"]) == (503, "5")
        assert str(served.home) not in response.text + page.text  # the reason is for operators
        lines = (served.home / "serve.log").read_text().splitlines()
        reasons = [line for line in lines if "the embedded PostgreSQL can't be started" in line]
        assert reasons
        assert all(str(served.home) in line for line in reasons), reasons
        assert served.health()[0] == 503
    assert until(lambda: served.health()[0] == 200, START_WITHIN_S)  # a failed start is cached for some seconds
    assert served.manage("db", "start") == "already running"

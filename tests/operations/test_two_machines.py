"""Two homes with one database: sessions and pushes work across both, no task is lost, and another key is refused."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import httpx2
import psycopg
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from memory_project.operating.postgres.server import DATABASE, SUPERUSER, EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.operations.machines import QUEUE, Machine, is_healthy, machine, until

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
        with httpx2.Client(base_url=one.url, cookies={"sessionid": made["session"]}, timeout=60) as browser:
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

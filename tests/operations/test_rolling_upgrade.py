"""An upgrade while people work: the earlier version's web server and worker, and the new ones, on one database.

The earlier version comes from git: the revision PREVIOUS, which must have the same dependencies.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from memory_project.operating.postgres.server import EmbeddedPostgres
from tests.e2e.processes import ROOT, folder_and_port
from tests.http_servers import free_port
from tests.operations.machines import Machine, is_healthy, until

PREVIOUS = os.environ.get("PREVIOUS", "f34e31000e7aceeb088e13704683cb08ece9dbaf")
TOGETHER_S = 60.0  # that both versions serve
PAUSE_S = 0.1
PEOPLE = """
from django.core.management import call_command
from memory_project.models import User
for name in ("ana", "bob"):
    User.objects.create_superuser(f"{name}@example.org", "a long password")
    call_command("createtoken", f"{name}@example.org")
"""
# The virtual environment has a path to the checkout of this version, where the earlier one would find new packages.
RUN = """
import os, runpy, sys
sys.path[:] = [path for path in sys.path if not os.path.exists(os.path.join(path, "manage.py"))]
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
STORED = """
from memories.models import MemoryRecord
print(MemoryRecord.objects.filter(pk__in=%r).count())
"""
LEFT = """
from django_q.models import OrmQ
from memory_project.operating.shared import task_queue
print([row.reason for row in task_queue.unreadable()], [(row.func(), row.lock) for row in OrmQ.objects.all()])
"""


@dataclass
class Version(Machine):
    """A machine that runs the version of a checkout."""

    checkout: Path = ROOT

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", RUN, str(self.checkout / "manage.py"), *arguments]


@dataclass
class Work:
    """People who write, read and recall through the web servers that are up, in turn."""

    tokens: list[str]
    servers: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self, token: str) -> None:
        number = 0
        with httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
            while not self.over.wait(PAUSE_S):
                number += 1
                try:
                    self.write_and_read(client, token, number)
                except httpx2.HTTPError as error:
                    self.failed.append(repr(error))

    def write_and_read(self, client: httpx2.Client, token: str, number: int) -> None:
        url = self.servers[number % len(self.servers)]
        text = {"content": f"Store {token[-6:]} counted {number} tills on the day of the upgrade."}
        made = client.post(f"{url}/api/v1/memories/", json=text)
        if made.status_code >= 300:
            self.failed.append(f"write {url} {made.status_code} {made.text[:300]}")
            return
        self.acknowledged.append(made.json()["memory"]["id"])
        other = self.servers[(number + 1) % len(self.servers)]
        for request in (
            client.build_request("GET", f"{other}/api/v1/memories/{self.acknowledged[-1]}/"),
            client.build_request("POST", f"{other}/api/v1/memories/recall/", json={"query": "tills of stores"}),
        ):
            found = client.send(request)
            if found.status_code >= 300:
                self.failed.append(f"{request.url} {found.status_code} {found.text[:300]}")


@contextmanager
def working(work: Work) -> Iterator[None]:
    threads = [threading.Thread(target=work.run, args=[token]) for token in work.tokens]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        work.over.set()
        for thread in threads:
            thread.join()


def checkout_of(revision: str, folder: Path) -> Path:
    known = subprocess.run(["git", "cat-file", "-e", f"{revision}^{{commit}}"], cwd=ROOT, capture_output=True)
    if known.returncode:
        pytest.skip(f"git does not know the revision {revision}")
    folder.mkdir()
    files = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", folder], input=files, check=True)
    return folder


def test_people_work_on_while_one_version_replaces_the_other() -> None:
    with folder_and_port() as (home, _), ExitStack() as stack:
        server = EmbeddedPostgres(home)
        server.ensure_running()
        before = Version(home, free_port(), server.socket_dir, checkout=checkout_of(PREVIOUS, home / "earlier"))
        after = Version(home, free_port(), server.socket_dir)
        stack.callback(after.stop)
        stack.callback(before.stop)
        migrated = before.run("migrate")
        assert migrated.returncode == 0, migrated.stderr
        tokens = before.script(PEOPLE).split()
        before.start("serve", "--port", str(before.port))
        before.start("qcluster")
        until(lambda: is_healthy(before), before.log("serve"))
        work = Work(tokens, [before.url])
        with working(work):
            time.sleep(5)
            upgraded = after.run("migrate")
            assert upgraded.returncode == 0, upgraded.stderr
            after.start("serve", "--port", str(after.port))
            after.start("qcluster")
            until(lambda: is_healthy(after), after.log("serve"))
            work.servers.append(after.url)
            time.sleep(TOGETHER_S)
            work.servers.remove(before.url)
            time.sleep(2)
            before.stop()
            time.sleep(10)
        assert work.failed == []
        assert len(work.acknowledged) > TOGETHER_S
        assert int(after.script(STORED % work.acknowledged)) == len(set(work.acknowledged))
        # the new version can read what the earlier one has queued
        assert after.script(LEFT).startswith("[] ")

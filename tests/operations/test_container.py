"""The start command of the image in an environment as bare as a container's, and stopping without cutting calls.

The environment has an empty home, no programs on PATH (so no `ps`), an unprivileged user and code that it can't write.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_project.operating.leftovers import started_at
from memory_project.operating.postgres.server import DATABASE, EmbeddedPostgres, others_can_enter
from tests.e2e.processes import ROOT, START_WITHIN_S, folder_and_port

USER = "nobody"
SLOW_CALL_S = 12.0
DELAY_S = 4.0


def interpreter() -> str:
    """Return the path of a Python that an unprivileged user may run."""
    if os.geteuid() != 0 or others_can_enter(Path(sys.executable).resolve().parent):
        return sys.executable
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
    if not found:
        pytest.skip(f"the user {USER} can't run {sys.executable}, and there is no other {name}")
    return found


class Container:
    """What a container has: a home and nothing else that is writable."""

    def __init__(self, home: Path, port: int) -> None:
        self.home, self.port = home, port
        self.log = home / "container.log"
        empty = home / "no-programs"
        empty.mkdir()
        if os.geteuid() == 0:
            shutil.chown(home, USER)
        paths = [str(ROOT), *(path for path in sys.path if path.endswith("-packages"))]
        self.environment = {
            "PATH": str(empty),
            "HOME": str(home),
            "PYTHONPATH": os.pathsep.join(paths),
            "COMMONPLACE_HOME": str(home),
            "COMMONPLACE_PORT": str(port),
            "EMBEDDING_PROVIDER": "deterministic",
            "DRAIN_TIMEOUT_S": "120",
            "STATEMENT_TIMEOUT_S": "120",
        }

    def user(self) -> dict[str, Any]:
        return {"user": USER, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}

    def run(self, *arguments: str) -> str:
        command = [interpreter(), "-m", "memory_project", *arguments]
        done = subprocess.run(command, env=self.environment, cwd="/", capture_output=True, text=True, **self.user())
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    @contextmanager
    def started(self, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
        """Start a command that serves, and wait until it does."""
        with open(self.log, "w") as log:
            process = subprocess.Popen(
                [interpreter(), "-m", "memory_project", *arguments],
                env={**self.environment, **settings}, cwd="/", stdout=log, stderr=subprocess.STDOUT, **self.user(),
            )  # fmt: skip
        try:
            deadline = time.monotonic() + START_WITHIN_S
            while not self.is_ready(arguments[0]):
                assert process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.2)
            yield process
        finally:
            process.kill()
            process.wait()

    def is_ready(self, command: str) -> bool:
        if command == "up":
            return "Ctrl-C stops everything" in self.log.read_text()
        return status_of(self.port, "/healthz") == 200


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    with folder_and_port() as (home, port):
        container = Container(home, port)
        yield container
        container.run("db", "stop")


def status_of(port: int, path: str, token: str = "") -> int:
    """Return the status of a response, or 0 if the port does not accept the connection."""
    headers = {"Host": "localhost", **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def test_up_starts_stops_and_starts_again_in_a_bare_environment(container: Container) -> None:
    home = container.home
    with container.started("up", "--no-demo") as process:
        assert status_of(container.port, "/healthz") == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0, container.log.read_text()
    assert "stopped" in container.log.read_text()
    assert not (home / "up.json").exists()
    assert "Traceback" not in container.log.read_text()
    assert not EmbeddedPostgres(home).accepts_connections()  # `up` stops the database that it has started
    # A container that was killed leaves its file behind, and its numbers now belong to other processes.
    with foreign_process(container) as foreign:
        stale = {"web": foreign.pid, "worker": 999_999_999}
        started = {"web": started_at(foreign.pid) - 3_600}
        record = {"pid": foreign.pid, "groups": stale, "started": started, "postgres": True}
        (home / "up.json").write_text(json.dumps(record))
        with container.started("up", "--no-demo") as process:
            assert status_of(container.port, "/healthz") == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) == 0, container.log.read_text()
        assert foreign.poll() is None
    assert "Traceback" not in container.log.read_text()
    assert not (home / "up.json").exists()


@contextmanager
def foreign_process(container: Container) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that looks like a web server of ours, such as that of another installation."""
    sleep = [interpreter(), "-c", "import time; time.sleep(600)", "manage.py serve"]
    process = subprocess.Popen(sleep, process_group=0, **container.user())
    try:
        yield process
    finally:
        process.kill()
        process.wait()


ACCOUNT = """
from django.core.management import call_command
from django.db import connection
if "memory_records" not in connection.introspection.table_names():  # the test above was not selected
    call_command("migrate", verbosity=0)
from memory_project.accounts import tokens
from memory_project.models import User
from foundation.people.permissions import build_caller
user = User.objects.create_superuser("ana@example.org", "a long password")
print(tokens.create_token(build_caller(user, channel="command"), user=user, name="test")[1])
"""


@pytest.fixture(scope="module")
def token(container: Container) -> str:
    """Return the token of an account in the container's database, which runs."""
    return container.run("shell", "--no-imports", "--command", ACCOUNT).split()[-1]


@contextmanager
def slow_call(container: Container, token: str) -> Iterator[tuple[list[int], Callable[[], None]]]:
    """Make a call that waits for a lock of the database. Yields a list that gets its status, and how to release it."""
    statuses: list[int] = []
    with EmbeddedPostgres(container.home).connect(DATABASE) as locking:
        locking.execute("BEGIN")
        locking.execute("LOCK TABLE memory_records IN ACCESS EXCLUSIVE MODE")
        call = threading.Thread(
            target=lambda: statuses.append(status_of(container.port, "/api/v1/memories/", token)), daemon=True
        )
        call.start()
        time.sleep(2)
        assert not statuses
        yield statuses, locking.close
        locking.close()
        call.join()


def test_a_running_call_ends_properly_when_the_server_stops(container: Container, token: str) -> None:
    with (
        container.started("serve", "--processes", "2", DRAIN_DELAY_S=str(DELAY_S)) as server,
        slow_call(container, token) as (statuses, release),
    ):
        has_readiness = status_of(container.port, "/readyz") == 200
        server.send_signal(signal.SIGTERM)
        stopped_at = time.monotonic()
        time.sleep(DELAY_S / 2)
        assert status_of(container.port, "/healthz") == 200  # accepted, because load balancers may not have noticed
        if has_readiness:
            assert status_of(container.port, "/readyz") == 503
        wait_until_refused(container.port)
        time.sleep(max(0.0, SLOW_CALL_S - (time.monotonic() - stopped_at)))
        assert statuses == []  # the call still runs
        assert server.poll() is None
        release()
        server.wait(60)
    assert statuses == [200], container.log.read_text()


def test_a_second_signal_stops_the_server_at_once(container: Container, token: str) -> None:
    with container.started("serve") as server, slow_call(container, token) as (statuses, _):
        server.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        server.wait(30)
        time.sleep(1)
        assert statuses == [0]


def wait_until_refused(port: int) -> None:
    deadline = time.monotonic() + 60
    while status_of(port, "/healthz") != 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)

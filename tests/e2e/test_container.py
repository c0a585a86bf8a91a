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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from memory_project.leftovers import started_at
from memory_project.postgres.server import DATABASE, EmbeddedPostgres, others_can_enter
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, START_WITHIN_S, command, environment, folder_and_port

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
        self.log = home / "up.log"
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
        }

    def user(self) -> dict[str, Any]:
        return {"user": USER, "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}

    @contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        with open(self.log, "w") as log:
            process = subprocess.Popen(
                [interpreter(), "-m", "memory_project", "up", "--no-demo"],
                env=self.environment, cwd="/", stdout=log, stderr=subprocess.STDOUT, **self.user(),
            )  # fmt: skip
        try:
            deadline = time.monotonic() + START_WITHIN_S
            while "Ctrl-C stops everything" not in self.log.read_text() and process.poll() is None:
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.1)
            assert process.poll() is None, self.log.read_text()
            yield process
        finally:
            process.kill()
            process.wait()


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


def test_up_starts_stops_and_starts_again_in_a_bare_environment() -> None:
    with folder_and_port() as (home, port):
        container = Container(home, port)
        with container.started() as process:
            assert status_of(port, "/healthz") == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, container.log.read_text()
        assert "stopped" in container.log.read_text()
        assert not (home / "up.json").exists()
        assert "Traceback" not in container.log.read_text()
        # A container that was killed leaves its file behind, and its numbers now belong to other processes.
        with foreign_process(container) as foreign:
            stale = {"web": foreign.pid, "worker": 999_999_999}
            started = {"web": started_at(foreign.pid) - 3_600}
            record = {"pid": foreign.pid, "groups": stale, "started": started, "postgres": True}
            (home / "up.json").write_text(json.dumps(record))
            with container.started() as process:
                assert status_of(port, "/healthz") == 200
                assert foreign.poll() is None
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, container.log.read_text()
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


@pytest.fixture(scope="module")
def tables() -> Iterator[tuple[Path, int, str]]:
    """Yield a home with tables and an account, a port, and a token of the account. The database runs."""
    with prepared_home("tables") as (home, port):
        make = {**environment(home, port), "DJANGO_SUPERUSER_PASSWORD": "a long password"}
        account = ("createsuperuser", "--no-input", "--email", "ana@example.org")
        subprocess.run(command(*account), env=make, cwd=ROOT, check=True, capture_output=True)
        token = ("createtoken", "ana@example.org", "--name", "test", "--json")
        made = subprocess.run(command(*token), env=make, cwd=ROOT, check=True, capture_output=True, text=True)
        yield home, port, json.loads(made.stdout)["token"]


@contextmanager
def serving(home: Path, port: int, *arguments: str, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    log = home / "serve.log"
    with open(log, "w") as output:
        process = subprocess.Popen(
            command("serve", *arguments), env={**environment(home, port), **settings}, cwd=ROOT,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_WITHIN_S
        while status_of(port, "/healthz") != 200:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def slow_call(home: Path, port: int, token: str) -> Iterator[list[int]]:
    """Make a call that waits for a lock of the database for SLOW_CALL_S. Yields a list that gets its status."""
    statuses: list[int] = []
    with EmbeddedPostgres(home).connect(DATABASE) as locking:
        locking.execute("BEGIN")
        locking.execute("LOCK TABLE memory_records IN ACCESS EXCLUSIVE MODE")
        threading.Timer(SLOW_CALL_S, locking.close).start()
        call = threading.Thread(target=lambda: statuses.append(status_of(port, "/api/v1/memories/", token)))
        call.start()
        time.sleep(2)
        assert not statuses
        yield statuses
        call.join()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_running_call_ends_properly_when_the_server_stops(tables: tuple[Path, int, str], processes: str) -> None:
    home, port, token = tables
    with (
        serving(home, port, "--processes", processes, DRAIN_DELAY_S=str(DELAY_S)) as server,
        slow_call(home, port, token) as statuses,
    ):
        has_readiness = status_of(port, "/readyz") == 200
        server.send_signal(signal.SIGTERM)
        time.sleep(DELAY_S / 2)
        assert status_of(port, "/sign-in/") == 200  # still accepted, because load balancers may not have noticed
        if has_readiness:
            assert status_of(port, "/readyz") == 503
        wait_until_refused(port)
        assert statuses == []  # the call still runs
        assert server.wait(60) is not None
        assert statuses == [200], (home / "serve.log").read_text()


def test_a_second_signal_stops_the_server_at_once(tables: tuple[Path, int, str]) -> None:
    home, port, token = tables
    with serving(home, port) as server, slow_call(home, port, token) as statuses:
        server.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert server.poll() is None
        server.send_signal(signal.SIGTERM)
        server.wait(5)
        assert statuses == [0]


def wait_until_refused(port: int) -> None:
    deadline = time.monotonic() + 30
    while status_of(port, "/sign-in/") != 0:
        assert time.monotonic() < deadline
        time.sleep(0.2)

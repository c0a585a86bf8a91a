"""An installation of its own for one fault, run by `manage.py up` as a user would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import psutil
import psycopg

from memory_project.operating.postgres.server import EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, START_WITHIN_S, command, environment

PEOPLE = ("maya@fernhill.example", "jonas@fernhill.example", "sam@fernhill.example")
ADMIN = PEOPLE[2]
MAKE_TOKENS = """
import io, json
from django.core.management import call_command
for email in %r:
    output = io.StringIO()
    call_command("createtoken", email, "--json", stdout=output)
    print(json.loads(output.getvalue())["token"])
"""


NOT_RUNNING = 2**22  # no process has this number or a higher one
Result = TypeVar("Result")


def eventually(action: Callable[[], Result], within_s: float = 60) -> Result:
    """Return what the action returns. It is repeated while another fault has taken what it needs."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return action()
        except (psycopg.OperationalError, ProcessLookupError, KeyError, RuntimeError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@dataclass
class Installation:
    home: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict)  # environment variables of its processes
    tokens: dict[str, str] = field(default_factory=dict)  # by e-mail address
    process: subprocess.Popen[str] | None = None
    server: EmbeddedPostgres | None = None  # if it is not the one of the home
    on_exit: list[Callable[[], object]] = field(default_factory=list)  # called after everything has ended

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def postgres(self) -> EmbeddedPostgres:
        return self.server or EmbeddedPostgres(self.home)

    @property
    def log(self) -> str:
        return (self.home / "up.log").read_text() if (self.home / "up.log").exists() else ""

    # -- starting and stopping ---------------------------------------------------------------------------

    def start(self, *, within_s: float = START_WITHIN_S) -> None:
        """Run `up` and return when it is ready. Raises RuntimeError if it ends."""
        with open(self.home / "up.log", "w") as log:
            self.process = self._popen("up", "--no-demo", stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + within_s
        while "Ctrl-C stops everything" not in self.log:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"`up` is not ready:\n{self.log}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def kill_everything(self) -> None:
        """End all processes at once, as a loss of power does."""
        processes = [psutil.Process(self.process.pid)] if self.process and self.process.poll() is None else []
        processes += [psutil.Process(group) for group in self.groups().values() if psutil.pid_exists(group)]
        if (pid := self.postgres.status().pid) and psutil.pid_exists(pid):
            processes.append(psutil.Process(pid))
        family = [child for process in processes for child in process.children(recursive=True)]
        for process in [*processes, *family]:
            if process.is_running():
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs([*processes, *family], timeout=10)

    def groups(self) -> dict[str, int]:
        """Return the process groups of the running `up`, by name: web, worker."""
        try:
            return dict(json.loads((self.home / "up.json").read_text())["groups"])
        except (OSError, ValueError):
            return {}

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        eventually(lambda: os.killpg(self.groups()[name], number))

    def kill_database(self) -> None:
        """Kill the database server."""
        eventually(lambda: os.kill(self.postgres.status().pid or NOT_RUNNING, signal.SIGKILL))

    # -- looking inside ----------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        return {**environment(self.home, self.port), **self.settings}

    def run(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments), env=self.environment, cwd=ROOT, capture_output=True, text=True, timeout=timeout
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command and return its process, which has pipes for its output."""
        return self._popen(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _popen(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(command(*arguments), env=self.environment, cwd=ROOT, text=True, **options)

    def python(self, code: str) -> str:
        """Run code in the product's Django shell and return its output."""
        process = self.run("shell", "--no-imports", "--command", code)
        if process.returncode:
            raise RuntimeError(process.stderr)
        return process.stdout.strip()

    def sql(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as the database's superuser, who sees all rows."""
        with self.postgres.connect("commonplace") as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def client(self, email: str, timeout: float = 30) -> httpx2.Client:
        return httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.tokens[email]}"}, timeout=timeout
        )


@contextmanager
def installation(**settings: str) -> Iterator[Installation]:
    """Yield an installation with the demo's people and memories. It is not started yet."""
    with prepared_home("demo") as (home, port):
        place = Installation(home, port, {"MEMORY_CONTEXT": "false", **settings})
        place.tokens = dict(zip(PEOPLE, place.python(MAKE_TOKENS % (PEOPLE,)).split(), strict=True))
        place.postgres.stop()
        try:
            yield place
        finally:
            place.stop()
            place.kill_everything()
            place.postgres.stop()
            for action in place.on_exit:
                action()

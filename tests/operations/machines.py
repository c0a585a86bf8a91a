"""Machines with a web server and workers of their own on one database."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER
from tests.e2e.processes import ROOT, START_WITHIN_S, command, environment
from tests.http_servers import free_port

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
    settings: dict[str, str] = field(default_factory=dict)  # environment variables of its processes

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
        return {**environment(self.home, self.port), **urls, **self.settings}

    def command(self, *arguments: str) -> list[str]:
        return command(*arguments)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), env=self.environment, cwd=ROOT, capture_output=True, text=True)

    def script(self, code: str) -> str:
        done = self.run("shell", "--no-imports", "-c", code)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with open(self.home / f"{arguments[0]}.log", "wb") as log:
            process = subprocess.Popen(
                self.command(*arguments), env=self.environment, cwd=ROOT, stdout=log, stderr=log, process_group=0
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


@contextmanager
def machine(home: Path, database: Path) -> Iterator[Machine]:
    machine = Machine(home, free_port(), database)
    try:
        yield machine
    finally:
        machine.stop()


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

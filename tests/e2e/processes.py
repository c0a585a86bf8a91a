"""Run the product as a user would: `manage.py up` with its own folder and port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_project.operating.postgres.server import EmbeddedPostgres
from tests.http_servers import free_port

ROOT = Path(__file__).resolve().parent.parent.parent


@contextmanager
def folder_and_port() -> Iterator[tuple[Path, int]]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            yield Path(folder), free_port()
        finally:
            EmbeddedPostgres(Path(folder)).stop()


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "manage.py"), *arguments]


def environment(home: Path, port: int, **changed: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_POOL_SIZE"}
    settings = {
        "COMMONPLACE_HOME": str(home), "COMMONPLACE_PORT": str(port), "EMBEDDING_PROVIDER": "deterministic",
        "UNDO_OFFERED_S": "120",  # a test undoes what it decided, however slow the machine is
    }  # fmt: skip
    return {**inherited, **settings, **changed, "DJANGO_SETTINGS_MODULE": "memory_project.settings"}


START_WITHIN_S = 600  # on a busy machine; a quiet one needs 15 s
COMMAND_WITHIN_S = 600
STOP_WITHIN_S = 120  # `up` gives each of its processes 40 s


def run(home: Path, *arguments: str, **changed: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself, such as a backup."""
    return subprocess.run(
        command(*arguments),
        env=environment(home, 8000, **changed),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_WITHIN_S,
    )


@contextmanager
def up(home: Path, port: int, *arguments: str, **changed: str) -> Iterator[subprocess.Popen[str]]:
    with open(home / "up.log", "w") as log:
        process = subprocess.Popen(
            command("up", *arguments),
            env=environment(home, port, **changed),
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )
    try:
        deadline = time.monotonic() + START_WITHIN_S
        while "Ctrl-C stops everything" not in (home / "up.log").read_text() and process.poll() is None:
            assert time.monotonic() < deadline, f"not ready:\n{(home / 'up.log').read_text()}"
            time.sleep(0.1)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_WITHIN_S)

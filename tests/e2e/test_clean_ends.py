"""Servers end cleanly whenever their client or operator has finished: at the start, while the model loads, later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, START_WITHIN_S, STOP_WITHIN_S, command, environment

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}  # fmt: skip
# Seconds after the response to `initialize`. The model begins to load after 1 s, and takes about half a second.
MOMENTS = {"close": (None, 0.0, 1.1, 1.4, 1.7), "SIGTERM": (None, 0.5, 1.4), "broken pipe": (0.0, 1.4)}


@pytest.fixture(scope="module")
def settings_of_process() -> Iterator[dict[str, str]]:
    with prepared_home("demo") as (home, port):
        given = {**environment(home, port), "EMBEDDING_PROVIDER": "minilm"}
        run = subprocess.Popen(
            command("db", "start"), env=given, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        assert run.wait(START_WITHIN_S) == 0
        try:
            yield given
        finally:
            subprocess.run(command("db", "stop"), env=given, cwd=ROOT, capture_output=True, check=False)


def started(given: dict[str, str], errors: Path) -> subprocess.Popen[str]:
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command("mcp", "--as", "maya@fernhill.example"),
            env=given, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
    assert process.stdin
    process.stdin.write(json.dumps(INITIALIZE) + "\n")
    process.stdin.flush()
    return process


@pytest.mark.parametrize("way", MOMENTS)
def test_stdio_ends_cleanly_at_every_moment(settings_of_process: dict[str, str], tmp_path: Path, way: str) -> None:
    for moment in MOMENTS[way]:
        errors = tmp_path / "errors"
        process = started(settings_of_process, errors)
        assert process.stdin
        assert process.stdout
        if moment is not None:
            assert json.loads(process.stdout.readline())["result"]
            time.sleep(moment)
        if way == "SIGTERM":
            process.terminate()
        elif way == "broken pipe":
            process.stdout.close()
            process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}) + "\n")
        process.stdin.close()
        code = process.wait(STOP_WITHIN_S)
        process.stdout.close()
        allowed = (
            {0, -signal.SIGTERM} if way == "SIGTERM" else {0}
        )  # the interpreter has no handler in its first moments
        assert code in allowed, f"{way} after {moment} s: {code}\n{errors.read_text()}"
        assert "Traceback" not in errors.read_text(), errors.read_text()


@contextmanager
def server(given: dict[str, str], errors: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server, with its errors in a file. If it has not ended by itself, it is killed with its children."""
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command(*arguments), env=given, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=stderr, process_group=0
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", ["serve", "qcluster"])
def test_a_server_ends_cleanly_at_every_moment(settings_of_process: dict[str, str], tmp_path: Path, name: str) -> None:
    errors = tmp_path / "errors"
    for moment in (2.0, 4.0):
        with server(settings_of_process, errors, name) as process:
            time.sleep(moment)
            process.terminate()
            code = process.wait(STOP_WITHIN_S)
        assert code in (0, -signal.SIGTERM), f"{name} after {moment} s: {code}\n{errors.read_text()}"
        assert "terminate called" not in errors.read_text()
        assert "Traceback" not in errors.read_text(), errors.read_text()


# The signal arrives while the worker forks its first process, when django-q can't stop it yet.
SIGNAL_DURING_FORK = """
import os
import signal
from multiprocessing.process import BaseProcess
from django.core.management import call_command

start, main = BaseProcess.start, os.getpid()

def interrupted_start(self):
    if os.getpid() == main:
        os.kill(main, signal.SIGTERM)
    start(self)

BaseProcess.start = interrupted_start
call_command("qcluster")
"""


def test_a_worker_stops_if_it_is_asked_to_while_it_starts(settings_of_process: dict[str, str], tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with server(settings_of_process, errors, "shell", "--no-imports", "-c", SIGNAL_DURING_FORK) as process:
        code = process.wait(STOP_WITHIN_S)
    assert code == 0, errors.read_text()
    assert "Traceback" not in errors.read_text(), errors.read_text()

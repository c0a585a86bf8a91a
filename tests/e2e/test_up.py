"""`manage.py up`: first start, kill, restart and stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.processes import ROOT, START_WITHIN_S, command, environment, folder_and_port, up
from tests.other_processes import until


@pytest.fixture(scope="module")
def installation() -> Iterator[tuple[Path, int]]:
    with folder_and_port() as pair:
        yield pair


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as response:
            return bool(json.loads(response.read())["status"] == "ok")
    except OSError:
        return False


def server_processes(home: Path) -> list[str]:
    listing = subprocess.run(["ps", "-ww", "-A", "-o", "command="], capture_output=True, text=True).stdout
    return [line for line in listing.splitlines() if str(home) in line]


def test_a_second_run_takes_over_after_a_kill(installation: tuple[Path, int]) -> None:
    home, port = installation
    with up(home, port) as process:
        log = (home / "up.log").read_text()
        assert "maya@fernhill.example" in log, log
        assert '"mcpServers"' in log
        assert until(lambda: is_healthy(port))
        # A second run in this home, or on a used port, is rejected in one line.
        again = subprocess.run(command("up"), env=environment(home, port), cwd=ROOT, capture_output=True, text=True)
        assert "is already running here" in again.stderr
        second_home = home / "other"
        second_home.mkdir()
        second_run = subprocess.run(
            command("up"), env=environment(second_home, port), cwd=ROOT, capture_output=True, text=True
        )
        assert f"Port {port} on 127.0.0.1 can't be used" in second_run.stderr
        assert "Traceback" not in again.stderr + second_run.stderr
        groups = json.loads((home / "up.json").read_text())["groups"]
        process.kill()
        process.wait()
    assert until(lambda: is_healthy(port))  # its child processes keep running
    with up(home, port):
        assert "ended 2 processes left over from an earlier run" in (home / "up.log").read_text()
        assert until(lambda: is_healthy(port))
        os.killpg(json.loads((home / "up.json").read_text())["groups"]["web"], signal.SIGKILL)
        assert until(lambda: "web ended" in (home / "up.log").read_text())
        assert until(lambda: is_healthy(port), START_WITHIN_S)  # a killed child process is restarted
    assert not is_healthy(port)
    for group in groups.values():
        with pytest.raises(ProcessLookupError):
            os.killpg(group, 0)
    assert "stopped" in (home / "up.log").read_text()
    assert until(lambda: not server_processes(home))  # including the database, which the killed run had started

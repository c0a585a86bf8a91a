"""Commands on the home of an earlier version."""

from __future__ import annotations

from pathlib import Path

from tests.e2e import processes

DATA = processes.ROOT / "tests" / "data"


def run(home: Path, *arguments: str) -> str:
    process = processes.run(home, *arguments)
    assert process.returncode == 0, process.stderr
    return process.stdout

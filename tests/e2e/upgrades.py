"""Commands on the home of an earlier version."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.processes import COMMAND_WITHIN_S, ROOT, command, environment

DATA = ROOT / "tests" / "data"


def run(home: Path, *arguments: str) -> str:
    process = subprocess.run(
        command(*arguments),
        env=environment(home, 8000),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_WITHIN_S,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout

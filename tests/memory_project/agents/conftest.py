from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.memory_project.agents.hook_server import HookServer, hook_server

ROOT = Path(__file__).resolve().parents[3]
# No package is found with -S, and nothing of the environment is read with -I.
SCRIPT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
patience_s = float(sys.argv.pop(1))
sys.argv[0] = "commonplace"
from memory_project.agents.hook_program import hook
if patience_s:
    hook.DEADLINES = dict.fromkeys(hook.DEADLINES, patience_s)
    hook.RECORDING_S = hook.CIRCUIT_S = patience_s
from memory_project.__main__ import main
main()
"""
BARE = [sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT)]
WAIT_S = 60


@dataclass
class Machine:
    """A person's computer: a home folder, a repository, and a PATH without anything in it."""

    home: Path
    repository: Path
    environment: dict[str, str] = field(default_factory=dict)
    patience_s: float = WAIT_S / 2  # seconds instead of the program's own, which a busy machine may exceed; 0: its own

    def start(self, event: str, program: str = "claude-code") -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*BARE, str(self.patience_s), "hook", event, "--program", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.repository,
            env={"PATH": "", "HOME": str(self.home), **self.environment},
        )

    def hook(self, payload: Any, event: str, program: str = "claude-code") -> Any:
        """Run one event. The exit code is always 0, and standard error is always empty."""
        text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        process = self.start(event, program)
        output, errors = process.communicate(text, timeout=WAIT_S)
        assert (process.returncode, errors) == (0, b"")
        return json.loads(output) if output else None

    def prompt(self, text: str = "How much revenue did sales.orders bring in May?") -> Any:
        return self.hook(self.event(prompt=text), "UserPromptSubmit")

    def event(self, **fields: Any) -> dict[str, Any]:
        return {"session_id": "s1", "cwd": str(self.repository), **fields}

    def state(self, name: str = "last_event") -> Any:
        path = self.home / ".local" / "state" / "commonplace" / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None


@pytest.fixture
def server() -> Iterator[HookServer]:
    with hook_server() as running:
        yield running


@pytest.fixture
def machine(tmp_path: Path, server: HookServer) -> Machine:
    home, repository = tmp_path / "home", tmp_path / "work"
    (repository / ".git").mkdir(parents=True)
    home.mkdir()
    (repository / ".git" / "config").write_text('[remote "origin"]\n\turl = git@github.com:acme/data.git\n')
    return Machine(home, repository, {"COMMONPLACE_URL": server.url, "COMMONPLACE_TOKEN": "cpl_secret_of_ana"})

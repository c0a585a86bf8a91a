"""The clients of clients.toml, where they are installed, and how their drivers run.

A driver reads a plan as JSON from its standard input: the `transport`, `command`, `env` and `cwd` of stdio or the `url`
and `token` of HTTP, and `calls`, a list of tools with arguments. It prints one line of JSON: the names of the `tools`
and, for each call, its `text` and whether it `is_error`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(__file__).resolve().parent
HOME = Path(os.environ.get("INTEROP_CLIENTS") or ROOT / ".venv" / "interop")
NODE = HOME / "node"
DRIVER_S = 120  # seconds before a driver is stopped


@dataclass(frozen=True)
class ForeignClient:
    name: str
    driver: str
    requirements: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    transports: tuple[str, ...] = ("stdio", "http")

    @property
    def folder(self) -> Path:
        return HOME / self.name

    @property
    def wanted(self) -> str:
        return "\n".join([*self.requirements, *self.npm])

    @property
    def is_installed(self) -> bool:
        marker = self.folder / "installed"
        return not self.wanted or (marker.exists() and marker.read_text() == self.wanted)

    @property
    def interpreter(self) -> str:
        if self.driver.endswith(".cjs"):
            return "node"
        return str(self.folder / "bin" / "python") if self.requirements else sys.executable

    def run(self, script: str, plan: Any) -> Any:
        """Run a script of the folder `clients` with this client's packages, and return what it prints."""
        process = subprocess.run(
            self._command(script),
            input=json.dumps(plan),
            env=_environment(),
            capture_output=True,
            text=True,
            timeout=DRIVER_S,
        )
        assert process.returncode == 0, f"{self.name}: {process.stderr[-3000:]}"
        return json.loads(process.stdout.strip().splitlines()[-1])

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Start a script of the folder `clients` that reads its standard input line by line."""
        return subprocess.Popen(
            self._command(script),
            env=_environment() | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _command(self, script: str) -> list[str]:
        return [self.interpreter, str(FOLDER / "clients" / script)]


def _environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**own, "NODE_FOLDER": str(NODE)}


def load() -> dict[str, ForeignClient]:
    table: dict[str, dict[str, Any]] = tomllib.loads((FOLDER / "clients.toml").read_text())
    clients = {}
    for name, row in table.items():
        lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        clients[name] = ForeignClient(name, row["driver"], **lists)
    return clients

"""One running installation for all clients, and a count of the clients that ran."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.conftest import launched
from tests.e2e.processes import ROOT, command, environment, folder_and_port, up
from tests.interop import registry
from tests.interop.registry import ForeignClient

CLIENTS = registry.load()
PERSON = "maya@fernhill.example"


@dataclass
class Tally:
    ran: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)


TALLY = pytest.StashKey[Tally]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    tally = config.stash.get(TALLY, Tally())
    if tally.ran or tally.skipped:
        skipped = ", ".join(sorted(tally.skipped)) or "none"
        count = f"interop: {len(tally.ran)} of {len(CLIENTS)} clients ran; skipped: {skipped}"
        terminalreporter.section(count, red=bool(tally.skipped), green=not tally.skipped)


@pytest.fixture
def installed(request: pytest.FixtureRequest) -> ForeignClient:
    """The client whose name is the test's parameter. The test is skipped if it isn't installed."""
    client = CLIENTS[request.param]
    tally = request.config.stash.setdefault(TALLY, Tally())
    if not client.is_installed:
        tally.skipped.add(client.name)
        pytest.skip(f"CLIENT NOT INSTALLED, so {client.name} was not tried: run `make interop` once")
    tally.ran.add(client.name)
    return client


@dataclass(frozen=True)
class Site:
    """A running installation with demo content, and how a client of PERSON reaches it."""

    address: str
    token: str
    environment: dict[str, str]

    def plan(self, transport: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        if transport == "http":
            return {"transport": "http", "url": f"{self.address}/mcp", "token": self.token, "calls": calls}
        return {
            "transport": "stdio",
            "command": command("mcp", "--as", PERSON),
            "env": self.environment,
            "cwd": str(ROOT),
            "calls": calls,
        }


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    with folder_and_port() as (home, port), up(home, port) as process:
        assert process.poll() is None, (home / "up.log").read_text()
        variables = environment(home, port)
        created = subprocess.run(
            command("createtoken", PERSON), env=variables, cwd=ROOT, capture_output=True, text=True, check=True
        )
        yield Site(f"http://localhost:{port}", created.stdout.split()[-1], variables)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser that is closed after each module, since a second Playwright can't start beside an open one."""
    with launched() as browser:
        yield browser

"""The official conformance suite, `@modelcontextprotocol/conformance`, against the server with the suite's fixtures.

The suite's package is taken from npm at the version below, with the Node.js that it needs. Without npm, or without a
registry, the test is skipped and says so.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from foundation.people.caller import system_caller
from memory_project.accounts.tokens import create_token
from memory_project.models import User
from memory_project.web.request_limits import uvicorn_options
from tests.interop.conformance_server import build_application

PACKAGES = ["@modelcontextprotocol/conformance@0.1.16", "node@22"]
INSTALL_WITHIN_S, RUN_WITHIN_S = 300, 300
STATELESS = (
    "needs a request from the server to the client within a call. The server keeps no session over HTTP, so it would "
    "not see the client's response"
)
SESSIONS = "the server has no sessions over HTTP, so nothing could be sent to a subscriber after the response"
LOGGING = "the level would belong to a session; the server sends no log messages and does not declare `logging`"
NO_BACK_CHANNEL, METHOD_MISSING = "no back-channel", "Method not found"
# scenario → why it does not apply to this server. A scenario that passes after all fails the test.
NOT_APPLICABLE = {
    "tools-call-sampling": STATELESS,
    "tools-call-elicitation": STATELESS,
    "elicitation-sep1034-defaults": STATELESS,
    "elicitation-sep1330-enums": STATELESS,
    "resources-subscribe": SESSIONS,
    "resources-unsubscribe": SESSIONS,
    "logging-set-level": LOGGING,
    "tools-call-with-logging": LOGGING,
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs the suite."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("NPM NOT FOUND, so the official conformance suite was not run: install Node.js")
    folder = Path(os.environ.get("CONFORMANCE_FOLDER") or tmp_path_factory.mktemp("conformance"))
    program = folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    if not program.exists():
        install = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_WITHIN_S)
        if done.returncode:
            pytest.skip(f"NPM COULD NOT INSTALL {PACKAGES[0]}, so the suite was not run: {done.stderr[-300:]}")
    return [str(folder / "node_modules/node/bin/node"), str(program)]


@pytest.fixture
def address(alice_user: User, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    _, text = create_token(system_caller(), user=alice_user, name="conformance")
    monkeypatch.setenv("CONFORMANCE_TOKEN", text)
    options = {**uvicorn_options(), "log_level": "error"}
    server = uvicorn.Server(uvicorn.Config(build_application(), host="127.0.0.1", port=0, **options))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join()


@pytest.mark.django_db(transaction=True)
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")  # sampling and logging
def test_every_scenario_that_applies_passes(suite: list[str], address: str, tmp_path: Path) -> None:
    command = [*suite, "server", "--url", address, "--suite", "all", "--output-dir", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=RUN_WITHIN_S)
    failures = failures_by_scenario(tmp_path)
    assert len(failures) >= 32, f"{len(failures)} scenarios ran:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}"
    failed = {name: messages for name, messages in failures.items() if messages}
    print(f"conformance: {len(failures) - len(failed)} of {len(failures)} scenarios passed")
    unexpected = {name: messages for name, messages in failed.items() if name not in NOT_APPLICABLE}
    assert unexpected == {}
    for name, messages in failed.items():  # for the stated reason, and not because a fixture is broken
        expected = METHOD_MISSING if NOT_APPLICABLE[name] in (SESSIONS, LOGGING) else NO_BACK_CHANNEL
        assert all(expected in message for message in messages), (name, messages)
    assert sorted(set(NOT_APPLICABLE) - set(failed)) == [], "these pass: remove them from NOT_APPLICABLE"


def failures_by_scenario(folder: Path) -> dict[str, list[str]]:
    """Return the messages of the failed checks of each scenario that ran."""
    failures: dict[str, list[str]] = {}
    for file in folder.rglob("checks.json"):
        # the folder's name is `server-SCENARIO-TIMESTAMP`
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", file.parent.name.removeprefix("server-"))
        checks = json.loads(file.read_text())
        failures[scenario] = [
            f"{check['id']}: {check.get('errorMessage', '')}" for check in checks if check["status"] == "FAILURE"
        ]
    return failures

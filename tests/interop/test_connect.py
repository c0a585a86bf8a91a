"""Real clients read what `connect` writes, and list the server as connected.

INTEROP_NODE is a folder with the clients' programs (node_modules/.bin); without it they are looked for in PATH. Each
client that is missing is a skip that names it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from distribution import build
from tests.e2e.processes import ROOT, command, environment, folder_and_port, up

EMAIL = "maya@fernhill.example"
# what each client prints about a server that it has reached (Codex does not try before a conversation)
CLIENTS = {
    "claude-code": ("claude", ["mcp", "list"], "✔ Connected"),
    "codex": ("codex", ["mcp", "list"], "Bearer token"),
    "gemini": ("gemini", ["mcp", "list"], "Connected"),
    "opencode": ("opencode", ["mcp", "list"], "connected"),
}
STDIO = {**CLIENTS, "codex": ("codex", ["mcp", "list"], "enabled")}


def find(name: str) -> str:
    return shutil.which(name, path=os.environ.get("INTEROP_NODE")) or shutil.which(name) or ""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip before a server is started for a client that is missing."""
    missing = [name for name in names if not find(name)]
    reason = f"NOT TRIED, because {', '.join(missing)} is not installed (npm, or INTEROP_NODE=FOLDER/node_modules/.bin)"
    return pytest.mark.skipif(bool(missing), reason=reason)


each_client = pytest.mark.parametrize("client", [pytest.param(key, marks=needs(CLIENTS[key][0])) for key in CLIENTS])


@pytest.fixture(scope="module")
def installation() -> Iterator[dict[str, str]]:
    """Start a server. Yields the environment of its commands, with a token."""
    with folder_and_port() as (home, port), up(home, port) as process:
        assert process.poll() is None, (home / "up.log").read_text()
        variables = environment(home, port)
        made = subprocess.run(command("createtoken", EMAIL), env=variables, cwd=ROOT, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        yield {**variables, "COMMONPLACE_TOKEN": made.stdout.strip()}


@pytest.fixture
def client_home(installation: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Return the environment of a client that has never run, in a project that it may trust."""
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true", "DISABLE_AUTOUPDATER": "1", "NO_COLOR": "1"}
    without = {"XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"}
    inherited = {name: value for name, value in installation.items() if name not in without}
    return {**inherited, **trusted, "HOME": str(tmp_path)}


def run(arguments: list[str], env: dict[str, str], cwd: Path = ROOT) -> str:
    done = subprocess.run(arguments, env=env, cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def listed(client: str, env: dict[str, str], how: dict[str, tuple[str, list[str], str]]) -> None:
    """Assert that the client names our server and says what it should of it."""
    name, arguments, expected = how[client]
    said = run([find(name), *arguments], env, Path(env["HOME"]))
    assert "commonplace" in said
    assert expected in said


@each_client
def test_a_client_reads_the_entry_with_a_token(client: str, client_home: dict[str, str]) -> None:
    run(command("connect", client, "--token", "--write", "--yes"), client_home)
    listed(client, client_home, CLIENTS)
    run(command("connect", client, "--remove", "--yes"), client_home)
    name, arguments, _ = CLIENTS[client]
    assert "commonplace" not in run([find(name), *arguments], client_home, Path(client_home["HOME"]))


@each_client
def test_a_client_starts_the_server_itself(client: str, client_home: dict[str, str]) -> None:
    run(command("connect", client, "--as", EMAIL, "--write", "--yes"), client_home)
    listed(client, client_home, STDIO)


@needs("mcpb")
def test_the_bundle_is_valid_for_its_own_tool(tmp_path: Path) -> None:
    mcpb = find("mcpb")
    (tmp_path / "manifest.json").write_text(json.dumps(build.manifest()))
    assert "passes" in run([mcpb, "validate", str(tmp_path / "manifest.json")], dict(os.environ))
    build.write_bundle(tmp_path / "x.mcpb")
    run([mcpb, "unpack", str(tmp_path / "x.mcpb"), str(tmp_path / "unpacked")], dict(os.environ))
    assert (tmp_path / "unpacked" / build.ENTRY_POINT).read_text() == build.LAUNCHER.read_text()


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@needs("node", "mcp-remote")
def test_the_launcher_of_the_bundle_connects(client_home: dict[str, str]) -> None:
    node, folder = find("node"), Path(find("mcp-remote")).parent
    env = {**client_home, "COMMONPLACE_ADDRESS": f"http://localhost:{client_home['COMMONPLACE_PORT']}/mcp"}
    env["PATH"] = f"{folder}:{env['PATH']}"
    process = subprocess.Popen(
        [node, str(build.LAUNCHER)], env=env, cwd=folder.parent.parent, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(INITIALIZE) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
    finally:
        timer.cancel()
        process.terminate()
        process.communicate(timeout=30)
    assert "instructions" in answer["result"]

"""The command `connect`, the Connect page and the files of a release: one table of clients for all."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.core.management import CommandError, call_command
from django.test import Client as Browser
from django.urls import reverse

import memory_project
from distribution import build
from memory_project.agents.client_files.connection import stdio_connection
from memory_project.agents.client_files.snippets import snippet
from memory_project.agents.client_files.table import BY_NAME, CLIENTS, Client
from memory_project.models import User

URL = "http://localhost:8000/mcp"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    settings.COMMONPLACE_URL = "http://localhost:8000"
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COMMONPLACE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "darwin")  # where every client exists
    monkeypatch.chdir(tmp_path)
    return tmp_path


def connect(*arguments: str) -> str:
    output = io.StringIO()
    call_command("connect", *arguments, stdout=output)
    return output.getvalue()


every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)


@every_client
def test_without_write_the_entry_is_printed_and_nothing_is_written(client: Client, home: Path) -> None:
    assert URL in connect(client.name)
    answer = json.loads(connect(client.name, "--json"))
    assert answer["path"].startswith(str(home))
    assert answer["keys"] == [*client.container, "commonplace"]
    assert URL in json.dumps(answer["entry"])
    assert list(home.iterdir()) == []


@every_client
def test_write_then_write_then_remove(client: Client, home: Path) -> None:
    path = Path(json.loads(connect(client.name, "--json"))["path"])
    written = connect(client.name, "--write", "--yes")
    assert f"+++ {path}" in written
    assert URL in path.read_text()
    assert "up to date" in connect(client.name, "--write", "--yes")
    connect(client.name, "--remove", "--yes")
    assert "commonplace" not in path.read_text()
    with pytest.raises(CommandError, match="no entry 'commonplace'"):
        connect(client.name, "--remove", "--yes")


@every_client
def test_a_token_is_named_by_its_variable_or_kept_from_other_readers(
    client: Client, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONPLACE_TOKEN", "cpl_secret")
    assert "cpl_secret" not in connect(client.name, "--token")
    assert "cpl_secret" not in connect(client.name, "--token", "--write", "--yes")
    path = Path(json.loads(connect(client.name, "--json"))["path"])
    assert ("cpl_secret" in path.read_text()) == (not client.variable)
    assert client.variable or path.stat().st_mode & 0o077 == 0
    if client.variable:
        assert "COMMONPLACE_TOKEN" in path.read_text()


def test_nothing_is_written_without_an_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="--yes"):
        connect("cursor", "--write")  # no terminal
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "n")
    with pytest.raises(CommandError, match="Nothing was written"):
        connect("cursor", "--write")
    assert list(home.iterdir()) == []
    monkeypatch.setattr("builtins.input", lambda prompt: "y")
    connect("cursor", "--write")
    assert (home / ".cursor" / "mcp.json").exists()


def test_a_project_has_its_own_file_readable_by_others(home: Path) -> None:
    connect("claude-code", "--scope", "project", "--token", "--write", "--yes")
    assert "${COMMONPLACE_TOKEN}" in (home / ".mcp.json").read_text()
    assert (home / ".mcp.json").stat().st_mode & 0o777 == 0o644
    assert list(home.iterdir()) == [home / ".mcp.json"]


def test_folders_from_the_environment_are_used(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))
    connect("codex", "--write", "--yes")
    assert (home / "elsewhere" / "config.toml").exists()
    (home / ".config" / "opencode").mkdir(parents=True)
    other = home / ".config" / "opencode" / "opencode.jsonc"
    other.write_text("{} // mine\n")
    connect("opencode", "--write", "--yes")
    assert "// mine" in other.read_text()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["nano"], "invalid choice"),
        (["cursor", "--url", "http://x/other"], "url: "),
        (["cursor", "--name", "a b"], "name: "),
        (["cursor", "--toolsets", "memroy"], "toolsets: 'memroy' is unknown"),
        (["cursor", "--toolsets", ","], "toolsets: names none"),
        (["cursor", "--as", "a@b.example", "--token"], "token: "),
        (["cursor", "--as", "a@b.example", "--url", URL], "not allowed with"),
        (["cursor", "--remove", "--write"], "write: "),
        (["cursor", "--write", "--json"], "json: "),
        (["windsurf", "--scope", "project"], "scope: "),
        (["vscode", "--scope", "project", "--token"], "token: "),
        (["zed", "--token", "--write", "--yes"], "token: is missing"),
    ],
)
def test_options_without_effect_are_refused(arguments: list[str], error: str, home: Path) -> None:
    with pytest.raises(CommandError, match=re.escape(error)):
        connect(*arguments)
    assert list(home.iterdir()) == []


def test_a_client_that_this_system_does_not_have_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    assert "Edit Config" in connect("claude-desktop")
    with pytest.raises(CommandError, match="not known on linux"):
        connect("claude-desktop", "--write", "--yes")


def test_tools_are_selected_by_the_address(settings: Any) -> None:
    settings.MCP_TOOLSETS = ["memory", "query"]
    assert f"{URL}/x/graph,memory" in connect("cursor", "--toolsets", "graph, memory")
    assert f"{URL}/x/memory,query/readonly" in connect("cursor", "--read-only")
    assert "https://cp.example/mcp" in connect("cursor", "--url", "https://cp.example")


def test_a_token_that_others_could_read_on_the_way_is_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    connect("cursor", "--token", "--url", "http://cp.example/mcp")
    assert "without encryption" in capsys.readouterr().err
    for address in ("https://cp.example/mcp", "http://localhost:8000/mcp"):
        connect("cursor", "--token", "--url", address)
    assert capsys.readouterr().err == ""


def test_stdio_starts_this_installation_for_an_existing_person(alice_user: User, monkeypatch: Any) -> None:
    monkeypatch.setenv("COMMONPLACE_HOME", "somewhere")
    monkeypatch.setenv("DATABASE_URL", "postgres://ana@db/commonplace")
    answer = json.loads(
        connect("cursor", "--as", alice_user.email.upper(), "--toolsets", "memory", "--read-only", "--json")
    )
    assert answer["entry"]["args"][-6:] == ["mcp", "--as", alice_user.email, "--toolsets", "memory", "--read-only"]
    expected = {"COMMONPLACE_HOME": str(Path.cwd() / "somewhere"), "DATABASE_URL": "postgres://ana@db/commonplace"}
    assert expected.items() <= answer["entry"]["env"].items()
    assert (
        json.loads(snippet(BY_NAME["cursor"], stdio_connection(alice_user.email)))["mcpServers"]["commonplace"]["env"]
        == answer["entry"]["env"]
    )  # what `up` prints
    assert os.path.isabs(answer["entry"]["command"])
    with pytest.raises(CommandError, match="no active account"):
        connect("cursor", "--as", "nobody@fernhill.example")


@pytest.mark.parametrize(
    ("address", "stated"),
    [
        ("http://localhost:8000", {}),
        ("http://localhost:8911", {"COMMONPLACE_URL": "http://localhost:8911"}),
        ("https://cp.example", {"COMMONPLACE_URL": "https://cp.example"}),
    ],
)
def test_links_in_answers_over_stdio_lead_to_the_address_in_use(
    settings: Any, address: str, stated: dict[str, str]
) -> None:
    settings.COMMONPLACE_URL = address
    environment = stdio_connection("ana@example.org").environment
    assert {name: value for name, value in environment.items() if name == "COMMONPLACE_URL"} == stated


@pytest.fixture
def page(alice_user: User) -> Browser:
    browser = Browser()
    browser.force_login(alice_user)
    return browser


def links(text: str) -> dict[str, str]:
    found = re.findall(r'href="((cursor|vscode|goose):[^"]*)"', text)
    return {scheme: html.unescape(link) for link, scheme in found}


def test_the_page_shows_every_client_of_the_table(page: Browser) -> None:
    text = page.get(reverse("connect")).content.decode()
    main = text.partition("<main")[2]
    assert re.findall(r"<summary>(.*?) <span", main) == [client.title for client in CLIENTS]
    assert "cpl_" not in text
    cursor, vscode, goose = (links(text)[name] for name in ("cursor", "vscode", "goose"))
    query = parse_qs(urlsplit(cursor).query)
    assert query["name"] == ["commonplace"]
    assert json.loads(base64.b64decode(query["config"][0])) == {"url": URL}
    entry = json.loads(unquote(vscode.removeprefix("vscode:mcp/install?")))
    assert entry == {"name": "commonplace", "type": "http", "url": URL}
    assert parse_qs(urlsplit(goose).query)["type"] == ["streamable_http"]


def test_a_new_token_is_in_its_own_response_only(page: Browser) -> None:
    response = page.post(reverse("make-token"), {"name": "laptop", "days": 30, "persona": "sales"})
    text = response.content.decode()
    match = re.search(r'id="token"[^>]*>(cpl_[^<]+)<', text)
    assert match is not None
    token = match[1]
    config = base64.b64decode(parse_qs(urlsplit(links(text)["cursor"]).query)["config"][0])
    assert json.loads(config)["headers"] == {"Authorization": f"Bearer {token}"}
    assert token in unquote(links(text)["vscode"])
    assert "goose" not in links(text)  # its links carry no header
    assert "COMMONPLACE_TOKEN" in text  # Codex reads it from there
    assert response["Cache-Control"].startswith("max-age=0") or "no-store" in response["Cache-Control"]
    assert token not in page.get(reverse("connect")).content.decode()


def test_the_registry_entry_follows_the_rules_of_the_registry(tmp_path: Path) -> None:
    build.write_bundle(tmp_path / "a")
    entry = build.registry_entry("https://github.com/some-one/commonplace/", "0" * 64)
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert set(entry) <= {"$schema", "name", "title", "description", "version", "repository", "packages"}
    (package,) = entry["packages"]
    assert package["version"] == entry["version"] == memory_project.__version__
    assert re.fullmatch(r"[a-f0-9]{64}", package["fileSha256"])
    assert package["identifier"].endswith(f"/v{entry['version']}/commonplace-{entry['version']}.mcpb")
    for bad in ("", "http://github.com/a/b", "https://github.com/a", "https://example.com/a/b"):
        with pytest.raises(ValueError, match="REPOSITORY"):
            build.registry_entry(bad, "0" * 64)


def test_the_command_that_make_dist_calls_needs_no_installation(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "distribution.build", str(tmp_path), "https://github.com/some-one/commonplace"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        command, cwd=Path(memory_project.__file__).parent.parent, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {file.suffix for file in tmp_path.iterdir() if file.is_file()} == {".json", ".mcpb"}


def test_the_bundle_is_complete_and_the_same_each_time(tmp_path: Path) -> None:
    build.write_bundle(tmp_path / "a")
    build.write_bundle(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with zipfile.ZipFile(tmp_path / "a") as archive:
        manifest = json.loads(archive.read("manifest.json"))
        launcher = archive.read(manifest["server"]["entry_point"]).decode()
    assert manifest["version"] == memory_project.__version__
    named = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(manifest["server"])))
    assert named == set(manifest["user_config"])
    assert manifest["user_config"]["token"]["sensitive"]
    for variable in manifest["server"]["mcp_config"]["env"]:
        assert variable in launcher


def test_the_version_is_written_once() -> None:
    text = (Path(build.__file__).parent.parent / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in text
    assert not re.search(r"^version = ", text, re.MULTILINE)
    assert BY_NAME.keys() == {client.name for client in CLIENTS}

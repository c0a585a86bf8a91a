"""Edits of clients' configuration files: our entry only, every other byte stays."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from foundation.operations.errors import Conflict, Invalid, NotFound
from memory_project.agents.client_files import json_text
from memory_project.agents.client_files.connection import ClientConnection, mcp_url
from memory_project.agents.client_files.files import BACKUP, plan, write
from memory_project.agents.client_files.table import BY_NAME, CLIENTS, Client

HTTP = ClientConnection(url="http://localhost:8000/mcp")
STDIO = ClientConnection(command=["/opt/python", "/opt/manage.py", "mcp", "--as", "maya@fernhill.example"])
OTHER = {"command": "npx", "args": ["-y", "other"]}


def others(client: Client) -> str:
    """Return a file of this client with another server, and comments where the format has them."""
    if client.format == "toml":
        return '# mine\nmodel = "x"  # why\n\n[mcp_servers.other]\ncommand = "npx"\nargs = ["-y", "other"]\n'
    if client.format == "yaml":
        entry = "  # one\n  other:\n    type: stdio\n    args:\n    - a\n"
        return f"# mine\nGOOSE_MODEL: x  # why\nextensions:\n{entry}# end\nlast: 1\n"
    inner: Any = {"other": OTHER, "another": OTHER}
    for key in reversed(client.container):
        inner = {key: inner}
    text = json.dumps({"theme": "dark", **inner, "last": [1, 2]}, indent=4) + "\n"
    if client.format == "jsonc":
        text = text.replace("{", "{ // first", 1).replace('"dark",', '"dark", /* why, not */')
        text = text.replace("\n    ]\n}", "\n    ], // trailing\n}")
    return text


def load(client: Client, text: str) -> Any:
    match client.format:
        case "toml":
            return tomllib.loads(text)
        case "yaml":
            return yaml.safe_load(text)
    return json_text.parse(text, comments=client.format == "jsonc")


def table(client: Client, text: str) -> Any:
    data = load(client, text)
    for key in client.container:
        data = data[key]
    return data


every_client = pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
both_ways = pytest.mark.parametrize("connection", [HTTP, STDIO], ids=["http", "stdio"])


@every_client
@both_ways
def test_an_entry_is_written_where_there_is_no_file(
    client: Client, connection: ClientConnection, tmp_path: Path
) -> None:
    path = tmp_path / "new" / "file"
    change = plan(client, path, "commonplace", client.entry(connection))
    assert write(change, is_secret=False, is_shared=False) is None
    assert table(client, path.read_text()) == {"commonplace": client.entry(connection)}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@every_client
@pytest.mark.parametrize("text", ["", "\n", "  \n\n"])
def test_an_entry_is_written_into_an_empty_file(client: Client, text: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    write(plan(client, path, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    assert table(client, path.read_text()) == {"commonplace": client.entry(HTTP)}


@every_client
@both_ways
@pytest.mark.parametrize("line", ["\n", "\r\n"])
def test_put_and_remove_give_the_same_bytes_back(
    client: Client, connection: ClientConnection, line: str, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    before = others(client).replace("\n", line).encode()
    path.write_bytes(before)
    change = plan(client, path, "commonplace", client.entry(connection))
    removed = [row for row in change.diff().splitlines()[2:] if row.startswith("-")]
    assert len(removed) <= 1  # JSON adds a comma to the line before
    backup = write(change, is_secret=False, is_shared=False)
    assert backup is not None
    assert backup.read_bytes() == before
    found = table(client, path.read_bytes().decode())
    assert found["commonplace"] == client.entry(connection)
    assert set(found) == {*table(client, before.decode()), "commonplace"}
    assert not plan(client, path, "commonplace", client.entry(connection)).is_needed
    write(plan(client, path, "commonplace", None), is_secret=False, is_shared=False)
    assert path.read_bytes() == before


@every_client
def test_another_entry_of_the_same_name_is_kept(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write(plan(client, path, "commonplace", client.entry(STDIO)), is_secret=False, is_shared=False)
    before = path.read_bytes()
    with pytest.raises(Conflict, match="--replace"):
        plan(client, path, "commonplace", client.entry(HTTP))
    assert path.read_bytes() == before
    write(plan(client, path, "commonplace", client.entry(HTTP), replace=True), is_secret=False, is_shared=False)
    assert table(client, path.read_text()) == {"commonplace": client.entry(HTTP)}


BROKEN = {"json": '{\n  "a": 1,,\n}', "jsonc": '{\n  "a" 1 // x\n}', "toml": "a = 1\nb = = 2\n", "yaml": "a: 1\nb: [\n"}


@every_client
def test_a_broken_file_is_refused_with_the_place(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(BROKEN[client.format])
    with pytest.raises(Invalid, match=r"line [23]"):
        plan(client, path, "commonplace", client.entry(HTTP))
    assert path.read_text() == BROKEN[client.format]
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


@every_client
def test_a_file_of_another_shape_is_refused(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    key = client.container[0]
    path.write_text({"toml": f"{key} = 3\n", "yaml": f"{key}: 3\n"}.get(client.format, f'{{"{key}": 3}}'))
    with pytest.raises(Invalid, match=f"{key} is int"):
        plan(client, path, "commonplace", client.entry(HTTP))


@every_client
def test_removing_what_is_not_there_is_an_error(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(others(client))
    with pytest.raises(NotFound, match="'commonplace'"):
        plan(client, path, "commonplace", None)


def test_comments_in_strict_json_are_refused_because_the_client_would_not_read_them(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text('{"mcpServers": {} // mine\n}')
    with pytest.raises(Invalid, match="line 1"):
        plan(BY_NAME["cursor"], path, "commonplace", {"url": "x"})


@pytest.mark.parametrize(
    "text",
    [
        '{"context_servers": {}}',
        '{"context_servers": {"a": {"b": 1}}}',
        "{\n  // only a comment\n}\n",
        '{\n  "context_servers": {\n    // none yet\n  },\n}\n',
        '{\n  "context_servers": {\n    "a": 1 // one\n  }\n}\n',
        '{\n  "context_servers": {\n    "a": 1, // one, with a } brace\n  } /* end */\n}\n',
        '{\n  "context_servers": {\n    "a": "// no comment /* nor this */",\n    /* more\n       lines */ },\n}\n',
        '{\n\t"a": "\\"}{",\n\t"context_servers": { "a": { } }\n}',
        '\ufeff{\n  "x": null\n}\n',
        '// header\n{"x": 1}',
        "// nothing but a header",
    ],
)
def test_unusual_jsonc_keeps_its_comments(text: str, tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["zed"]
    path.write_text(text)
    write(plan(client, path, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    written = path.read_text()
    assert table(client, written.removeprefix("\ufeff"))["commonplace"] == client.entry(HTTP)
    assert written.startswith("\ufeff") == text.startswith("\ufeff")
    for comment in ["// only a comment", "// none yet", "// one", "/* end */", "lines */", "// header"]:
        assert (comment in written) == (comment in text)
    write(plan(client, path, "commonplace", None), is_secret=False, is_shared=False)
    before = load(client, text.removeprefix("\ufeff"))
    if before.get("context_servers") == {}:
        del before["context_servers"]
    assert load(client, path.read_text().removeprefix("\ufeff")) == before


@pytest.mark.parametrize(
    "text",
    [
        '{ // c\n "context_servers": { "commonplace": {} } }',
        '{\n "context_servers": { // c\n "commonplace": {}, "b": 1 } }',
        '{\n "context_servers": {\n "b": 1, // c\n "commonplace": {} } }',
        '{\n "context_servers": {\n "b": 1 // c\n , "commonplace": {} /* d */ // e\n } }',
        '{\n "context_servers": {\n "b": 1 /* , */ , /* x */ "commonplace": {} , } , }',
        '{"context_servers":{"commonplace":{},"b":1}}',
    ],
)
def test_an_entry_beside_comments_is_taken_away(text: str, tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["zed"]
    path.write_text(text)
    write(plan(client, path, "commonplace", None), is_secret=False, is_shared=False)
    expected = {"context_servers": {"b": 1}} if '"b"' in text else {}
    assert load(client, path.read_text()) == expected
    for comment in ["// c", "/* x */", "// e"]:
        assert (comment in path.read_text()) == (comment in text)


def test_an_earlier_token_is_not_shown(tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["zed"]
    for token in ("cpl_the-earlier-one", "cpl_the-later-one"):
        entry = client.entry(ClientConnection(url=HTTP.url, token=token))
        change = plan(client, path, "commonplace", entry, replace=True)
        assert "(token)" in change.diff(token)
        assert "cpl_the" not in change.diff(token)
        write(change, is_secret=True, is_shared=False)
    assert "cpl_the" not in plan(client, path, "commonplace", None).diff()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.dictionaries(st.text(max_size=5), values, max_size=4), indent=st.sampled_from([None, 2, "\t"]))
def test_json_of_any_content_survives_put_and_remove(data: dict[str, Any], indent: Any) -> None:
    data["mcpServers"] = {"other": OTHER}
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    added = json_text.put(text, ("mcpServers", "ours"), {"url": "x"})
    assert json.loads(added) == {**data, "mcpServers": {"other": OTHER, "ours": {"url": "x"}}}
    assert json_text.remove(added, ("mcpServers", "ours")) == text


@pytest.mark.parametrize(
    "text",
    [
        "extensions:\n",
        "extensions: {}\n",
        "extensions: null  # none\nlast: 1\n",
        "extensions:\n    wide:\n        cmd: x\n    text: |\n        a\n        b\nlast: 1",
        "---\na: 1\n",
        "# only a comment\n",
    ],
)
def test_unusual_yaml_keeps_its_comments(text: str, tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["goose"]
    path.write_text(text)
    write(plan(client, path, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    assert table(client, path.read_text())["commonplace"] == client.entry(HTTP)
    assert ("# none" in text) == ("# none" in path.read_text())
    write(plan(client, path, "commonplace", None), is_secret=False, is_shared=False)
    before = yaml.safe_load(text) or {}
    if not before.get("extensions"):
        before.pop("extensions", None)
    assert (yaml.safe_load(path.read_text()) or {}) == before


def test_yaml_on_one_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("extensions: {a: {type: stdio}}\n")
    with pytest.raises(Invalid, match="on one line"):
        plan(BY_NAME["goose"], path, "commonplace", {"type": "x"})


@pytest.mark.parametrize(
    "text", ['mcp_servers = { a = { url = "x" } }\n', "[mcp_servers]\na.url = 'x'\n[z]\nb = 1\n", "[mcp_servers]\n"]
)
def test_unusual_toml_is_edited_or_refused_but_never_lost(text: str, tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["codex"]
    path.write_text(text)
    write(plan(client, path, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    before = tomllib.loads(text)
    expected = {**before, "mcp_servers": {**before["mcp_servers"], "commonplace": client.entry(HTTP)}}
    assert tomllib.loads(path.read_text()) == expected


def test_a_link_stays_a_link_and_the_mode_is_kept(tmp_path: Path) -> None:
    target, link, client = tmp_path / "dotfiles.json", tmp_path / "mcp.json", BY_NAME["cursor"]
    target.write_text("{}")
    target.chmod(0o640)
    link.symlink_to(target)
    write(plan(client, link, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    assert link.is_symlink()
    assert "commonplace" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    secret = client.entry(ClientConnection(url=HTTP.url, token="cpl_x"))
    change = plan(client, link, "commonplace", secret, replace=True)
    assert "cpl_x" not in change.diff("cpl_x")
    backup = write(change, is_secret=True, is_shared=False)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert backup is not None
    assert backup.name == "dotfiles.json" + BACKUP
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(Invalid, match="loop"):
        plan(client, loop, "commonplace", secret)


def test_a_file_that_changed_after_the_diff_is_not_overwritten(tmp_path: Path) -> None:
    path, client = tmp_path / "file", BY_NAME["cursor"]
    path.write_text("{}")
    change = plan(client, path, "commonplace", client.entry(HTTP))
    path.write_text('{"theirs": 1}')
    with pytest.raises(Conflict, match="changed meanwhile"):
        write(change, is_secret=False, is_shared=False)
    assert path.read_text() == '{"theirs": 1}'


def test_files_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    client = BY_NAME["cursor"]
    with pytest.raises(Invalid, match=str(tmp_path)):
        plan(client, tmp_path, "commonplace", client.entry(HTTP))  # a folder
    latin = tmp_path / "latin"
    latin.write_bytes(b'{"a": "\xe9"}')
    with pytest.raises(Invalid, match="not UTF-8"):
        plan(client, latin, "commonplace", client.entry(HTTP))
    file = tmp_path / "file"
    file.write_text("{}")
    below = file / "mcp.json"  # also what a folder without permission gives to a superuser
    with pytest.raises(Invalid, match=r"mcp\.json"):
        write(plan(client, below, "commonplace", client.entry(HTTP)), is_secret=False, is_shared=False)
    assert file.read_text() == "{}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost",
        "ftp://x/mcp",
        "http://u:p@x/mcp",
        "http://x/mcp?a",
        "http://x/mcp#a",
        "http://x/api",
        "http://x:y/",
    ],
)
def test_unusable_addresses_are_refused(url: str) -> None:
    with pytest.raises(Invalid, match="url: "):
        mcp_url(url, [], read_only=False)


def test_an_address_selects_tools_by_its_path() -> None:
    assert mcp_url("https://cp.example", [], read_only=False) == "https://cp.example/mcp"
    assert mcp_url("https://cp.example/mcp/", ["memory"], read_only=True) == "https://cp.example/mcp/x/memory/readonly"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "é", "x" * 65, "a\n"])
def test_names_that_a_client_would_not_take_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="name: "):
        ClientConnection(url=HTTP.url, name=name)

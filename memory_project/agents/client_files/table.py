"""The supported MCP clients: where each keeps its servers, and how an entry looks there.

The command `connect`, the Connect page and the tests read this table. A fact that could not be confirmed in the
client's documentation or with the client itself is left out.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from django.utils.translation import gettext_noop

from foundation.operations.errors import Invalid
from memory_project.agents.client_files.connection import DESCRIPTION, TOKEN_VARIABLE, ClientConnection

Entry = dict[str, Any]
TIMEOUT_S = 300  # the default of Goose's own dialog


@dataclass(frozen=True)
class Client:
    name: str  # as on the command line
    title: str
    format: str  # json, jsonc, toml or yaml
    container: tuple[str, ...]  # the keys above the entry
    http: Callable[[ClientConnection], Entry]
    stdio: Callable[[ClientConnection], Entry]
    user: Mapping[str, str]  # the user's file by sys.platform
    project: str = ""  # the file within a project, if the client reads one
    place: str = ""  # where the client's own menu opens the file
    override: tuple[str, str] | None = None  # an environment variable with a folder, and the file in it
    alternative: str = ""  # an ending that the file may have instead
    variable: str = ""  # how the file refers to an environment variable; empty if it can't
    needs_variable: bool = False  # a token can't be written into the file
    link: Callable[[ClientConnection], str] | None = None
    shell: Callable[[ClientConnection], str] | None = None

    def entry(self, connection: ClientConnection) -> Entry:
        return self.http(connection) if connection.url else self.stdio(connection)

    def path(self, scope: str, platform: str) -> Path:
        """Return the file to edit. Raises Invalid if the client has none for this scope or operating system."""
        if scope == "project":
            if not self.project:
                raise Invalid(f"{self.title} has no file per project", field="scope", allowed="user")
            return self._existing(Path.cwd() / self.project)
        if self.override and (folder := os.environ.get(self.override[0])):
            return Path(folder).expanduser() / self.override[1]
        if platform not in self.user:
            names = ", ".join(sorted(self.user))
            raise Invalid(f"{self.title} is not known on {platform}", field="client", allowed=f"on {names}")
        return self._existing(_expand(self.user[platform]))

    def _existing(self, path: Path) -> Path:
        other = path.with_suffix(self.alternative) if self.alternative else path
        return other if other.exists() and not path.exists() else path

    def where(self) -> str:
        """Return the place of the user's file for people, on every operating system."""
        return self.place or ", ".join(dict.fromkeys(self.user.values()))


def _expand(template: str) -> Path:
    home = Path.home()
    config = os.environ.get("XDG_CONFIG_HOME") or str(home / ".config")
    roaming = os.environ.get("APPDATA") or str(home / "AppData" / "Roaming")
    text = template.replace("$XDG_CONFIG_HOME", config).replace("%APPDATA%", roaming)
    return Path(text.replace("\\", "/")).expanduser()


def _everywhere(path: str) -> dict[str, str]:
    return dict.fromkeys(("linux", "darwin", "win32"), path)


def _environment(connection: ClientConnection, key: str = "env") -> Entry:
    return {key: dict(connection.environment)} if connection.environment else {}


def _command(connection: ClientConnection) -> Entry:
    program, *arguments = connection.command
    return {"command": program, "args": arguments, **_environment(connection)}


def _at(key: str, **fixed: str) -> Callable[[ClientConnection], Entry]:
    """Return a builder of HTTP entries that hold the address under `key`."""
    return lambda connection: {**fixed, key: connection.url, **connection.headers}


def _desktop_http(connection: ClientConnection) -> Entry:
    # Claude Desktop's file starts programs only; mcp-remote, a program of the npm registry, reaches an address
    arguments = ["-y", "mcp-remote", connection.url]
    if not connection.token:
        return {"command": "npx", "args": arguments}
    # in the environment, because an argument is visible in the list of processes
    bearer = {"AUTHORIZATION": f"Bearer {connection.token}"}
    return {"command": "npx", "args": [*arguments, "--header", "Authorization:${AUTHORIZATION}"], "env": bearer}


def _codex_http(connection: ClientConnection) -> Entry:
    variable = {"bearer_token_env_var": TOKEN_VARIABLE} if connection.token else {}
    return {"url": connection.url, **variable}


def _goose(connection: ClientConnection) -> Entry:
    common = {"enabled": True, "name": connection.name, "description": DESCRIPTION, "timeout": TIMEOUT_S}
    if connection.url:
        return {**common, "type": "streamable_http", "uri": connection.url, **connection.headers}
    program, *arguments = connection.command
    environment = _environment(connection, "envs")
    return {**common, "type": "stdio", "cmd": program, "args": arguments, **environment}


def _opencode_stdio(connection: ClientConnection) -> Entry:
    return {"type": "local", "command": list(connection.command), **_environment(connection, "environment")}


def _cursor_link(connection: ClientConnection) -> str:
    entry = json.dumps(_at("url")(connection)).encode()
    query = urlencode({"name": connection.name, "config": base64.b64encode(entry).decode()})
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{query}"


def _vscode_link(connection: ClientConnection) -> str:
    entry = {"name": connection.name, **_at("url", type="http")(connection)}
    return f"vscode:mcp/install?{quote(json.dumps(entry), safe='')}"


def _goose_link(connection: ClientConnection) -> str:
    query = {"url": connection.url, "type": "streamable_http", "timeout": TIMEOUT_S, "id": connection.name}
    query |= {"name": connection.name, "description": DESCRIPTION}
    # the documented link has no place for a header; Goose signs in with OAuth instead
    return "" if connection.token else f"goose://extension?{urlencode(query, quote_via=quote)}"


def _claude_shell(connection: ClientConnection) -> str:
    header = f' --header "Authorization: Bearer {connection.token}"' if connection.token else ""
    return f"claude mcp add --scope user --transport http {connection.name} {connection.url}{header}"


CLIENTS = (
    Client(
        name="claude-code",
        title="Claude Code",
        format="json",
        container=("mcpServers",),
        http=_at("url", type="http"),
        stdio=lambda connection: {"type": "stdio", **_command(connection)},
        user=_everywhere("~/.claude.json"),
        project=".mcp.json",
        place=gettext_noop("In a terminal"),
        override=("CLAUDE_CONFIG_DIR", ".claude.json"),
        variable="${%s}",
        shell=_claude_shell,
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        format="json",
        container=("mcpServers",),
        http=_desktop_http,
        stdio=_command,
        user={
            "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
            "win32": "%APPDATA%/Claude/claude_desktop_config.json",
        },
        place="Settings → Developer → Edit Config",
    ),
    Client(
        name="cursor",
        title="Cursor",
        format="json",
        container=("mcpServers",),
        http=_at("url"),
        stdio=_command,
        user=_everywhere("~/.cursor/mcp.json"),
        project=".cursor/mcp.json",
        variable="${env:%s}",
        link=_cursor_link,
    ),
    Client(
        name="vscode",
        title="VS Code",
        format="jsonc",
        container=("servers",),
        http=_at("url", type="http"),
        stdio=lambda connection: {"type": "stdio", **_command(connection)},
        user={
            "linux": "$XDG_CONFIG_HOME/Code/User/mcp.json",
            "darwin": "~/Library/Application Support/Code/User/mcp.json",
            "win32": "%APPDATA%/Code/User/mcp.json",
        },
        project=".vscode/mcp.json",
        place=gettext_noop("MCP: Open User Configuration, or .vscode/mcp.json in a project"),
        link=_vscode_link,
    ),
    Client(
        name="codex",
        title="Codex",
        format="toml",
        container=("mcp_servers",),
        http=_codex_http,
        stdio=_command,
        user=_everywhere("~/.codex/config.toml"),
        project=".codex/config.toml",
        override=("CODEX_HOME", "config.toml"),
        variable="%s",
        needs_variable=True,
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        format="jsonc",
        container=("mcpServers",),
        http=_at("httpUrl"),
        stdio=_command,
        user=_everywhere("~/.gemini/settings.json"),
        project=".gemini/settings.json",
        variable="${%s}",
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        format="json",
        container=("mcpServers",),
        http=_at("serverUrl"),
        stdio=_command,
        user=_everywhere("~/.codeium/windsurf/mcp_config.json"),
        variable="${env:%s}",
    ),
    Client(
        name="zed",
        title="Zed",
        format="jsonc",
        container=("context_servers",),
        http=_at("url"),
        stdio=_command,
        user={
            "linux": "$XDG_CONFIG_HOME/zed/settings.json",
            "darwin": "~/.config/zed/settings.json",
        },
        place="zed: open settings file",
    ),
    Client(
        name="goose",
        title="Goose",
        format="yaml",
        container=("extensions",),
        http=_goose,
        stdio=_goose,
        user={
            "linux": "~/.config/goose/config.yaml",
            "darwin": "~/.config/goose/config.yaml",
            "win32": "%APPDATA%/Block/goose/config/config.yaml",
        },
        link=_goose_link,
    ),
    Client(
        name="opencode",
        title="OpenCode",
        format="jsonc",
        container=("mcp", "servers"),
        http=_at("url", type="remote"),
        stdio=_opencode_stdio,
        user=_everywhere("~/.config/opencode/opencode.json"),
        project="opencode.json",
        alternative=".jsonc",
        variable="{env:%s}",
    ),
)
BY_NAME = {client.name: client for client in CLIENTS}

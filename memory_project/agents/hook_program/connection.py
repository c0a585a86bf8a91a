"""Connection of the hooks: address, token, and whether the person lets candidates be collected.

Address and token always come from the same place. A variable that a repository sets can't send a saved token elsewhere.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from memory_project.agents.hook_program.folders import config_folder

FILE = "hook.toml"
URL_VARIABLE = "COMMONPLACE_URL"
TOKEN_VARIABLE = "COMMONPLACE_TOKEN"
CAPTURE_VARIABLE = "COMMONPLACE_CAPTURE"
PLUGIN_PREFIX = "CLAUDE_PLUGIN_OPTION_"  # how Claude Code hands over what the plugin has asked for
ENVIRONMENT, PLUGIN = "environment", "plugin"  # sources of a connection besides the file
MCP_PATH = "/mcp"
MAX_BYTES = 64_000
TRUE = ("1", "true", "yes", "on")
LOCAL = ("localhost", "127.0.0.1", "::1")


class ServerFailed(Exception):
    """The server can't be reached, refuses, or answers something else than JSON. The text is for `--status`.

    `is_down` is false if the server refuses this request and may well answer the next one.
    """

    def __init__(self, reason: str, *, is_down: bool = True) -> None:
        super().__init__(reason)
        self.is_down = is_down


@dataclass(frozen=True)
class HookConnection:
    url: str  # without a slash at the end
    token: str
    source: str  # ENVIRONMENT, PLUGIN, or the path of the file
    capture: bool  # whether the person lets candidates for memories be collected

    @property
    def is_readable_on_the_way(self) -> bool:
        parts = urlsplit(self.url)
        return parts.scheme == "http" and parts.hostname not in LOCAL

    @property
    def is_saved_openly(self) -> bool:
        """Return whether other users of this machine can read the file with the token."""
        if self.source in (ENVIRONMENT, PLUGIN) or sys.platform == "win32":
            return False
        return bool(Path(self.source).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def load() -> HookConnection | None:
    """Return the connection of the environment, of the plugin's settings or of the saved file, the first there is."""
    for source, prefix in ((ENVIRONMENT, ""), (PLUGIN, PLUGIN_PREFIX)):
        names = (URL_VARIABLE, TOKEN_VARIABLE, "") if not prefix else ("URL", "TOKEN", "CAPTURE")
        url, token, capture = (os.environ.get(prefix + name, "").strip() if name else "" for name in names)
        if url and token:
            return _connection(url, token, source, capture.lower() in TRUE)
    path = saved_path()
    values = _saved(path) if path else {}
    address = values.get("url")
    secret = values.get("token")
    if not isinstance(address, str) or not isinstance(secret, str) or not secret:
        return None
    return _connection(address, secret, str(path), values.get("capture") is True)


def saved_path() -> Path | None:
    folder = config_folder()
    return folder / FILE if folder else None


def save(url: str, token: str, *, capture: bool) -> Path:
    """Write the connection to a file that only its owner can read, and return its path. Raises ValueError, OSError."""
    path = saved_path()
    if path is None:
        raise ValueError("There is no home folder to keep the connection in. Set HOME or XDG_CONFIG_HOME.")
    address = base_url(url)
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("token: is missing or has characters that no token has; allowed: a token of the Connect page")
    lines = [
        "# The connection of `commonplace hook`. Keep this file to yourself: it holds a token.",
        f"url = {json.dumps(address)}",
        f"token = {json.dumps(token)}",
        "# true: decisions and corrections in sessions are proposed to you, in repositories that allow it",
        f"capture = {json.dumps(capture)}",
    ]
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{FILE}.{os.getpid()}")
    try:
        # made with this mode, not changed to it: nobody can open it in between
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    return path


def base_url(address: str) -> str:
    """Return the address without /mcp and the slash at the end. Raises ValueError if it is not an address."""
    allowed = "allowed: http(s)://HOST, without user, query and fragment"
    try:
        parts = urlsplit(address.strip())
        is_valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"url: {address[:200]!r} is not an address of a server; {allowed}")
    return parts._replace(path=parts.path.rstrip("/").removesuffix(MCP_PATH)).geturl()


def _connection(url: str, token: str, source: str, capture: bool) -> HookConnection | None:
    chosen = os.environ.get(CAPTURE_VARIABLE, "").strip().lower()
    try:
        return HookConnection(base_url(url), token, source, chosen in TRUE if chosen else capture)
    except ValueError:
        return None


def _saved(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            return tomllib.loads(file.read(MAX_BYTES).decode())
    except (OSError, ValueError):
        return {}

"""The connection in a client's configuration: HTTP with an address, or stdio with a command."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from foundation.operations.errors import Invalid
from memory_project.__main__ import program
from memory_project.operating.env import is_secret
from memory_project.web.mcp_paths import CHOOSING, PATH, READ_ONLY

DEFAULT_NAME = "commonplace"
DEFAULT_URL = "http://localhost:8000"
DESCRIPTION = "Shared memory of analysts and agents about company data"
TOKEN_VARIABLE = "COMMONPLACE_TOKEN"
# Variables that decide which installation a started server belongs to. Clients start it without this environment.
OF_INSTALLATION = (
    "COMMONPLACE_HOME",
    "COMMONPLACE_FILES",
    "DATABASE_URL",
    "DATABASE_OWNER_URL",
    "SECRET_KEY",
    "EMBEDDING_PROVIDER",
)
FOLDERS = ("COMMONPLACE_HOME", "COMMONPLACE_FILES")
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # the strictest rule among the clients is that of Codex


@dataclass(frozen=True)
class ClientConnection:
    """Over HTTP if `url` is set, otherwise over stdio. `token` is a token or a client's reference to a variable."""

    url: str = ""
    token: str = ""
    command: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    name: str = DEFAULT_NAME

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise Invalid(
                f"{self.name[:80]!r} is not a name", field="name", allowed="1 to 64 of A-Z, a-z, 0-9, _ and -"
            )

    @property
    def headers(self) -> dict[str, dict[str, str]]:
        """Return the part of an entry that carries the token, or nothing: the client then signs in with OAuth."""
        return {"headers": {"Authorization": f"Bearer {self.token}"}} if self.token else {}


def mcp_url(address: str, toolsets: Sequence[str], *, read_only: bool) -> str:
    """Return the address of the MCP endpoint with a selection of tools. Raises Invalid for an unusable address."""
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    allowed = f"http(s)://HOST or http(s)://HOST{PATH}, without user, query and fragment"
    if not valid or parts.username is not None or parts.query or parts.fragment or re.search(r"\s", address):
        raise Invalid(f"{address[:200]!r} is not an address of this server", field="url", allowed=allowed)
    path = parts.path.rstrip("/")
    if path and not path.endswith(PATH):
        raise Invalid(f"{address[:200]!r} does not end with {PATH}", field="url", allowed=allowed)
    base = parts._replace(path=path or PATH).geturl()
    if not toolsets:
        return base
    chosen = ",".join(toolsets)
    return base + CHOOSING.removeprefix(PATH) + chosen + (f"/{READ_ONLY}" if read_only else "")


def stdio_connection(email: str, arguments: Sequence[str] = (), *, name: str = DEFAULT_NAME) -> ClientConnection:
    """Return how a client starts a server over stdio that acts for a person, with the data of this installation."""
    given = {
        variable: value
        for base in OF_INSTALLATION
        for variable in (base, f"{base}_FILE")
        if (value := os.environ.get(variable, "").strip()) and (variable == base or is_secret(base))
    }
    for variable, value in given.items():
        if variable in FOLDERS or variable.endswith("_FILE"):
            given[variable] = str(Path(value).expanduser().resolve())
    if settings.COMMONPLACE_URL != DEFAULT_URL:  # by variable or by option of `up` and `serve`; answers have links
        given["COMMONPLACE_URL"] = settings.COMMONPLACE_URL
    return ClientConnection(command=[*program(), "mcp", "--as", email, *arguments], environment=given, name=name)

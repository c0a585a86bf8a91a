"""The git repository that an agent works in: its remote, and what its .commonplace.toml says.

The files of git are read without starting git, which would cost more than the rest of a hook.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

FILE = ".commonplace.toml"
MAX_LEVELS = 40
MAX_BYTES = 64_000
MAX_CONFIG_BYTES = 256_000
MAX_REMOTE = 200
MAX_ENTITIES = 20
MAX_ENTITY = 500
MAX_PERSONA = 60
KEYS = ("persona", "entities", "off")
SECTION = re.compile(r'\[\s*([\w.-]+)(?:\s+"((?:\\.|[^"\\])*)")?\s*\]')
SCP = re.compile(r"(?:[^@/\s]+@)?([^:/\s]+):(?!//)(.+)")  # git@host:owner/name
WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]")


@dataclass(frozen=True)
class RepositorySettings:
    """What a repository says about Commonplace. It can narrow what is sent and switch it off, never switch it on."""

    is_present: bool = False
    is_off: bool = False
    persona: str | None = None
    entities: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Repository:
    root: Path | None = None
    remote: str | None = None  # host/owner/name
    settings: RepositorySettings = RepositorySettings()


def repository_of(folder: Path) -> Repository:
    """Return the repository that contains `folder`. Outside of one, everything is empty."""
    root = _root(folder)
    if root is None:
        return Repository()
    return Repository(root, _remote(root), read_settings(root / FILE))


def read_settings(path: Path) -> RepositorySettings:
    """Return the settings in a file. One that can't be read switches everything off: that may be what it says."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"is larger than {MAX_BYTES:,} bytes")
        values = tomllib.loads(content.decode())
    except FileNotFoundError:
        return RepositorySettings()
    except (OSError, ValueError) as error:
        reason = f"{FILE} can't be read, so nothing is sent: {' '.join(str(error).split())[:200]}"
        return RepositorySettings(is_present=True, is_off=True, problems=(reason,))
    problems = [f"{FILE}: unknown key {key[:40]!r} is ignored" for key in values if key not in KEYS]
    off = values.get("off", False)
    persona = values.get("persona")
    entities = values.get("entities", [])
    if not isinstance(off, bool):
        problems.append(f"{FILE}: off is not true or false, so nothing is sent")
    if persona is not None and not (isinstance(persona, str) and 0 < len(persona.strip()) <= MAX_PERSONA):
        problems.append(f"{FILE}: persona is not a text of 1 to {MAX_PERSONA} characters and is ignored")
        persona = None
    if not isinstance(entities, list):
        problems.append(f"{FILE}: entities is not a list and is ignored")
        entities = []
    return RepositorySettings(
        is_present=True,
        is_off=off is not False,
        persona=persona.strip() if isinstance(persona, str) else None,
        entities=tuple(name.strip() for name in entities if _is_entity(name))[:MAX_ENTITIES],
        problems=tuple(problems),
    )


def _is_entity(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name.strip()) <= MAX_ENTITY


def normalized_remote(address: str) -> str | None:
    """Return host/owner/name of a remote, without user, password, port and .git. None for a path on this machine."""
    address = address.strip()
    if not address or WINDOWS_PATH.match(address) or "\\" in address:
        return None
    if "://" in address:
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
            path = parts.path
        except ValueError:
            return None
        if parts.scheme == "file":
            return None
    elif found := SCP.fullmatch(address):
        host = found[1].lower()
        path = found[2]
    else:
        return None
    names = [name for name in path.strip("/").removesuffix(".git").split("/") if name not in ("", ".", "..", "~")]
    remote = "/".join([host, *names])
    # what the server would refuse is no name of a repository
    if not host or not names or len(remote) > MAX_REMOTE or not remote.isprintable() or re.search(r"[\s,]", remote):
        return None
    return remote


def _root(folder: Path) -> Path | None:
    try:
        folder = folder.resolve()
        for candidate in [folder, *folder.parents][:MAX_LEVELS]:
            if (candidate / ".git").exists():
                return candidate
    except (OSError, RuntimeError, ValueError):
        pass
    return None


def _remote(root: Path) -> str | None:
    try:
        config = _git_folder(root / ".git") / "config"
        with config.open("rb") as file:
            lines = file.read(MAX_CONFIG_BYTES).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return None
    address = _origin(lines)
    return normalized_remote(address) if address else None


def _git_folder(dot_git: Path) -> Path:
    """Return the folder with the config file: of the main work tree, or of a submodule."""
    if dot_git.is_dir():
        return dot_git
    with dot_git.open() as file:
        first = file.readline(4_096)
    folder = (dot_git.parent / first.removeprefix("gitdir:").strip()).resolve()
    common = folder / "commondir"  # in the folder of a worktree
    if not common.exists():
        return folder
    with common.open() as file:
        return (folder / file.readline(4_096).strip()).resolve()


def _origin(lines: Iterable[str]) -> str | None:
    """Return the first url of [remote "origin"] in a git configuration."""
    is_inside = False
    for line in map(str.strip, lines):
        if found := SECTION.match(line):
            is_inside = found[1].lower() == "remote" and found[2] == "origin"
            line = line[found.end() :].strip()
        key, separator, value = line.partition("=")
        if is_inside and separator and key.strip().lower() == "url":
            return _plain(value)
    return None


def _plain(value: str) -> str:
    """Return a value without quotes and without the comment behind it."""
    value = value.strip()
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return re.split(r"\s[#;]", value, maxsplit=1)[0].strip()

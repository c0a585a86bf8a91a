"""Changes to a client's file: planned first, shown as a diff, then written at once."""

from __future__ import annotations

import copy
import difflib
import os
import re
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foundation.operations.errors import Conflict, Invalid, NotFound
from memory_project.agents.client_files import json_text, toml_text, yaml_text
from memory_project.agents.client_files.table import Client, Entry

BACKUP = ".commonplace-backup"
SECRET_MODE = 0o600
TOKEN = re.compile(r"\bcpl_[\w-]{8,}")
BOM = "\ufeff"


@dataclass(frozen=True)
class FileChange:
    path: Path  # symbolic links resolved
    before: str | None  # None if there is no file
    after: str

    @property
    def is_needed(self) -> bool:
        return self.after != (self.before or "")

    def diff(self, secret: str = "") -> str:
        """Return the change as a unified diff, with `secret` and our earlier tokens hidden."""
        before = (self.before or "").splitlines()
        after = self.after.splitlines()
        text = "\n".join(difflib.unified_diff(before, after, str(self.path), str(self.path), lineterm=""))
        return TOKEN.sub("(token)", text.replace(secret, "(token)") if secret else text)


def plan(client: Client, path: Path, name: str, entry: Entry | None, *, replace: bool = False) -> FileChange:
    """Return the change that puts `entry` under `name`, or takes it away if it is None.

    Raises Invalid if the file can't be read or edited safely, Conflict if another entry has the name, and NotFound if
    there is nothing to take away.
    """
    path = _target(path)
    before = _read(path)
    text = (before or "").removeprefix(BOM)
    keys = (*client.container, name)
    try:
        data = _parse(client, text)
        existing = _lookup(data, keys)
        if entry is None and existing is None:
            raise NotFound(f"{path} has no entry {name!r}")
        if existing is not None and entry not in (None, existing) and not replace:
            raise Conflict(
                f"{path} has another entry {name!r}. "
                "Pass --name for a second one; --replace replaces this one and keeps a copy of the file."
            )
        after = text if existing == entry else _edit(client, text, keys, entry)
        if not _is_right(client, after, _expected(data, keys, entry)):
            raise Invalid("is written in a way that can't be edited without changing the rest: edit it by hand")
    except Invalid as error:
        raise Invalid(error.message, field=str(path)) from None
    return FileChange(path, before, (BOM if before and before.startswith(BOM) else "") + after)


def plan_edit(path: Path, edit: Callable[[str], str]) -> FileChange:
    """Return the change that `edit` makes to a file's text, "" if there is no file.

    Raises Invalid, with the file as its field, if the file can't be read or `edit` refuses it.
    """
    path = _target(path)
    before = _read(path)
    try:
        after = edit((before or "").removeprefix(BOM))
    except Invalid as error:
        raise Invalid(error.message, field=str(path)) from None
    return FileChange(path, before, (BOM if before and before.startswith(BOM) else "") + after)


def write(change: FileChange, *, is_secret: bool, is_shared: bool) -> Path | None:
    """Write the file atomically and return its backup, if there was a file.

    Raises Conflict if the file has changed since the plan, and Invalid if it can't be written.
    """
    if _read(change.path) != change.before:
        raise Conflict(f"{change.path} has changed meanwhile. Run the command again.")
    mode = 0o644 if is_shared else SECRET_MODE
    try:
        backup = None
        if change.before is not None:
            mode = stat.S_IMODE(change.path.stat().st_mode)
            backup = change.path.with_name(change.path.name + BACKUP)
            _replace(backup, change.before, mode & SECRET_MODE if is_secret else mode)
        change.path.parent.mkdir(parents=True, exist_ok=True)
        _replace(change.path, change.after, mode & SECRET_MODE if is_secret else mode)
    except OSError as error:
        raise Invalid(f"can't be written ({error.strerror})", field=str(change.path)) from None
    return backup


def _replace(path: Path, text: str, mode: int) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(mode)
        _keep_owner(Path(temporary), path)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _keep_owner(new: Path, old: Path) -> None:
    """Give `new` the owner of `old`, or of its folder, so that a superuser's run does not take the file away."""
    if sys.platform != "win32" and os.geteuid() == 0:
        owner = (old if old.exists() else old.parent).stat()
        os.chown(new, owner.st_uid, owner.st_gid)


def _target(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise Invalid("is a symbolic link that leads nowhere", field=str(path)) from None


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Invalid(f"is not UTF-8 (byte {error.start})", field=str(path)) from None
    except OSError as error:
        raise Invalid(f"can't be read ({error.strerror})", field=str(path)) from None


def _parse(client: Client, text: str) -> Any:
    match client.format:
        case "toml":
            return toml_text.parse(text)
        case "yaml":
            return yaml_text.parse(text)
    return json_text.parse(text, comments=client.format == "jsonc")


def _is_right(client: Client, text: str, expected: Any) -> bool:
    try:
        return bool(_parse(client, text) == expected)
    except Invalid:
        return False


def _edit(client: Client, text: str, keys: tuple[str, ...], entry: Entry | None) -> str:
    module: Any = {"toml": toml_text, "yaml": yaml_text}.get(client.format, json_text)
    edited: str = module.remove(text, keys) if entry is None else module.put(text, keys, entry)
    return edited


def _lookup(data: Any, keys: tuple[str, ...]) -> Any:
    for depth, key in enumerate(keys):
        if data is None and depth:
            return None
        if not isinstance(data, dict):
            place = ".".join(keys[:depth]) or "the whole file"
            raise Invalid(f"{place} is {type(data).__name__}, not a table of names and values")
        data = data.get(key)
    return data


def _expected(data: Any, keys: tuple[str, ...], entry: Entry | None) -> Any:
    """Return the data with the entry put in or taken away, without the tables that this leaves empty."""
    data = copy.deepcopy(data)
    tables = [data]
    for key in keys[:-1]:
        if tables[-1].get(key) is None:
            tables[-1][key] = {}
        tables.append(tables[-1][key])
    if entry is not None:
        tables[-1][keys[-1]] = entry
        return data
    del tables[-1][keys[-1]]
    for table, key in reversed(list(zip(tables, keys[:-1], strict=False))):
        if not table[key]:
            del table[key]
    return data

"""Edits of TOML text that keep comments and order."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from foundation.operations.errors import Invalid


def parse(text: str) -> Any:
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise Invalid(str(error)) from None


def put(text: str, path: Sequence[str], value: Any) -> str:
    container, name = path
    if name not in parse(text).get(container, {}):
        added = text + ("\n" if text and not text.endswith("\n") else "") + _block(text, container, name, value)
        if _reads_as(added, path, value):
            return added
    document = tomlkit.parse(text)
    try:
        document.setdefault(container, tomlkit.table(is_super_table=True))[name] = value
    except TOMLKitError as error:
        raise Invalid(str(error)) from None
    return tomlkit.dumps(document)


def remove(text: str, path: Sequence[str]) -> str:
    container, name = path
    block = _block(text, container, name, parse(text)[container][name])
    if text.count(block) == 1 and not _has(rest := text.replace(block, ""), path):
        return rest
    document = tomlkit.parse(text)
    del document[container][name]
    if not document[container]:
        del document[container]
    return tomlkit.dumps(document)


def _block(text: str, container: str, name: str, value: Any) -> str:
    """Return the entry as a table of its own, as it is appended to a file."""
    table = tomlkit.dumps({container: {name: value}}).removeprefix(f"[{container}]\n")
    block = ("\n" if text.strip() else "") + table
    return block.replace("\n", "\r\n") if "\r\n" in text else block


def _has(text: str, path: Sequence[str]) -> bool:
    try:
        return path[1] in parse(text).get(path[0], {})
    except Invalid:
        return True


def _reads_as(text: str, path: Sequence[str], value: Any) -> bool:
    try:
        return bool(parse(text)[path[0]][path[1]] == value)
    except Invalid:
        return False

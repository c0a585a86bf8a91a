"""Objects of a file in either form in which programs write them: one JSON document, or one object per line."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Collection, Iterator, Set
from typing import BinaryIO

from memory_project.exchange.imports.formats.json_items import CHUNK, Item, Joined, keys_at_start, read_items
from memory_project.exchange.imports.formats.json_lines import JsonLine, read_lines

COMPARED = 50  # lines of a file, of which one must be an object with the keys


def read_objects(file: BinaryIO, paths: Collection[str], keys: Set[str]) -> Iterator[Item | JsonLine]:
    """Yield the objects at the paths of a JSON document, or those of the lines. `keys` are those that each has."""
    start = file.read(CHUNK)
    whole = io.BufferedReader(Joined(io.BytesIO(start), file))
    if _has_lines(start, paths, keys):
        yield from read_lines(whole)
    else:
        yield from read_items(whole, [""] if _has_keys(start, [""], keys) else paths)


def recognizes_objects(start: bytes, paths: Collection[str], keys: Set[str]) -> bool:
    """Return whether the first objects at one of the paths, the first object alone, or a line's, have the keys."""
    return _has_keys(start, ("", *paths), keys) or _has_lines(start, paths, keys)


def _has_keys(start: bytes, paths: Collection[str], keys: Set[str]) -> bool:
    found = keys_at_start(start)
    return any(found.get(path, set()) >= keys for path in paths)


def _has_lines(start: bytes, paths: Collection[str], keys: Set[str]) -> bool:
    """Return whether these are lines of objects: some may be broken, and the first may be longer than `start`."""
    start = start.removeprefix(codecs.BOM_UTF8)
    if not start.lstrip().startswith(b"{") or _has_keys(start, paths, keys):
        return False
    lines = start.splitlines()[:COMPARED]
    return any(_is_object(line, keys) for line in lines) or (len(lines) == 1 and _has_keys(start, [""], keys))


def _is_object(line: bytes, keys: Set[str]) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= keys

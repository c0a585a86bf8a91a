"""Objects of a file in either form in which programs write them: one JSON document, or one object per line."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterator, Set
from typing import BinaryIO

from memory_project.imports.formats.json_items import CHUNK, Item, Joined, keys_at_start, read_items
from memory_project.imports.formats.json_lines import Line, read_lines


def read_objects(file: BinaryIO, paths: Collection[str], keys: Set[str]) -> Iterator[Item | Line]:
    """Yield the objects at the paths of a JSON document, or those of the lines. `keys` are those that each has."""
    start = file.read(CHUNK)
    whole = io.BufferedReader(Joined(io.BytesIO(start), file))
    if _is_object(start.lstrip().partition(b"\n")[0], keys):
        yield from read_lines(whole)
    else:
        yield from read_items(whole, [""] if has_keys(start, [""], keys) else paths)


def has_keys(start: bytes, paths: Collection[str], keys: Set[str]) -> bool:
    """Return whether the first object at one of the paths has the keys. The path "" stands for a line's object."""
    found = keys_at_start(start)
    return any(found.get(path, set()) >= keys for path in paths)


def _is_object(line: bytes, keys: Set[str]) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.keys() >= keys

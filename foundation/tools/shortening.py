"""Copies of values that fit in a number of bytes, whatever their depth.

Imports only the standard library, because the processes that run statements on DuckDB load it, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MAX_DEPTH = 40  # of lists and objects inside one another
MARK = "…"  # key of an object, or prefix of a list's last item, that says how much was left out
MARK_BYTES = 60  # room for such an entry


def unchanged(value: Any) -> Any:
    return value


class Shortener:
    """Copies values as JSON values of at most `room` bytes in all, and counts what it leaves out.

    Lists and objects lose their last entries, and texts of more than `max_text` characters their end. `convert` makes a
    JSON value of anything that isn't one.
    """

    def __init__(self, room: int, max_text: int, convert: Callable[[Any], Any] = unchanged) -> None:
        self.room = room
        self.left_out = 0
        self._max_text = max_text
        self._convert = convert

    def copy(self, value: Any, depth: int = 0) -> Any:
        value = self._convert(value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return self._object(value, depth + 1)
        if isinstance(value, Sequence):
            return self._list(value, depth + 1)
        self.room -= len(json.dumps(value, default=str))
        return value

    def _text(self, text: str) -> str:
        shown = text[: self._max_text]
        room = max(self.room - MARK_BYTES, 0)
        if _size(shown) > max(room, MARK_BYTES):  # cutting a shorter text would save nothing
            while shown and (size := _size(shown)) > room:
                shown = shown[: len(shown) * room // size]
        if len(shown) < len(text):
            self.left_out += 1
            shown = f"{shown}{MARK} ({len(text)} characters)"
        self.room -= _size(shown)
        return shown

    def _list(self, items: Sequence[Any], depth: int) -> Any:
        self.room -= 2
        copied: list[Any] = []
        for number, item in enumerate(items):
            if self.room < MARK_BYTES or depth > MAX_DEPTH:
                copied.append(self._mark(len(items) - number))
                break
            self.room -= 2
            copied.append(self.copy(item, depth))
        return copied

    def _object(self, items: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        self.room -= 2
        copied: dict[str, Any] = {}
        for number, (key, item) in enumerate(items.items()):
            if self.room < MARK_BYTES or depth > MAX_DEPTH:
                copied[MARK] = self._mark(len(items) - number)
                break
            self.room -= 4
            copied[self._text(str(key))] = self.copy(item, depth)
        return copied

    def _mark(self, count: int) -> str:
        self.left_out += count
        return f"{MARK} {count} more"


def shorten_values(values: Mapping[str, Any], room: int, max_text: int) -> tuple[dict[str, Any], int]:
    """Return a copy of at most `room` bytes, and how much was left out. The largest values lose the most.

    Keys are only left out if there are too many of them.
    """
    sizes = {key: len(json.dumps(value, ensure_ascii=False, default=str).encode()) for key, value in values.items()}
    keys_room = sum(_size(key) + 4 for key in values) + 2
    if room - keys_room < len(values) * MARK_BYTES:
        shortener = Shortener(room, max_text)
        return shortener.copy(values), shortener.left_out
    share = _share(list(sizes.values()), room - keys_room)
    shortened: dict[str, Any] = {}
    left_out = 0
    for key, value in values.items():
        shortener = Shortener(share - 2 * MARK_BYTES, max_text)
        shortened[key] = value if sizes[key] <= share else shortener.copy(value)
        left_out += shortener.left_out
    return shortened, left_out


def _share(sizes: list[int], room: int) -> int:
    """Return the largest size such that the values, each cut to it, fit in the room together."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _size(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass"))

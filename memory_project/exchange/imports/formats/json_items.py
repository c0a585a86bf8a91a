"""Objects in a JSON file of any size, one at a time."""

from __future__ import annotations

import codecs
import io
import math
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, BinaryIO

from foundation.operations.errors import Invalid

CHUNK = 1 << 16  # bytes
MAX_TEXT = 16 << 20  # bytes of one text, which the parser holds as a whole
MAX_ITEM_VALUES = 500_000  # texts, numbers, lists and objects in one item
MAX_ITEM_TEXT = 32_000_000  # characters of all texts in one item
MAX_DEPTH = 100
START_EVENTS = ("start_map", "start_array")
END_EVENTS = ("end_map", "end_array")
CONSTANT = re.compile(rb'\\.|"|NaN|-?Infinity', re.DOTALL)  # with what begins and ends texts, in which they stay
LONGEST = len(b"-Infinity")
TOO_LARGE = b"1e9999"  # no float is as large
NOT_JSON = "can't be read as JSON"
NOTHING = "has nothing to import"


@dataclass(frozen=True)
class Item:
    path: str  # for example "results.item"
    number: int  # from 1, among the items of the same path
    value: dict[str, Any]
    problem: str = ""

    @property
    def place(self) -> str:
        if not self.number:
            return self.path
        name = self.path.removesuffix("item").rstrip(".")
        return f"{name or 'item'} {self.number}"


class _Constants:
    """Replaces NaN and Infinity, which many programs write, by TOO_LARGE, because the parser stops at them."""

    def __init__(self) -> None:
        self._is_in_text = False
        self._held = b""  # the end of the part before, which may be the start of a constant or of an escape

    def replaced(self, part: bytes) -> bytes:
        """Return the next bytes of the file. An empty part is its end."""
        text = self._held + part
        end = len(text) - LONGEST if part else len(text)
        taken = 0
        pieces = []
        for match in CONSTANT.finditer(text):
            if match.start() >= end:
                break
            end = max(end, match.end())
            if match[0] == b'"':
                self._is_in_text = not self._is_in_text
            elif not self._is_in_text and not match[0].startswith(b"\\"):
                pieces += [text[taken : match.start()], TOO_LARGE]
                taken = match.end()
        end = max(end, 0)
        self._held = text[end:]
        return b"".join([*pieces, text[taken:end]])


class _Guard:
    """A file that stops the parser before one text fills the memory."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.unused = 0  # bytes read since the parser last returned something
        self._constants = _Constants()

    def read(self, count: int) -> bytes:
        """Return at most `count` bytes and the few held back before, or b"" at the end."""
        while part := self.file.read(min(count, CHUNK) if count >= 0 else CHUNK):
            self.unused += len(part)
            if self.unused > MAX_TEXT:
                allowed = f"texts of at most {MAX_TEXT:,} bytes"
                raise Invalid("has a text that is too long", field="file", allowed=allowed)
            if replaced := self._constants.replaced(part):
                return replaced
        return self._constants.replaced(b"")


@dataclass
class _Builder:
    """Builds one object from events. A too large object is dropped, while its events are still read."""

    root: dict[str, Any] = field(default_factory=dict)
    open: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # of the open objects; "" for lists
    values: int = 0
    characters: int = 0
    depth: int = 1
    problem: str = ""

    def __post_init__(self) -> None:
        self.open = [self.root]
        self.keys = [""]

    def feed(self, event: str, value: Any) -> None:
        self.depth += (event in START_EVENTS) - (event in END_EVENTS)
        self.values += 1
        self.characters += len(value) if isinstance(value, str) else 0
        if self.values > MAX_ITEM_VALUES or self.characters > MAX_ITEM_TEXT:
            self.problem = "is too large"
        if self.problem:
            self.open = []
            self.root = {}
        elif event in END_EVENTS:
            self.open.pop()
            self.keys.pop()
        elif event == "map_key":
            if value in self.open[-1]:
                self.problem = f"has the key {value[:40]!r} twice"
            self.keys[-1] = value
        else:
            self._add(event, value)

    def _add(self, event: str, value: Any) -> None:
        new = value
        if event == "start_map":
            new = {}
        elif event == "start_array":
            new = []
        elif isinstance(value, Decimal):
            new = float(value)
            if not math.isfinite(new):
                self.problem = "has NaN, Infinity or another number that is not JSON"
        container = self.open[-1]
        if isinstance(container, dict):
            container[self.keys[-1]] = new
        else:
            container.append(new)
        if event in START_EVENTS:
            self.open.append(new)
            self.keys.append("")


def read_items(file: BinaryIO, paths: Collection[str]) -> Iterator[Item]:
    """Yield the objects at the given paths.

    A path has the keys that lead to the object, and "item" for an element of a list: "results.item", or "" for the file
    as a whole. If the file can't be read to its end, the last item has the reason as its problem. Raises Invalid if the
    file has no such object.
    """
    counts: dict[str, int] = {}  # of the items that have begun, by path
    is_empty = True  # whether no item has been yielded yet
    builder: _Builder | None = None
    guard = _Guard(_without_mark(file))
    names: list[str] = []  # the path to the current value
    kinds: list[str] = []  # the start events of the open lists and objects
    path = ""
    try:
        for event, value in _events(guard):
            guard.unused = 0
            if len(kinds) + (builder.depth if builder else 0) > MAX_DEPTH:
                raise Invalid(f"has more than {MAX_DEPTH} nested levels", field="file")
            if builder:
                builder.feed(event, value)
                if not builder.depth:
                    yield Item(path, counts[path], builder.root, builder.problem)
                    builder = None
                    is_empty = False
            elif event == "map_key":
                names[-1] = value
            elif event in END_EVENTS:
                kinds.pop()
                names.pop()
            else:
                path = ".".join(names) if len(names) < 4 else "-"
                if path in paths and event != "start_array":
                    counts[path] = counts.get(path, 0) + 1
                    if event == "start_map":
                        builder = _Builder()
                    else:
                        yield Item(path, counts[path], {}, "is not an object")
                        is_empty = False
                elif event in START_EVENTS:
                    kinds.append(event)
                    names.append("item" if event == "start_array" else "")
        problem = NOTHING if is_empty else ""
    except _parse_errors() as error:
        problem = _reason(error)
    except Invalid as error:
        problem = error.message.removeprefix("file: ")
    if is_empty:
        raise Invalid(problem, field="file", allowed="an export with at least one item")
    if problem:
        yield Item("rest of the file", 0, {}, f"{problem}; nothing after this is read")


def _events(file: _Guard) -> Iterator[tuple[str, Any]]:
    # Not the backend in C, which crashes the process if a number has more digits than Python converts.
    from ijson.backends import python as parser  # noqa: PLC0415 - only needed to import, and not by every format
    from ijson.utils import sendable_list  # noqa: PLC0415 - the same

    # Without paths, which the library writes for each nested level, so that deep nesting would take much memory.
    events = sendable_list()
    target = parser.basic_parse_basecoro(events)
    try:
        part = b"-"
        while part:
            part = file.read(CHUNK)
            try:
                target.send(part) if part else target.close()
            finally:  # what was read before an error counts
                yield from events
                events.clear()
    finally:
        with suppress(*_parse_errors()):  # it complains that the text isn't complete
            target.close()


def _parse_errors() -> tuple[type[Exception], ...]:
    import ijson  # noqa: PLC0415 - the same

    json_error: type[Exception] = ijson.JSONError
    return json_error, ValueError  # the latter for faulty escapes and control characters


def _reason(error: Exception) -> str:
    text = str(error).strip().partition("\n")[0][:100]
    if "codec can't decode" in text:
        return f"{NOT_JSON}: it is not encoded in UTF-8"
    if text.startswith("Incomplete"):
        return f"{NOT_JSON}: it ends too early"
    return f"{NOT_JSON} ({text})"


def _without_mark(file: BinaryIO) -> BinaryIO:
    start = file.read(len(codecs.BOM_UTF8))
    rest = io.BytesIO(b"" if start == codecs.BOM_UTF8 else start)
    return io.BufferedReader(Joined(rest, file))


class Joined(io.RawIOBase):
    """Two files, one after the other. Zip members can't be read from their start again."""

    def __init__(self, first: BinaryIO, second: BinaryIO) -> None:
        self.first = first
        self.second = second

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # io passes a memoryview
        part = self.first.read(len(buffer)) or self.second.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


def keys_at_start(start: bytes) -> dict[str, set[str]]:
    """Return the keys of the objects at each path of at most three names, as far as `start` reaches."""
    found: dict[str, set[str]] = {}
    names: list[str] = []
    expected: tuple[type[Exception], ...] = (*_parse_errors(), Invalid)  # at the end of `start`, or without JSON
    try:
        for event, value in _events(_Guard(io.BytesIO(start.removeprefix(codecs.BOM_UTF8)))):
            if event in START_EVENTS:
                if len(names) > MAX_DEPTH:
                    return found
                names.append("item" if event == "start_array" else "")
            elif event in END_EVENTS:
                names.pop()
            elif event == "map_key":
                if len(names) <= 4:
                    found.setdefault(".".join(names[:-1]), set()).add(value)
                names[-1] = value
    except expected:
        pass
    return found

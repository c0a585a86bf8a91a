"""Edits of JSON text that leave every other byte as it is, comments and trailing commas included."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation.operations.errors import Invalid

STRING = r'"(?:\\.|[^"\\])*"'
COMMENT = re.compile(rf"{STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)  # an unclosed comment ends with the text
TRAILING_COMMA = re.compile(rf"{STRING}|,(?=\s*[}}\]])")
BLANK = re.compile(r"[ \t]*")
SPACE = re.compile(r"\s*")
INDENT = re.compile(r"\n([ \t]+)\S")
DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class JsonMember:
    key: str
    start: int
    value: int
    end: int


def without_comments(text: str) -> str:
    """Replace comments and trailing commas by spaces, so that positions stay the same."""
    text = COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0]), text)
    return TRAILING_COMMA.sub(lambda found: " " if found[0] == "," else found[0], text)


def parse(text: str, *, comments: bool) -> Any:
    """Return the value, {} for an empty text. Raises Invalid with the line and column of a mistake."""
    plain = without_comments(text) if comments else text
    try:
        return json.loads(plain) if plain.strip() else {}
    except json.JSONDecodeError as error:
        raise Invalid(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise Invalid("is nested too deeply") from None


def put(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with `value` at `path`. Missing objects on the way are made."""
    plain = without_comments(text)
    if not plain.strip():
        text = text + ("\n" if text and not text.endswith("\n") else "") + "{}\n"
        plain = without_comments(text)
    start = _skip(plain, 0)
    for depth, key in enumerate(path):
        members, end = _members(plain, start)
        found = next((member for member in members if member.key == key), None)
        if found is None:
            for missing in reversed(path[depth + 1 :]):
                value = {missing: value}
            return _insert(text, plain, start, end, members, key, value)
        if depth + 1 == len(path):
            return text[: found.value] + _render(text, value, _indent_at(text, found.start)) + text[found.end :]
        start = found.value
    raise AssertionError("the path is empty")


def remove(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at `path`, nor the objects and lists above it that would be left empty.

    A position in a list is a key, too: "0" is the first one.
    """
    plain = without_comments(text)
    start = _skip(plain, 0)
    spans = []
    for key in path:
        members, end = _members(plain, start, plain[start] if plain[start] == "[" else "{")
        position = next(index for index, member in enumerate(members) if member.key == key)
        spans.append((start, end, members, position))
        start = members[position].value
    while len(spans) > 1 and len(spans[-1][2]) == 1:
        spans.pop()
    return _cut(text, *spans[-1])


def append(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with `value` at the end of the list at `path`. The list is made if it is missing."""
    plain = without_comments(text)
    start = _skip(plain, 0)
    for key in path:
        members = _members(plain, start)[0] if plain[start : start + 1] == "{" else []
        found = next((member for member in members if member.key == key), None)
        if found is None:
            return put(text, path, [value])
        start = found.value
    members, end = _members(plain, start, "[")
    return _insert(text, plain, start, end, members, None, value)


def _skip(text: str, position: int) -> int:
    found = SPACE.match(text, position)
    return found.end() if found else position


def _members(plain: str, start: int, opening: str = "{") -> tuple[list[JsonMember], int]:
    """Return the members of the object or list that begins at `start`, and the position of its closing bracket."""
    if plain[start] != opening:
        raise Invalid(f"has another value where {'an object' if opening == '{' else 'a list'} is expected")
    members: list[JsonMember] = []
    position = _skip(plain, start + 1)
    while plain[position] not in "}]":
        if opening == "{":
            key, after = DECODER.raw_decode(plain, position)
            value = _skip(plain, _skip(plain, after) + 1)
        else:
            key = str(len(members))
            value = position
        end = DECODER.raw_decode(plain, value)[1]
        members.append(JsonMember(key, position, value, end))
        position = _skip(plain, end)
        if plain[position] == ",":
            position = _skip(plain, position + 1)
    keys = [member.key for member in members]
    if double := next((key for key in keys if keys.count(key) > 1), None):
        raise Invalid(f"has the key {double[:80]!r} twice in one object")
    return members, position


def _insert(text: str, plain: str, start: int, end: int, members: list[JsonMember], key: str | None, value: Any) -> str:
    line = _newline(text)
    outer = _indent_at(text, start)
    if not members:
        inner = outer + _unit(text)
        rest = text[start + 1 : end].rstrip()  # comments stay
        return f"{text[: start + 1]}{rest}{line}{inner}{_named(text, key, value, inner)}{line}{outer}{text[end:]}"
    last = members[-1]
    name = "" if key is None else f"{json.dumps(key)}: "
    if "\n" not in text[start : last.start]:
        return text[: last.end] + f", {name}{json.dumps(value, ensure_ascii=False)}" + text[last.end :]
    inner = _indent_at(text, last.start)
    member = f"{line}{inner}{_named(text, key, value, inner)}"
    comma = _past_comments(text, last.end)
    if text[comma] == ",":
        at = _end_of_line(text, comma + 1)
        return f"{text[:at]}{member},{text[at:]}"
    at = _end_of_line(text, last.end)
    return f"{text[: last.end]},{text[last.end : at]}{member}{text[at:]}"


def _cut(text: str, start: int, end: int, members: list[JsonMember], position: int) -> str:
    member = members[position]
    if len(members) == 1 and not (text[start + 1 : member.start] + text[member.end : end]).strip(" \t\r\n,"):
        return text[: start + 1] + text[end:]
    after = _past_comments(text, member.end)
    follows = text[after] == ","
    rest = text[member.end : after] + text[after + 1 :] if follows else text[member.end :]
    before = len(text[: member.start].rstrip())
    if "\n" in text[before : member.start] and not BLANK.sub("", rest, count=1).startswith(("\n", "\r")):
        before = member.start  # what follows on this line must not get into a comment of the line before
    if follows or position == 0:
        return text[:before] + rest
    comma = _past_comments(text, members[position - 1].end)
    return text[:comma] + text[comma + 1 : max(before, comma + 1)] + rest


def _past_comments(text: str, position: int) -> int:
    """Return the position of the next character that is neither space nor comment."""
    while True:
        position = _skip(text, position)
        comment = text[position : position + 2] in ("//", "/*") and COMMENT.match(text, position)
        if not comment:
            return position
        position = comment.end()


def _end_of_line(text: str, position: int) -> int:
    """Return the end of the comments that follow on the same line, or `position` if something else follows."""
    at = position
    while True:
        found = BLANK.match(text, at)
        at = found.end() if found else at
        if text[at : at + 1] in ("\n", "\r"):
            return at
        comment = text[at : at + 2] in ("//", "/*") and COMMENT.match(text, at)
        if not comment:
            return position
        at = comment.end() - (comment[0].endswith("\r"))


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    found = INDENT.search(text)
    return found[1] if found else "  "


def _indent_at(text: str, position: int) -> str:
    line = text[text.rfind("\n", 0, position) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _named(text: str, key: str | None, value: Any, indent: str) -> str:
    rendered = _render(text, value, indent)
    return rendered if key is None else f"{json.dumps(key)}: {rendered}"


def _render(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (_newline(text) + indent).join(lines)

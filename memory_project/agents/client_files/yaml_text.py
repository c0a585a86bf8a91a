"""Edits of YAML text in block style that leave every other line as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from foundation.operations.errors import Invalid


def parse(text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise Invalid(f"{place}{error.problem}") from None
    except yaml.YAMLError as error:
        raise Invalid(str(error)) from None
    return {} if value is None else value


def put(text: str, path: Sequence[str], value: Any) -> str:
    container, name = path
    line = "\r\n" if "\r\n" in text else "\n"
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found = _member(root, container) if root else None
    if found is None:
        head = text + ("" if text.endswith("\n") or not text else line)
        return head + _render({container: {name: value}}, "", line)
    if existing := _member(found[1], name):
        first_char, last_char = _lines(text, *existing)
        entry = _render({name: value}, " " * existing[0].start_mark.column, line)
        return text[:first_char] + entry + text[last_char:]
    if isinstance(found[1], yaml.MappingNode) and found[1].value:
        if found[1].flow_style:
            raise Invalid(f"has {container!r} on one line, in braces", allowed="one extension per line")
        first = found[1].value[0][0]
        last = found[1].value[-1]
        indent = " " * first.start_mark.column
        at = _lines(text, *last)[1]
    else:
        # nothing, null or {}: a block of lines takes its place
        text = text[: found[1].start_mark.index] + text[found[1].end_mark.index :]
        indent = "  "
        at = text.find("\n", found[0].end_mark.index) + 1 or len(text)
    before = text[:at] + ("" if text[:at].endswith("\n") else line)
    return before + _render({name: value}, indent, line) + text[at:]


def remove(text: str, path: Sequence[str]) -> str:
    container, name = path
    outer = _member(yaml.compose(text, Loader=yaml.SafeLoader), container)
    inner = _member(outer[1], name) if outer else None
    if outer is None or inner is None:
        return text
    start, end = _lines(text, *(outer if len(outer[1].value) == 1 else inner))
    return text[:start] + text[end:]


def _member(node: Any, key: str) -> tuple[Any, Any] | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((name, value) for name, value in node.value if name.value == key), None)


def _lines(text: str, key: Any, value: Any) -> tuple[int, int]:
    """Return the start of the first line of a member and the start of the line after its last one."""
    while isinstance(value, yaml.CollectionNode) and value.value and not value.flow_style:
        last = value.value[-1]
        value = last[1] if isinstance(last, tuple) else last
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    end = value.end_mark.index
    if end and text[end - 1] == "\n":
        return start, end
    return start, text.find("\n", end) + 1 or len(text)


def _render(value: Any, indent: str, line: str) -> str:
    dumped = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)
    return "".join(f"{indent}{part}{line}" for part in dumped.splitlines())

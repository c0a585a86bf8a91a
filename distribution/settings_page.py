"""Write docs/settings.md from memory_project/settings.py: each variable, its default, its bounds and its meaning.

The meaning of a variable is the comment above or beside the line that reads it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "memory_project" / "settings.py"
PAGE = ROOT / "docs" / "settings.md"
SECTION = re.compile(r"# -- (.+?) -+$")
INTRODUCTION = """\
# Settings

Environment variables; [operating.md](operating.md) says when you need them. Commonplace refuses to start with an
invalid value, and the message names the variable and what is allowed. A secret may also be in a file: `NAME_FILE` is
its path.
"""
HEAD = "| variable | default | allowed | meaning |\n|---|---|---|---|\n"


@dataclass(frozen=True)
class Variable:
    section: str
    name: str
    default: str
    allowed: str
    meaning: str


def variables() -> Iterator[Variable]:
    lines = SOURCE.read_text().splitlines()
    for statement in ast.parse("\n".join(lines)).body:
        for call in ast.walk(statement):
            if isinstance(call, ast.Call) and re.fullmatch(r"env\.\w+", ast.unparse(call.func)):
                meaning = _meaning(lines, statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1)
                yield Variable(_section(lines, statement.lineno), *_values(call), meaning)


def page() -> str:
    parts = [INTRODUCTION]
    section = ""
    for variable in variables():
        if variable.section != section:
            section = variable.section
            parts.append(f"\n## {section[0].upper()}{section[1:]}\n\n{HEAD}")
        meaning = re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](\1)", variable.meaning)
        parts.append(f"| `{variable.name}` | {variable.default} | {variable.allowed} | {meaning} |\n")
    return "".join(parts)


def _values(call: ast.Call) -> tuple[str, str, str]:
    """Return the name, the default and what is allowed, as a cell of the table shows them."""
    kind = ast.unparse(call.func).removeprefix("env.")
    values = [_literal(argument) for argument in call.args]
    name = values[0]
    default = values[1] if len(values) > 1 else ""
    bounds = values[2:]
    if kind == "number":
        return name, f"`{default}`", " to ".join(f"{bound:,}".removesuffix(".0") for bound in bounds)
    if kind == "boolean":
        return name, f"`{str(default).lower()}`", "`true`, `false`"
    if isinstance(default, dict):
        default = json.dumps(default)
    shown = f"`{default}`" if default else ""
    return name, shown, ", ".join(f"`{value}`" for choices in bounds for value in choices)


def _literal(argument: ast.expr) -> Any:
    try:
        return ast.literal_eval(argument)
    except ValueError:
        return ""  # an expression, which the meaning describes


def _meaning(lines: list[str], first: int, last: int) -> str:
    if beside := re.search(r"[\)\]]  # (.+)$", lines[last]):
        return beside[1]
    above: list[str] = []
    while lines[first - 1].startswith("# ") and not SECTION.match(lines[first - 1]):
        first -= 1
        above.insert(0, lines[first].removeprefix("# "))
    return " ".join(above)


def _section(lines: list[str], number: int) -> str:
    return next(match[1] for line in reversed(lines[:number]) if (match := SECTION.match(line)))


if __name__ == "__main__":
    PAGE.write_text(page())

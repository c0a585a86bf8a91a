"""SQL statements in files of their own beside the module that sends them.

`ranking.sql` holds the statements of `ranking.py`. A line `-- name: tables` begins the statement, or the part of one,
with that name. Other lines that begin with `--` are comments, which are not sent. A name in braces stands for another
part that the module formats into it. Values are never formatted: they are parameters like `%(words)s`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statements(module_file: str) -> Mapping[str, str]:
    """Return the statements in the .sql file beside a module by name. Raises ValueError if a name stands twice."""
    path = Path(module_file).with_suffix(".sql")
    _, *parts = NAME.split(path.read_text(encoding="utf-8"))
    names = parts[::2]
    texts = parts[1::2]
    if len(set(names)) < len(names):
        raise ValueError(f"{path.name} has two statements of one name: {', '.join(names)}")
    return MappingProxyType({name: _without_comments(text) for name, text in zip(names, texts, strict=True)})


def _without_comments(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("--")).strip()

"""A file of a source, and the limits on what is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

MAX_FILES = 20_000  # files that are read from one source
MAX_LISTED = 500_000  # files of any kind that a source may have
MAX_PATH = 300  # characters
MAX_TEXT = 4 << 20  # bytes of a Markdown file
MAX_PROPERTIES = 1 << 20  # bytes of a YAML file
MAX_MANIFEST = 64 << 20  # bytes of a manifest.json, which takes several times as much memory
MAX_TOTAL = 256 << 20  # bytes of all Markdown and YAML files together
MARKDOWN = (".md", ".markdown")
PROPERTIES = (".yml", ".yaml")
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class SourceFile:
    path: str  # relative to the source, with "/" between folders
    size: int
    open: Callable[[], AbstractContextManager[BinaryIO]]
    problem: str = ""  # why it can't be read, or ""


def is_read(path: str) -> bool:
    """Return whether files with this path are read: Markdown, YAML and dbt's manifest, outside of hidden folders."""
    parts = PurePosixPath(path).parts
    if any(part.startswith(".") or part == "node_modules" for part in parts):
        return False
    return path.lower().endswith((*MARKDOWN, *PROPERTIES)) or parts[-2:] == ("target", MANIFEST) or parts == (MANIFEST,)


def limit_of(path: str) -> int:
    if path.endswith(MANIFEST):
        return MAX_MANIFEST
    return MAX_PROPERTIES if path.lower().endswith(PROPERTIES) else MAX_TEXT


def problem_of(path: str, size: int) -> str:
    if len(path) > MAX_PATH:
        return f"has a path of {len(path)} characters; allowed: at most {MAX_PATH}"
    if not path.isprintable():
        return "has a path with control characters, or one that isn't UTF-8"
    if size > limit_of(path):
        return f"has {size:,} bytes; allowed: at most {limit_of(path):,}"
    return ""

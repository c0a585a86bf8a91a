"""Exports of this program: JSON lines, or a zip file with them (see docs/export.md)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from foundation.operations.errors import Invalid
from memories.portable_kinds import kinds
from memory_project.exchange.imports.formats.archives import Archive, is_archive, members_at_start
from memory_project.exchange.imports.formats.json_lines import JsonLine, read_lines
from memory_project.exchange.imports.rows import ImportedRow

NAME = "commonplace"
VERSION = 1  # the newest version that can be read
LINES = "export.jsonl"
OTHER_FILES = {"readme.txt"}
MEMORY = "memory"
# The kind of the row: “memory” is the kind of a text that is remembered as a new memory.
RESTORED_MEMORY = "restored_memory"
OF = "$of"  # key of a row that names the person whose export it is


def recognizes(start: bytes, name: str) -> bool:
    if is_archive(start):
        return any(path == LINES for path, _ in members_at_start(start))
    line = next(read_lines(io.BytesIO(start)), JsonLine(0))
    return line.value.get("kind") == "export" and line.value.get("format") == NAME


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield the rows of an export. Raises Invalid if it is none, or of a newer version."""
    start = file.read(4)
    file.seek(0)
    if not is_archive(start):
        yield from _rows(read_lines(file))
        return
    archive = Archive(file)
    for member in archive.members:
        if member.path == LINES and not member.problem:
            with archive.open(member) as lines:
                yield from _rows(read_lines(lines))
        elif member.path.lower() not in OTHER_FILES:
            yield ImportedRow(place=member.path, problem=member.problem or f"is no part of an export; allowed: {LINES}")
    if all(member.path != LINES for member in archive.members):
        raise Invalid(f"contains no {LINES}", field="file")


def _rows(lines: Iterator[JsonLine]) -> Iterator[ImportedRow]:
    header = _header(next(lines, JsonLine(0)))
    of = str(header.get("of") or "") if header.get("scope") == "person" else ""
    known = kinds()
    counts = Counter[str]()
    end = None
    for line in lines:
        kind = line.value.get("kind")
        if end is not None:
            yield ImportedRow(place=line.place, problem="follows the last line of the export")
        elif line.problem:
            yield ImportedRow(place=line.place, problem=line.problem)
        elif kind == "end":
            end = line
        elif not isinstance(kind, str) or kind not in known:
            yield ImportedRow(
                place=line.place, problem=f"kind: {str(kind)[:40]!r} is unknown; allowed: {', '.join(known)}"
            )
        else:
            counts[kind] += 1
            yield _row(line, kind, of)
    yield from _missing(end, counts)


def _header(line: JsonLine) -> Mapping[str, Any]:
    header = line.value
    if line.problem or header.get("kind") != "export" or header.get("format") != NAME:
        raise Invalid("does not begin with the first line of an export", field="file")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Invalid(f"{str(version)[:20]!r} is no version", field="version")
    if version > VERSION:
        raise Invalid(
            f"is {version}: the export is from a newer version of Commonplace",
            field="version",
            allowed=f"1 to {VERSION}",
        )
    return header


def _row(line: JsonLine, kind: str, of: str) -> ImportedRow:
    data = {key: value for key, value in line.value.items() if key != "kind"}
    if not isinstance(data.get("id"), str):
        return ImportedRow(place=line.place, problem="id: is missing; allowed: a text")
    if OF in data:
        return ImportedRow(place=line.place, problem=f"{OF}: is unknown")
    if of:
        data[OF] = of
    return ImportedRow(place=line.place, data=data, kind=RESTORED_MEMORY if kind == MEMORY else kind)


def _missing(end: JsonLine | None, counts: Mapping[str, int]) -> Iterator[ImportedRow]:
    """Yield a row with a problem if the export was cut or has lost lines."""
    if end is None:
        yield ImportedRow(place="end", problem="the last line is missing: the file was cut")
        return
    declared = end.value.get("counts")
    if not isinstance(declared, dict):
        yield ImportedRow(place=end.place, problem="counts: is missing")
        return
    for kind in sorted({*declared, *counts}):
        if declared.get(kind, 0) != counts.get(kind, 0):
            found = counts.get(kind, 0)
            written = declared.get(kind, 0)
            yield ImportedRow(
                place=end.place, problem=f"{found} rows of the kind {kind[:40]} were read, {written} were exported"
            )

"""Markdown: one file, or a zip archive of a folder such as an Obsidian vault or this program's own Markdown export.

A file becomes one memory, or several if it is too long. What its front matter says is used or kept as metadata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from foundation.operations.errors import Invalid
from memories.models import Category, Confidence, Dimension, Visibility
from memories.models.validity import VALIDITY_FIELDS
from memory_project.exchange.imports.formats import front_matter, own_export
from memory_project.exchange.imports.formats.archives import Archive, ArchiveMember, is_archive, members_at_start
from memory_project.exchange.imports.formats.chat_exports import service_at_start
from memory_project.exchange.imports.formats.memory_rows import (
    bound_or_none,
    memory_row,
    past_or_none,
    problem_row,
    tagged,
    timestamp_or_none,
)
from memory_project.exchange.imports.formats.sections import split_at_headings
from memory_project.exchange.imports.rows import ImportedRow

EXTENSIONS = (".md", ".markdown")
MAX_FILE = 4 << 20  # bytes
CHOICES = {
    "dimension": Dimension.values, "category": Category.values, "confidence": Confidence.values,
    "visibility": Visibility.values,
}  # fmt: skip
CREATED_KEYS = ("created_at", "created", "date")
KNOWN_KEYS = {*CHOICES, *CREATED_KEYS, *VALIDITY_FIELDS, "entities", "tag", "tags", "title"}
# Lines below an exported memory, in reverse order. They repeat links of its front matter.
LINK_LINES = {"superseded_by": "Corrected by", "supersedes": "Corrects"}

Reader = Callable[[str, str], Iterator[ImportedRow]]  # takes the path and the text of a file


def read(file: BinaryIO, name: str) -> Iterator[ImportedRow]:
    """Yield the memories of a file or an archive. Raises Invalid if it is neither Markdown nor a zip archive."""
    yield from read_files(file, name, rows_of)


def read_files(file: BinaryIO, name: str, rows: Reader) -> Iterator[ImportedRow]:
    """Yield the rows of each Markdown file, and one row with a problem that counts the other files."""
    start = file.read(4)
    file.seek(0)
    if not is_archive(start):
        content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise Invalid("is too large", field="file", allowed=f"at most {MAX_FILE:,} bytes of Markdown in one file")
        yield from rows(name, _decoded(content, "file"))
        return
    archive = Archive(file)
    others = []
    for member in archive.members:
        if is_note(member.path):
            yield from _rows_of_member(archive, member, rows)
        elif not _is_hidden(member.path):
            others.append(member.path)
    if others:
        yield problem_row(name, f"files other than Markdown are left out: {len(others)}, for example {others[0]}")


def is_note(path: str) -> bool:
    return path.lower().endswith(EXTENSIONS) and not _is_hidden(path)


def _is_hidden(path: str) -> bool:
    # Settings and the bin of Obsidian, and the resource forks of macOS
    return any(part == "__MACOSX" or (part.startswith(".") and part != "..") for part in path.split("/"))


def _rows_of_member(archive: Archive, member: ArchiveMember, rows: Reader) -> Iterator[ImportedRow]:
    try:
        yield from rows(member.path, _decoded(archive.read(member, MAX_FILE), member.path))
    except Invalid as error:
        yield problem_row(member.path, error.message.removeprefix(f"{member.path}: "), key=member.path)


def _decoded(content: bytes, field: str) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise Invalid("is not encoded in UTF-8", field=field, allowed="text saved as UTF-8") from None


def rows_of(path: str, text: str) -> Iterator[ImportedRow]:
    """Yield the memories of one Markdown file."""
    values, body = read_note(text)
    if not body.strip():
        yield problem_row(path, "has no text", key=path)
    elif values.keys() >= own_export.KEYS:
        yield _own_row(path, text)
    else:
        content = titled(body, title_of(path, values))
        yield from section_rows(
            path, content, note_fields(values), key=path, first_line=first_line(text, body, content)
        )


def _own_row(path: str, text: str) -> ImportedRow:
    try:
        values, body = front_matter.split(text, typed=True)  # the values are JSON, which YAML contains
    except Invalid as error:
        return problem_row(path, error.message, key=path)
    for name, label in LINK_LINES.items():
        body = body.rstrip().removesuffix(f"{label} {values.get(name)}")
    return own_export.own_row(path, body.strip(), values)


def first_line(text: str, body: str, content: str) -> int:
    """Return the number in the file of the first line of `content`, which may have a title that the body lacks."""
    start = len(text) - len(body.lstrip())
    return text.count("\n", 0, start) + 1 - (content.count("\n") - body.strip().count("\n"))


def section_rows(
    path: str, content: str, data: Mapping[str, Any], *, key: str, first_line: int = 1
) -> Iterator[ImportedRow]:
    """Yield one row, or a row for each section if the content is too long for one memory."""
    parts = split_at_headings(content)
    used: dict[str, int] = {}
    for part in parts:
        part_key = f"{key}#{'/'.join(part.titles)}" if len(parts) > 1 else key
        used[part_key] = number = used.get(part_key, 0) + 1
        place = f"{path}, line {max(part.line + first_line - 1, 1)}" if len(parts) > 1 else path
        yield memory_row(place, {**data, "content": part.content}, key=_numbered(part_key, number))


def _numbered(key: str, number: int) -> str:
    return f"{key[:300]} ({number})" if number > 1 else key


def title_of(path: str, values: Mapping[str, Any]) -> str:
    title = values.get("title")
    return title.strip()[:200] if isinstance(title, str) and title.strip() else PurePosixPath(path).stem


def titled(body: str, title: str) -> str:
    """Return the text with its title as the first line, unless it begins with a heading."""
    body = body.strip()
    has_title = re.match(r"#{1,6}\s", body) or body.split("\n", 1)[0].strip() == title
    return body if has_title or not title or not body else f"# {title}\n\n{body}"


def read_note(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter and the text of a note. Keys that are used here are written in lower case."""
    values, body = front_matter.split_or_keep(text)
    for key in list(values):
        lower = key.lower()
        # Editors of notes take Tags for tags. If a note has both, the other one is kept as metadata.
        if lower in KNOWN_KEYS and lower not in values:
            values[lower] = values.pop(key)
    return values, body


def note_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory that a note's front matter sets. All its other keys are kept as metadata."""
    rest = dict(values)
    data: dict[str, Any] = {}
    for name, choices in CHOICES.items():
        if values.get(name) in choices:  # other programs give these keys other meanings
            data[name] = rest.pop(name)
    for name in ("valid_from", "valid_until"):
        if bound := bound_or_none(values.get(name)):
            data[name] = bound
            del rest[name]
        elif values.get(name) and timestamp_or_none(values[name]) is None:  # 2999-12-31 usually means no end
            rest[front_matter.NOT_READ] = f"{name} {str(values[name])[:40]!r} is not a date"
    if isinstance(values.get("valid_while"), str):
        data["valid_while"] = rest.pop("valid_while")
    entities = rest.pop("entities", None)
    if entities is not None:
        data["entity_urns"] = entities.replace(";", " ").split() if isinstance(entities, str) else entities
    created = next((stamp for key in CREATED_KEYS if (stamp := past_or_none(values.get(key)))), None)
    tags = rest.pop("tags", rest.pop("tag", None))
    if isinstance(tags, str) and "," not in tags:
        tags = tags.split()  # Obsidian's older notation
    metadata = {"front_matter": rest} if rest else {}
    return {**data, "created_at": created, **tagged(tags, metadata)}


def recognizes(start: bytes, name: str) -> bool:
    if is_archive(start):
        paths = [path for path, _ in members_at_start(start)]
        is_vault = any(is_note(path) or path.startswith(".obsidian/") for path in paths)
        # Exports of other kinds may hold notes, too: a README, or files that somebody had uploaded.
        is_export = any(path.endswith("export.jsonl") for path in paths) or service_at_start(start) != ""
        return is_vault and not is_export and not has_permalinks(start, name)
    return is_note(name) and not has_permalinks(start, name)


def has_permalinks(start: bytes, name: str) -> bool:
    """Return whether there is a note of basic-memory at the start of a file or an archive."""
    notes = members_at_start(start) if is_archive(start) else [(name, start)]
    for path, content in notes:
        if is_note(path):
            try:
                values, _ = front_matter.split(content.decode("utf-8", "replace").replace("\r\n", "\n"))
            except Invalid:
                continue
            if values.keys() >= {"title", "type", "permalink"}:
                return True
    return False

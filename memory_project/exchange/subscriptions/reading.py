"""The texts of a source: each file's memories, as fields of the operation Remember."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from foundation.operations.errors import Invalid, LimitReached
from memories.operations import Remember
from memory_project.exchange.imports.formats import markdown
from memory_project.exchange.imports.rows import ImportedRow
from memory_project.exchange.subscriptions import dbt
from memory_project.exchange.subscriptions.entities import usable_urns
from memory_project.exchange.subscriptions.files import (
    MANIFEST,
    MARKDOWN,
    MAX_FILES,
    MAX_TOTAL,
    PROPERTIES,
    SourceFile,
    limit_of,
)

MAX_KEY = 380  # characters
# Fields of a memory that follow the source as long as no person changes them. The text follows it, too.
FOLLOWED = (
    "dimension", "category", "confidence", "summary", "entity_urns", "related_columns", "tags",
)  # fmt: skip
TAKEN = ("content", "metadata", "source", *FOLLOWED)
# Empty values of these fields don't replace others, because names of entities may be unknown for a while.
STAY_IF_UNKNOWN = ("entity_urns", "related_columns")


@dataclass(frozen=True)
class SourceText:
    """One text of a source. `fields` is empty if `problem` says why it can't be taken over."""

    path: str
    key: str
    number: int  # position within the file
    file_digest: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    place: str = ""  # for reports

    @property
    def text_digest(self) -> str:
        return digest(self.fields.get("content", ""))

    def field_digests(self) -> dict[str, str]:
        return {name: digest(self.fields[name]) for name in FOLLOWED if name in self.fields}


def digest(value: Any) -> str:
    data = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(data.encode()).hexdigest()


def texts(files: Iterable[SourceFile]) -> list[SourceText]:
    """Read all files. Problems of a file become texts with a problem. Raises LimitReached if there is too much.

    If there is a manifest of dbt, property files are left out, because it has the same descriptions.
    """
    found: list[SourceText] = []
    total = 0
    has_manifest = False
    for count, file in enumerate(files, 1):
        if count > MAX_FILES:
            raise LimitReached(f"The source has more than {MAX_FILES:,} files; allowed: a subfolder with fewer files")
        of_file, size = _texts_of_file(file)
        found += of_file
        if file.path.endswith(MANIFEST):
            has_manifest = has_manifest or any(not text.problem for text in of_file)
        else:
            total += size
        if total > MAX_TOTAL:
            raise LimitReached(f"The source has more than {MAX_TOTAL >> 20} MB of texts; allowed: a smaller subfolder")
    if has_manifest:
        found = [text for text in found if text.problem or not text.path.lower().endswith(PROPERTIES)]
    return list(_with_unique_keys(found))


def _texts_of_file(file: SourceFile) -> tuple[list[SourceText], int]:
    if file.problem:
        return [_unread(file, file.problem)], 0
    try:
        with file.open() as stream:
            content = stream.read(limit_of(file.path) + 1)  # it may have grown since it was listed
    except OSError as error:
        return [_unread(file, error.strerror or "can't be read")], 0
    file_digest = hashlib.sha256(content).hexdigest()
    if len(content) > limit_of(file.path):
        return [_unread(file, f"has more than {limit_of(file.path):,} bytes")], len(content)
    rows = enumerate(_rows(file.path, content))
    return [_text(file.path, number, file_digest, row) for number, row in rows], len(content)


def _unread(file: SourceFile, problem: str) -> SourceText:
    return SourceText(file.path, file.path, 0, "", problem=problem, place=file.path)


def _rows(path: str, content: bytes) -> Iterator[ImportedRow]:
    if path.endswith(MANIFEST):
        yield from dbt.manifest_rows(path, content)
        return
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        yield ImportedRow(path, problem="is not encoded in UTF-8; allowed: text saved as UTF-8", key=path)
        return
    if "\0" in text:
        yield ImportedRow(path, problem="is not a text file", key=path)
    elif path.lower().endswith(PROPERTIES):
        yield from dbt.property_rows(path, text)
    elif text.strip():
        yield from markdown.rows_of(path, text)


def _text(path: str, number: int, file_digest: str, row: ImportedRow) -> SourceText:
    key = _key(path, row.key or path)
    place = row.place if path.lower().endswith(MARKDOWN) else row.key or path
    if row.problem or row.kind != "memory":
        problem = row.problem or f"is a {row.kind}, not a memory"
        return SourceText(path, key, number, file_digest, problem=problem, place=place)
    data = {name: value for name, value in row.data.items() if name in Remember.model_fields and name != "check"}
    data.pop("visibility", None)  # the subscription decides who reads its memories, not the file
    names = data.get("entity_urns", [])
    urns, notes = usable_urns(names) if _are_texts(names) else ([], ["entities is not a list of names"])
    metadata = dict(data.get("metadata") or {})
    if notes:
        metadata["entity_note"] = "; ".join(notes)[:1_000]
    data |= {"entity_urns": urns, "metadata": metadata, "source": "automation"}
    try:
        operation = Remember.read(data)
    except Invalid as error:
        return SourceText(path, key, number, file_digest, problem=error.message, place=place)
    fields = operation.values(*TAKEN)
    return SourceText(path, key, number, file_digest, fields, place=place)


def _key(path: str, key: str) -> str:
    """Return the key with a digest instead of headings, because items hold no text of a memory."""
    is_section = path.lower().endswith(MARKDOWN) and key.startswith(f"{path}#")
    return f"{path}#{digest(key)[:20]}" if is_section else key


def _are_texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _with_unique_keys(found: Iterable[SourceText]) -> Iterator[SourceText]:
    used: dict[str, int] = {}
    for text in found:
        key = text.key[:MAX_KEY]
        used[key] = number = used.get(key, 0) + 1
        yield replace(text, key=f"{key} [{number}]" if number > 1 else key)

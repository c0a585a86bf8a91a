"""The files of exports, in a folder for each owner below COMMONPLACE_FILES.

Beside each file is a list of the ids of the memories in it, so that an erasure finds the files of an erased memory in
every format.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from uuid import UUID

from memories.portability import Values
from memory_project.exchange.exports.formats import export_format
from memory_project.exchange.exports.models import Export
from memory_project.operating.shared import shared_files

MEMORY_KEYS = ("record_id", "target_id", "insight_id")  # keys that name the memory that a row belongs to
IDS, DRAFT = ".ids", ".draft"
UNKNOWN_AFTER_S = 3_600  # age from which a file without a row is deleted


def folder() -> Path:
    return shared_files.folder("exports")


def folder_of(email: str) -> Path:
    return folder() / hashlib.sha256(email.encode()).hexdigest()[:32]


def path_of(export: Export) -> Path:
    return folder_of(export.created_by) / f"{export.pk.hex}.{export_format(export.format).extension}"


@contextmanager
def draft(export: Export) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Yield the file to write, and the file for ids of memories. They replace the export's files if all goes well."""
    path = path_of(export)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    names = [path.with_name(path.name + DRAFT), path.with_name(path.name + IDS + DRAFT)]
    try:
        with _create(names[0]) as out, _create(names[1]) as ids:
            yield out, ids
        os.replace(names[1], path.with_name(path.name + IDS))
        os.replace(names[0], path)
    finally:
        for name in names:
            name.unlink(missing_ok=True)


def _create(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def noting(rows: Iterator[Values], ids: IO[bytes]) -> Iterator[Values]:
    """Yield the rows, and write down the ids of the memories that they contain or belong to."""
    for row in rows:
        if row["kind"] == "memory":
            ids.write(bytes.fromhex(row["id"]))
        for key in MEMORY_KEYS:
            if row.get(key):
                ids.write(bytes.fromhex(row[key]))
        yield row


def contains(export: Export, record_id: UUID) -> bool:
    """Return whether the file contains the memory, or may contain it, because it is on another machine."""
    path = path_of(export)
    ids = path.with_name(path.name + IDS)
    if not ids.exists():
        return True
    if not ids.stat().st_size:
        return False
    with ids.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(record_id.bytes) >= 0


def delete(export: Export) -> None:
    path = path_of(export)
    for name in (path, path.with_name(path.name + IDS)):
        name.unlink(missing_ok=True)


def delete_folder(email: str) -> None:
    shutil.rmtree(folder_of(email), ignore_errors=True)


def delete_unknown(known: Collection[UUID]) -> None:
    """Delete files that no export has, which a crash or a deletion on another machine has left behind."""
    names = {pk.hex for pk in known}
    for path in folder().glob("*/*"):
        if path.name.partition(".")[0] not in names and path.stat().st_mtime < time.time() - UNKNOWN_AFTER_S:
            path.unlink(missing_ok=True)

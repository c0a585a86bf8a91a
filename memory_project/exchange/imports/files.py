"""Files of imports: the uploaded one, and the rows that were parsed from it. Both go with the import."""

from __future__ import annotations

import re
import time
from pathlib import Path
from uuid import UUID

from memory_project.exchange.imports.models import Import
from memory_project.operating.shared import shared_files

UNKNOWN_AFTER_S = 3_600  # age in seconds from which a file without an import is deleted
NAME = re.compile(r"([0-9a-f]{32})(?:\..*)?")


def folder() -> Path:
    return shared_files.folder("imports")


def path_of(staged: Import) -> Path:
    return folder() / staged.pk.hex


def parsed_path_of(staged: Import) -> Path:
    return folder() / f"{staged.pk.hex}.rows"


def delete(import_id: UUID) -> None:
    """Delete the files of an import, also those that a killed worker has written in part."""
    for path in folder().glob(f"{import_id.hex}*"):
        path.unlink(missing_ok=True)


def delete_unknown() -> int:
    """Delete files whose import is gone, such as after a crash, and return how many. Called by a worker.

    A younger file may belong to an upload whose transaction is not committed yet.
    """
    before = time.time() - UNKNOWN_AFTER_S
    old = [path for path in folder().glob("*") if path.stat().st_mtime < before]
    import_of = {path: match[1] for path in old if (match := NAME.fullmatch(path.name))}
    known = {pk.hex for pk in Import.objects.filter(pk__in=import_of.values()).values_list("pk", flat=True)}
    unknown = [path for path in old if import_of.get(path) not in known]
    for path in unknown:
        path.unlink(missing_ok=True)
    return len(unknown)

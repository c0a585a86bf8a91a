"""The lists of memories that were erased after a backup.

The database knows all backups and all erased memories. Erasing appends to the lists of the backups that this machine
can reach. For the others, a worker of their machine does so when it next runs `update_lists`.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction

from memory_project.operating.backups import archive
from memory_project.operating.backups.models import WRITTEN, Backup, ErasedMemory
from memory_project.operating.backups.programs import BackupFailed

log = logging.getLogger(__name__)

# name of a file in COMMONPLACE_HOME in which earlier versions kept the paths of all backups
REGISTRY = "backups"
# A transaction that began before a backup may have erased a memory that the backup still contains. Listing ids that the
# backup does not contain does no harm.
LONGEST_TRANSACTION = timedelta(hours=1)


def record_erased(record_id: UUID) -> None:
    rows = [ErasedMemory(record_id=record_id)]
    ErasedMemory.objects.bulk_create(rows, update_conflicts=True, unique_fields=["record_id"], update_fields=["at"])


def list_beside(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.erased")


def erased_since(backup: Path) -> list[UUID]:
    """Return the ids listed in FILE.erased. Raises BackupFailed if the file is malformed."""
    file = list_beside(backup)
    try:
        return [UUID(line) for line in file.read_text().split()] if file.exists() else []
    except ValueError:
        raise BackupFailed(f"{file} is not a list of erased memories: each line must be a memory id") from None


def append_to_lists(record_id: UUID) -> None:
    """Add a memory's id to FILE.erased of each backup FILE that this machine can reach.

    A failure to write a list is logged and not raised: `update_lists` tries again.
    """
    adopt_earlier()
    for path in Backup.objects.filter(WRITTEN).values_list("path", flat=True):
        if Path(path).exists():
            _try_to_append(Path(path), [record_id])


def update_lists() -> int:
    """Complete the lists of the backups that this machine can reach. Returns how many lists were incomplete.

    A file may have been moved and another one may have taken its path, so the id in each file is compared.
    """
    adopt_earlier()
    completed = 0
    for backup in Backup.objects.filter(WRITTEN):
        if not is_at_its_path(backup):
            continue
        Backup.objects.filter(pk=backup.pk).update(seen_at=datetime.now(UTC))
        completed += bool(complete_list(Path(backup.path), backup.created_at))
    return completed


def complete_list(file: Path, created_at: datetime) -> int:
    """Add what is missing to the list of a backup. Returns the number of ids that were missing."""
    since = created_at - LONGEST_TRANSACTION
    erased = ErasedMemory.objects.filter(at__gte=since).order_by("at").values_list("record_id", flat=True)
    try:
        known = set(erased_since(file))
    except BackupFailed as error:  # a kill may have left half a line, and `restore` must not meet it first
        log.error("%s", error)
        return 0
    missing = [record_id for record_id in erased if record_id not in known]
    return len(missing) if missing and _try_to_append(file, missing) else 0


def is_at_its_path(backup: Backup) -> bool:
    file = Path(backup.path)
    if not file.exists():
        return False
    try:
        manifest = archive.read_manifest(file)
    except BackupFailed:
        return False
    return archive.id_of(manifest) in (backup.pk, None)


def adopt_earlier() -> None:
    """List the backups of earlier versions, which a file in the home names, in the database."""
    registry = settings.COMMONPLACE_HOME / REGISTRY
    if not registry.is_file():
        return
    for line in registry.read_text().splitlines():
        if Path(line).exists():
            list_file(Path(line))
    registry.rename(registry.with_name(f"{REGISTRY}.adopted"))


def list_file(file: Path) -> None:
    """List a backup that this database does not know: of an earlier version, or the one that was just restored."""
    try:
        manifest = archive.read_manifest(file)
        created_at = archive.time_of(manifest)
    except BackupFailed as error:
        log.error("%s could not be listed among the backups: %s", file, error)
        return
    with transaction.atomic():
        known = {"path": str(file.absolute()), "host": socket.gethostname(), "created_at": created_at}
        known |= {"size": file.stat().st_size, "seen_at": datetime.now(UTC)}
        Backup.objects.update_or_create(pk=archive.id_of(manifest) or uuid4(), defaults=known)


def _try_to_append(backup: Path, record_ids: Iterable[UUID]) -> bool:
    try:
        append(list_beside(backup), "".join(f"{record_id.hex}\n" for record_id in record_ids))
    except OSError as error:
        log.error("the list of erased memories of the backup %s could not be written: %s", backup, error)
        return False
    return True


def append(file: Path, text: str) -> None:
    """Append a text to a file of mode 0600 and wait until it is on the disk."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a") as handle:
        handle.write(text)
        handle.flush()
        os.fsync(handle.fileno())

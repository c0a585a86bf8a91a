"""Scheduled backups: one each day in BACKUP_FOLDER, of which the last BACKUP_KEEP are kept."""

from __future__ import annotations

import logging
import socket
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import locks
from foundation.operations.errors import Conflict
from memory_project.operating.backups import alert, archive, erased, folders, verification
from memory_project.operating.backups.models import WRITTEN, Backup
from memory_project.operating.backups.programs import BackupFailed

log = logging.getLogger(__name__)

LOCK = UUID(int=1)
RETRY_AFTER = timedelta(hours=1)  # after a failed attempt
MAILED_EVERY = timedelta(hours=23)


def run_if_due() -> str:
    """Write the backup of the day if this machine has BACKUP_FOLDER, and delete what is older than BACKUP_KEEP.

    Only one machine at a time does it. A failure is listed, mailed to admins, and tried again after an hour.
    """
    folders.remove_leftovers([Path(settings.BACKUP_FOLDER)] if settings.BACKUP_FOLDER else [])
    if not settings.BACKUP_FOLDER:
        return "BACKUP_FOLDER is not set on this machine"
    try:
        with locks.exclusive("backup", LOCK, Conflict(gettext("another process is at work"))):
            if not is_due(timezone.now()):
                return "not due"
            return _run()
    except Conflict as error:
        return error.message


def is_due(now: datetime) -> bool:
    """Return whether no backup has been written since BACKUP_AT, and no attempt has failed within RETRY_AFTER."""
    local = timezone.localtime(now)
    slot = local.replace(hour=settings.BACKUP_AT, minute=0, second=0, microsecond=0)
    if slot > local:
        slot -= timedelta(days=1)
    scheduled = Backup.objects.filter(is_scheduled=True)
    has_failed = scheduled.exclude(problem="").filter(created_at__gt=now - RETRY_AFTER).exists()
    return not has_failed and not scheduled.filter(problem="", created_at__gte=slot).exists()


def _run() -> str:
    folder = Path(settings.BACKUP_FOLDER)
    file = folder / f"commonplace-{timezone.now():%Y-%m-%dT%H%M%SZ}.backup"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        backup = archive.write(file, is_scheduled=True)
        erased.complete_list(file, backup.created_at)
        removed = rotate()
    except (BackupFailed, OSError) as error:
        problem = str(error)[:500]
        failed = Backup.objects.filter(is_scheduled=True, created_at__gt=timezone.now() - MAILED_EVERY)
        if not failed.exclude(problem="").exists():
            alert.mail_failure(str(file), problem)
        Backup.objects.create(path=str(file), host=socket.gethostname(), is_scheduled=True, problem=problem)
        log.error("the scheduled backup failed: %s", problem)
        return f"failed: {problem}"
    return f"{file.name} written, {removed} deleted{_verify_if_due(backup)}"


def rotate() -> int:
    """Delete the scheduled backups in BACKUP_FOLDER but the last BACKUP_KEEP. Returns how many were deleted.

    Backups that were written by hand stay.
    """
    folder = Path(settings.BACKUP_FOLDER)
    here = [
        backup for backup in Backup.objects.filter(WRITTEN, is_scheduled=True) if Path(backup.path).parent == folder
    ]
    removed = 0
    for backup in here[settings.BACKUP_KEEP :]:
        if erased.is_at_its_path(backup):
            Path(backup.path).unlink(missing_ok=True)
            erased.list_beside(Path(backup.path)).unlink(missing_ok=True)
            removed += 1
        Backup.objects.filter(pk=backup.pk).update(deleted_at=timezone.now())
    return removed


def _verify_if_due(backup: Backup) -> str:
    """Restore the new backup for a trial, unless one has been verified within BACKUP_VERIFY_DAYS."""
    limit = timezone.now() - timedelta(days=settings.BACKUP_VERIFY_DAYS)
    if not settings.BACKUP_VERIFY_DAYS or Backup.objects.filter(verified_at__gt=limit).exists():
        return ""
    try:
        verification.verify(Path(backup.path))
    except BackupFailed as error:
        alert.mail_failure(backup.path, str(error))
        log.error("%s", error)
        return f"; {error}"
    return ", verified"

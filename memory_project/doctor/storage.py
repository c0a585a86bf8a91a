"""Checks of disks and backups on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.translation import gettext_noop

from memory_project import backups
from memory_project.doctor.findings import Finding, Text, ok, problem, text, unknown, warning
from memory_project.postgres.server import EmbeddedPostgres

LOW_SHARE, LOW_BYTES = 0.10, 2 * 1024**3  # little is left if both are undercut
FULL_BYTES = 300 * 1024**2
OLD_BACKUP_DAYS = 8


def data_disk() -> Finding:
    folder = settings.COMMONPLACE_HOME if settings.DATABASE_URL else EmbeddedPostgres(settings.COMMONPLACE_HOME).data
    return _disk(folder)


def backup_disk() -> Finding:
    folders = {file.parent for file in backups.list_backups() if file.parent.is_dir()}
    if not folders:
        return unknown(gettext_noop("no folder of backups is known on this machine"))
    return max((_disk(folder) for folder in sorted(folders)), key=lambda finding: finding.state != "ok")


def _disk(folder: Path) -> Finding:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        disk = shutil.disk_usage(existing)
    except OSError as error:
        return unknown(
            gettext_noop("%(folder)s could not be looked at: %(error)s"), folder=str(folder), error=str(error)
        )
    values = {"free": _size(disk.free), "all": _size(disk.total), "folder": str(folder)}
    fix = text(gettext_noop("Free space, or move the folder to a larger disk. Old backups and exports may go first."))
    message = gettext_noop("%(free)s of %(all)s are free for %(folder)s")
    if disk.free < FULL_BYTES:
        return problem(text(message, **values), fix)
    if disk.free < LOW_BYTES and disk.free < LOW_SHARE * disk.total:
        return warning(text(message, **values), fix)
    return ok(message, **values)


def _size(count: int) -> str:
    return str(filesizeformat(count)).replace("\xa0", " ")


def last_backup() -> Finding:
    how = Text(gettext_noop("Run the command `backup FILE` each night, and keep the files on another machine."))
    written = [file.stat().st_mtime for file in backups.list_backups() if file.exists()]
    if not written:
        return warning(text(gettext_noop("this machine knows of no backup")), how)
    days = round((timezone.now().timestamp() - max(written)) / 86_400)
    message = gettext_noop("the latest backup is %(days)s days old")
    return warning(text(message, days=days), how) if days > OLD_BACKUP_DAYS else ok(message, days=days)


def restore_test() -> Finding:
    """Report the last trial restore of a backup. Trial restores are not recorded yet."""
    return unknown(gettext_noop("no trial restore is recorded: restore a backup into an empty home now and then"))

"""Checks of disks and backups on this machine."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils import timezone
from django.utils.translation import gettext_noop

from memory_project.operating.backups import state as backup_state
from memory_project.operating.backups.models import WRITTEN, Backup
from memory_project.operating.doctor.findings import FindingText, HealthFinding, ok, problem, text, unknown, warning
from memory_project.operating.postgres.server import EmbeddedPostgres

LOW_SHARE, LOW_BYTES = 0.10, 2 * 1024**3  # little is left if both are undercut
FULL_BYTES = 300 * 1024**2
OLD_BACKUP_DAYS = 8
OLD_TRIAL_DAYS = 40


def data_disk() -> HealthFinding:
    folder = settings.COMMONPLACE_HOME if settings.DATABASE_URL else EmbeddedPostgres(settings.COMMONPLACE_HOME).data
    return _disk(folder)


def backup_disk() -> HealthFinding:
    here = Backup.objects.filter(WRITTEN, host=socket.gethostname()).values_list("path", flat=True)
    named = [Path(settings.BACKUP_FOLDER)] if settings.BACKUP_FOLDER else []
    folders = {folder for folder in [*named, *(Path(path).parent for path in here)] if folder.is_dir()}
    if not folders:
        return unknown(gettext_noop("no folder of backups is known on this machine"))
    return max((_disk(folder) for folder in sorted(folders)), key=lambda finding: finding.state != "ok")


def _disk(folder: Path) -> HealthFinding:
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


def last_backup() -> HealthFinding:
    found = backup_state.state()
    how = FindingText(
        gettext_noop("Set BACKUP_FOLDER, or run the command `backup FILE` each night; keep copies elsewhere.")
    )
    if found.state != "ok":
        report = problem if found.state == "failed" else warning
        return report(text(gettext_noop("%(detail)s"), detail=found.detail), how)
    days = round((timezone.now() - Backup.objects.filter(WRITTEN)[0].created_at).total_seconds() / 86_400)
    message = gettext_noop("the latest backup is %(days)s days old")
    return warning(text(message, days=days), how) if days > OLD_BACKUP_DAYS else ok(message, days=days)


def restore_test() -> HealthFinding:
    """Report the last trial restore of a backup."""
    how = text(gettext_noop("Run the command `backup --verify FILE`, which restores a backup into a scratch database."))
    verified = Backup.objects.filter(verified_at__isnull=False).order_by("-verified_at").first()
    if verified is None or verified.verified_at is None:
        return unknown(gettext_noop("no trial restore is recorded: run the command `backup --verify FILE`"))
    if verified.verification_problem:
        values = {"path": verified.path, "problem": verified.verification_problem}
        return problem(text(gettext_noop("%(path)s can't be restored: %(problem)s"), **values), how)
    days = round((timezone.now() - verified.verified_at).total_seconds() / 86_400)
    message = gettext_noop("the last trial restore succeeded %(days)s days ago")
    return warning(text(message, days=days), how) if days > OLD_TRIAL_DAYS else ok(message, days=days)

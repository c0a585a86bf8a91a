"""Checks of disks and backups on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext_noop

from memory_project.operating.doctor import machine_facts
from memory_project.operating.doctor.findings import FindingState, HealthFinding, ok, problem, text, unknown, warning
from memory_project.operating.doctor.registry import Reads, health_check
from memory_project.operating.doctor.table_facts import TableFacts

LOW_SHARE, LOW_BYTES = 0.10, 2 * 1024**3  # little is left if both are undercut
FULL_BYTES = 300 * 1024**2
DAY_S = 86_400
LATE_S = 36 * 3_600  # age from which a backup of each night is missing
OLD_BACKUP_S = 8 * DAY_S
OLD_TRIAL_DAYS = 40
MIN_READINGS = 12
WATCHED_DAYS, SOON_DAYS = 30, 3  # days until the disk is full


@health_check("storage", gettext_noop("Disk of the data"), Reads.SETTINGS)
def data_disk() -> HealthFinding:
    return _disk(machine_facts.data_folder())


@health_check("storage", gettext_noop("Growth of the data"), Reads.TABLES)
def growth(tables: TableFacts) -> HealthFinding:
    """Say when the disk of the data will be full if it goes on filling as it did in the last week."""
    readings = tables.disk_readings
    if len(readings) < MIN_READINGS or readings[-1][0] - readings[0][0] < DAY_S:
        return unknown(gettext_noop("a worker notes the free space every hour; a day of it is needed"))
    lost_a_day = -machine_facts.slope(readings) * DAY_S
    free = readings[-1][1]
    days = round(free / lost_a_day) if lost_a_day > 0 else None
    if days is None or days > WATCHED_DAYS:
        return ok(gettext_noop("at the rate of the last days, the disk of the data lasts for more than a month"))
    found = text(
        gettext_noop("the disk of the data loses %(size)s a day: it is full in %(days)s days"),
        size=_size(round(lost_a_day)),
        days=days,
    )
    fix = text(gettext_noop("Find out what grows (`doctor` and the page System), or move the folder to a larger disk."))
    return problem(found, fix) if days <= SOON_DAYS else warning(found, fix)


@health_check("storage", gettext_noop("Disk of the backups"), Reads.TABLES)
def backup_disk(tables: TableFacts) -> HealthFinding:
    named = [Path(settings.BACKUP_FOLDER)] if settings.BACKUP_FOLDER else []
    folders = {folder for folder in [*named, *(Path(path).parent for path in tables.backups_here)] if folder.is_dir()}
    if not folders:
        return unknown(gettext_noop("no folder of backups is known on this machine"))
    return max((_disk(folder) for folder in sorted(folders)), key=lambda finding: finding.state != "ok")


def _disk(folder: Path) -> HealthFinding:
    try:
        disk = shutil.disk_usage(machine_facts.existing_part(folder))
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


@health_check("storage", gettext_noop("Latest backup"), Reads.TABLES)
def last_backup(tables: TableFacts) -> HealthFinding:
    how = text(gettext_noop("Set BACKUP_FOLDER, or run the command `backup FILE` each night; keep copies elsewhere."))
    if tables.backup_problem:
        found = text(gettext_noop("the last backup failed: %(problem)s"), problem=tables.backup_problem)
        return problem(found, how)
    if tables.backup_age_s is None:
        return warning(text(gettext_noop("there is no backup yet")), how)
    found = text(gettext_noop("the latest backup is %(days)s days old"), days=round(tables.backup_age_s / DAY_S))
    is_late = tables.backup_age_s > (LATE_S if settings.BACKUP_FOLDER else OLD_BACKUP_S)
    return warning(found, how) if is_late else HealthFinding(FindingState.OK, found)


@health_check("storage", gettext_noop("Trial restore"), Reads.TABLES)
def restore_test(tables: TableFacts) -> HealthFinding:
    """Report the last trial restore of a backup."""
    how = text(gettext_noop("Run the command `backup --verify FILE`, which restores a backup into a scratch database."))
    if tables.trial_age_s is None:
        return unknown(gettext_noop("no trial restore is recorded: run the command `backup --verify FILE`"))
    if tables.trial_problem:
        values = {"path": tables.tried_backup, "problem": tables.trial_problem}
        return problem(text(gettext_noop("%(path)s can't be restored: %(problem)s"), **values), how)
    days = round(tables.trial_age_s / DAY_S)
    message = gettext_noop("the last trial restore succeeded %(days)s days ago")
    return warning(text(message, days=days), how) if days > OLD_TRIAL_DAYS else ok(message, days=days)

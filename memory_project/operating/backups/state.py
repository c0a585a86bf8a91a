"""The state of the backups, for the System page and other reports to operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from memory_project.operating.backups.models import WRITTEN, Backup

LATE = timedelta(hours=36)  # age of the latest backup from which a daily backup is missing


@dataclass(frozen=True)
class BackupState:
    state: Literal["ok", "stale", "failed"]
    detail: str


def state() -> BackupState:
    """Return whether there is a recent backup, and what is wrong with the latest ones."""
    newest = Backup.objects.filter(WRITTEN).first()
    attempt = Backup.objects.filter(is_scheduled=True).first()
    if attempt is not None and attempt.problem:
        return BackupState("failed", gettext("the last one failed: %(problem)s") % {"problem": attempt.problem})
    if newest is None:
        return BackupState("stale", gettext("none yet; create one with manage.py backup"))
    verified = Backup.objects.filter(verified_at__isnull=False).order_by("-verified_at").first()
    if verified is not None and verified.verification_problem:
        problem = {"path": verified.path, "problem": verified.verification_problem}
        return BackupState("failed", gettext("%(path)s can't be restored: %(problem)s") % problem)
    age = timezone.now() - newest.created_at
    days = round(age / timedelta(days=1))
    text = ngettext("the latest is %(n)s day old", "the latest is %(n)s days old", days) % {"n": days}
    return BackupState("stale" if settings.BACKUP_FOLDER and age > LATE else "ok", text)

from __future__ import annotations

from django.utils.translation import gettext

from memory_project.accounts import mail
from memory_project.models import User


def mail_failure(file: str, problem: str) -> int:
    """Mail the admins that a backup failed. Returns the number of mails that were sent."""
    admins = User.objects.filter(is_active=True, is_superuser=True).order_by("pk")
    sent = 0
    for person in admins:
        with mail.in_language_of(person):
            context = {"person": person, "file": file, "problem": problem}
            sent += mail.send([person.email], gettext("A backup failed"), "mail/backup_failed.txt", context)
    return sent

"""Mails about notifications, for people who want some kinds by mail.

Unread notifications of one kind and sender that are due together make one mail. It does not quote the memories, because
the recipient may lose access to them later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.db import transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext

from foundation.people.caller import Caller
from knowledge.models import InsightState
from memories.models import MemoryRecord, Status
from memory_project.accounts import mail
from memory_project.models import Notification
from memory_project.notifications.kinds import sentence
from memory_project.notifications.lists import Notice, entries_for

RETRY = timedelta(minutes=10)  # after a mail that the SMTP server did not accept
GIVE_UP = timedelta(days=1)


def send_due() -> str:
    """Send the mails that are due. A mail that can't be sent is tried again for a day."""
    if not mail.is_configured():
        return "off"
    due = Notification.objects.filter(mail_at__lte=timezone.now()).order_by()
    groups = list(due.values_list("person_id", "kind", "by").distinct())
    return f"{sum(_send(_claim(*group)) for group in groups)} sent"


def mail_one(notice_id: int) -> bool:
    """Mail a notification. Returns whether it was sent."""
    return _send(list(Notification.objects.filter(pk=notice_id, read_at=None, mailed_at=None)))


def _claim(person_id: int, kind: str, by: str) -> list[Notification]:
    """Return a person's notifications of one kind and sender that are to be mailed, so that no other worker does."""
    group = Notification.objects.filter(person_id=person_id, kind=kind, by=by, mail_at__isnull=False)
    now = timezone.now()
    with transaction.atomic():
        rows = list(group.select_for_update(skip_locked=True, of=("self",)).order_by("-at", "-pk"))
        if not any(row.mail_at and row.mail_at <= now for row in rows):
            return []  # another worker has just claimed them
        # If this process dies before the mail is sent, it becomes due again.
        Notification.objects.filter(pk__in=[row.pk for row in rows]).update(mail_at=now + RETRY)
    return rows


def _send(rows: Sequence[Notification]) -> bool:
    """Mail notifications of one kind, sender and person. Returns whether the mail was sent.

    Nothing is sent about notifications that the recipient has read in the meantime, whose memory they may no longer
    read or its owner has forgotten, or if the recipient has turned off mails of their kind.
    """
    if not rows:
        return False
    these = Notification.objects.filter(pk__in=[row.pk for row in rows])
    recipient = mail.load_recipient(rows[0].person_id)
    if recipient is None or recipient[0].notify.get(rows[0].kind) != "mail":
        these.update(mail_at=None)
        return False
    person, caller = recipient
    entries = _worth_mailing(caller, [row for row in rows if row.read_at is None])
    if not entries:
        these.update(mail_at=None)
        return False
    with mail.in_language_of(person):
        text = sentence(entries[0].kind, entries[0].by, len(entries))
        link = entries[0].link if len(entries) == 1 else reverse("news-group", args=[max(e.pk for e in entries)])
        subject = gettext("Commonplace: %(text)s") % {"text": text}
        context = {"text": text, "link": link, "person": person}
        is_sent = mail.send([person.email], subject, "mail/notice.txt", context)
    if is_sent:
        these.update(mail_at=None, mailed_at=timezone.now())
    else:
        these.filter(at__lt=timezone.now() - GIVE_UP).update(mail_at=None)
    return is_sent


def _worth_mailing(caller: Caller, rows: Sequence[Notification]) -> list[Notice]:
    ids = [row.record_id for row in rows]
    archived = MemoryRecord.objects.filter(pk__in=ids, status=Status.ARCHIVED).exclude(created_by=caller.email)
    # A rejected insight is archived, but not forgotten.
    forgotten = set(archived.exclude(insight__state=InsightState.REJECTED).values_list("pk", flat=True))
    return [
        entry for entry in entries_for(caller, [row for row in rows if row.record_id not in forgotten]) if entry.link
    ]

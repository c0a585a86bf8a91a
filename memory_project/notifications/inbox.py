"""Notifications of a person, listed under the bell in the portal.

A notification stores no text. The memory or insight is read when the notification is shown, with the permissions that
the person has then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django_q.tasks import async_task

from knowledge.models import Insight, InsightState
from memories.contract.errors import Invalid
from memories.contract.urls import url_for
from memories.database import identity
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Status
from memory_project.models import Notification, User
from memory_project.notifications import mail
from memory_project.notifications.mentions import people_mentioned
from memory_project.webhooks.models import Endpoint

KEPT_DAYS = 90  # days until a notification is deleted
# maximum number of unread notifications of one kind that a person may have from one sender; more are not created
MAX_UNREAD = 20
DIGEST = "digest"  # the key of the weekly mail in User.notify; it is not a kind of notification
CHOICES = {"portal": "In the portal", "mail": "In the portal and by mail", "none": "Not at all"}


@dataclass(frozen=True)
class Kind:
    title: str  # label in the account's settings
    verb: str  # the verb phrase after the sender's name
    page: str = "memory"  # kind of the page that the notification links to; see url_for()


KINDS: Mapping[str, Kind] = {
    "approved": Kind("An insight of mine was approved", "approved your insight"),
    "rejected": Kind("An insight of mine was rejected", "rejected an insight of yours"),
    "applied": Kind("An insight of mine was applied", "applied your insight to the catalog"),
    "rolled_back": Kind(
        "An insight of mine was rolled back", "rolled back your insight; it is waiting for review again"
    ),
    "edit_approved": Kind("An edit of mine was approved", "approved your edit"),
    "edit_rejected": Kind("An edit of mine was rejected", "rejected your edit"),
    "needs_more": Kind("A curator asked me a question", "asked you about your insight", "my-insight"),
    "answered": Kind("An author answered my question", "answered your question", "insight"),
    "appealed": Kind("An author appealed a decision of mine", "appealed your decision", "insight"),
    "handed_over": Kind("An insight was handed over to me", "handed an insight over to you", "insight"),
    "overturned": Kind(
        "A review decision of mine was overturned", "decided otherwise on an insight than you", "insight"
    ),
    "stale": Kind("A memory of mine went stale", "found that your memory may no longer be true", "stale"),
    "rewritten": Kind("A verified memory of mine, or one that I verified, was changed", "changed a verified memory"),
    "mentioned": Kind("I was mentioned", "mentioned you"),
    "webhook_paused": Kind("A webhook endpoint of mine was paused", "paused your webhook endpoint", "webhook"),
}


@dataclass(frozen=True)
class Notice:
    """A notification as shown to its recipient.

    `text` and `link` are empty if the recipient may no longer read the memory or insight.
    """

    pk: int
    at: object
    by: str
    verb: str
    text: str
    link: str
    is_new: bool


@identity.service("notices")
def notify(kind: str, people: Iterable[str], *, record_id: UUID, by: str) -> None:
    """Create a notification for each of `people` (e-mail addresses) except the sender `by`.

    A person gets none if they have turned this kind off, or already have an unread notification of this kind about the
    same record, or MAX_UNREAD of them from this sender.
    """
    for person in User.objects.filter(email__in=set(people) - {by}, is_active=True):
        preference = person.notify.get(kind, "portal")
        unread = Notification.objects.filter(person=person, kind=kind, read_at=None)
        if preference == "none":
            continue
        if unread.filter(record_id=record_id).exists() or unread.filter(by=by).count() >= MAX_UNREAD:
            continue
        notification = Notification.objects.create(person=person, kind=kind, record_id=record_id, by=by)
        if preference == "mail" and mail.is_configured():
            transaction.on_commit(partial(async_task, "memory_project.tasks.mail_notification", notification.pk))


def notify_review(kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
    """Notify the people whom a review event concerns, and people mentioned in its notes who may read the insight."""
    if kind in KINDS:
        notify(kind, people, record_id=insight.pk, by=by)
    if "@" in notes:
        readers = [
            email for email, caller in people_mentioned(notes)
            if email not in people and Insight.objects.visible_to(caller).filter(pk=insight.pk).exists()
        ]  # fmt: skip
        notify("mentioned", readers, record_id=insight.pk, by=by)


def notify_stale(record: MemoryRecord, caller: Caller) -> None:
    """Notify the owner of a stale memory, unless the owner marked it stale."""
    notify("stale", [record.created_by], record_id=record.pk, by=caller.email)


def notify_outdated(record: MemoryRecord, caller: Caller, verifiers: Sequence[str]) -> None:
    """Notify the owner of a memory, and those who verified it, that it has been changed since."""
    notify("rewritten", [record.created_by, *verifiers], record_id=record.pk, by=caller.email)


def notify_mentions(record: MemoryRecord) -> None:
    if "@" not in record.content:
        return
    readers = [
        email for email, caller in people_mentioned(record.content)
        if MemoryRecord.objects.visible_to(caller).filter(pk=record.pk).exists()
    ]  # fmt: skip
    notify("mentioned", readers, record_id=record.pk, by=record.edited_by or record.created_by)


def notifications_for(caller: Caller) -> QuerySet[Notification]:
    return Notification.objects.filter(person__email=caller.email)


def unread(person_id: int) -> QuerySet[Notification]:
    return Notification.objects.filter(person_id=person_id, read_at=None)


def entries_for(caller: Caller, rows: Sequence[Notification]) -> list[Notice]:
    """Return the notifications with the texts and links that the caller may see now."""
    ids = [row.record_id for row in rows]
    texts = dict(MemoryRecord.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "content"))
    texts |= dict(Insight.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "record__content"))
    if paused := [row.record_id for row in rows if row.kind == "webhook_paused"]:
        endpoints = Endpoint.objects.filter(owner=caller.email, pk__in=paused).only("name", "pause_reason")
        texts |= {endpoint.pk: f"{endpoint.name}: {endpoint.pause_reason or 'resumed'}" for endpoint in endpoints}
    return [
        Notice(
            pk=row.pk,
            at=row.at,
            by=row.by,
            verb=KINDS[row.kind].verb,
            text=texts.get(row.record_id, ""),
            link=url_for(KINDS[row.kind].page, row.record_id.hex) if row.record_id in texts else "",
            is_new=row.read_at is None,
        )
        for row in rows
        if row.kind in KINDS
    ]


def mark_read(*, caller: Caller, notice_id: int | None = None) -> int:
    """Mark one notification of the caller as read, or all of them. Returns how many were unread."""
    rows = notifications_for(caller).filter(read_at=None)
    return (rows.filter(pk=notice_id) if notice_id else rows).update(read_at=timezone.now())


def choose(*, caller: Caller, ways: Mapping[str, str]) -> None:
    """Save how the caller wants to be notified: a key of CHOICES for each kind of notification."""
    for kind, way in ways.items():
        if kind not in {*KINDS, DIGEST} or way not in CHOICES:
            raise Invalid(f"{way!r} is unknown for {kind!r}", field="notify", allowed=", ".join(CHOICES))
    person = User.objects.get(email=caller.email)
    person.notify = {kind: way for kind, way in {**person.notify, **ways}.items() if way != "portal"}
    person.save(update_fields=["notify"])


def mail_one(notice_id: int) -> bool:
    """Mail a notification. Returns whether it was sent.

    Nothing is sent if the recipient has read the notification or turned off mails of its kind in the meantime, may no
    longer read the memory or insight, or if its owner has forgotten it. The mail does not quote it, because the
    recipient may lose access to it later.
    """
    row = Notification.objects.filter(pk=notice_id, read_at=None).first()
    recipient = mail.load_recipient(row.person_id) if row else None
    if row is None or recipient is None:
        return False
    person, caller = recipient
    entries = entries_for(caller, [row])
    if person.notify.get(row.kind) != "mail" or not entries or not entries[0].link or _is_forgotten(caller, row):
        return False
    context = {"notice": entries[0], "person": person}
    return mail.send(
        [person.email], f"Commonplace: {row.by or 'Commonplace'} {entries[0].verb}", "mail/notice.txt", context
    )


def _is_forgotten(caller: Caller, row: Notification) -> bool:
    """Return whether another user's memory was forgotten. A rejected insight is archived, but not forgotten."""
    archived = MemoryRecord.objects.filter(pk=row.record_id, status=Status.ARCHIVED).exclude(created_by=caller.email)
    return archived.exclude(insight__state=InsightState.REJECTED).exists()

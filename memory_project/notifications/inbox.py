"""What the bell in the portal shows: news for one person, unread until looked at. Texts are not copied: what a notice
is about is read when it is shown, with the reader's eyes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django_q.tasks import async_task

from knowledge.models import Insight
from memories.contract.errors import Forbidden, Invalid
from memories.contract.urls import url_for
from memories.identity.caller import Caller
from memories.identity.permissions import build_caller
from memories.models import MemoryRecord
from memory_project.models import Notification, User
from memory_project.notifications import mail
from memory_project.notifications.mentions import people_mentioned

KEPT_DAYS = 90
FLOOD = 20  # unread notices of one kind from one person; further ones are not kept
DIGEST = "digest"  # the weekly mail, which is no entry of the inbox
CHOICES = {"portal": "In the portal", "mail": "In the portal and by mail", "none": "Not at all"}


@dataclass(frozen=True)
class Kind:
    """`says` follows the name of who acted; `page` is the kind of link it leads to."""

    title: str
    says: str
    page: str = "memory"


KINDS: Mapping[str, Kind] = {
    "approved": Kind("An insight of mine was approved", "approved your insight"),
    "rejected": Kind("An insight of mine was rejected", "rejected an insight of yours"),
    "applied": Kind("An insight of mine was applied", "applied your insight to the catalog"),
    "rolled_back": Kind("An insight of mine was rolled back", "rolled your insight back; it waits for review again"),
    "edit_approved": Kind("An edit of mine was approved", "approved your edit"),
    "edit_rejected": Kind("An edit of mine was rejected", "rejected your edit"),
    "needs_more": Kind("A curator needs more from me", "needs more about your insight", "my-insight"),
    "answered": Kind("An author answered me", "answered your question", "insight"),
    "appealed": Kind("An author appeals", "appeals your decision", "insight"),
    "handed_over": Kind("An insight was handed to me", "handed you an insight to decide", "insight"),
    "stale": Kind("A memory of mine went stale", "found that your memory may no longer be true", "stale"),
    "mentioned": Kind("I was mentioned", "mentioned you"),
}


@dataclass(frozen=True)
class Notice:
    """One entry of the inbox as its person may see it."""

    pk: int
    at: object
    by: str
    says: str
    text: str
    link: str
    is_new: bool


def notify(kind: str, people: Iterable[str], *, record_id: UUID, by: str) -> None:
    """News for these people, who choose what reaches them; nobody is told twice of what is still unread."""
    for person in User.objects.filter(email__in=set(people) - {by}, is_active=True):
        way = person.notify.get(kind, "portal")
        unread = Notification.objects.filter(person=person, kind=kind, read_at=None)
        if way == "none" or unread.filter(record_id=record_id).exists() or unread.filter(by=by).count() >= FLOOD:
            continue
        notice = Notification.objects.create(person=person, kind=kind, record_id=record_id, by=by)
        if way == "mail" and mail.is_configured():
            transaction.on_commit(partial(async_task, "memory_project.tasks.mail_notification", notice.pk))


def notify_review(kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
    """Notify the people a review event concerns, and those mentioned in its note who may see the insight."""
    if kind in KINDS:
        notify(kind, people, record_id=insight.pk, by=by)
    if "@" in notes:
        readers = [
            email for email, caller in people_mentioned(notes)
            if email not in people and Insight.objects.visible_to(caller).filter(pk=insight.pk).exists()
        ]  # fmt: skip
        notify("mentioned", readers, record_id=insight.pk, by=by)


def notify_stale(record: MemoryRecord, caller: Caller) -> None:
    """Notify the owner, unless the owner has marked it stale."""
    notify("stale", [record.created_by], record_id=record.pk, by=caller.email)


def notify_mentions(record: MemoryRecord) -> None:
    """Notify people mentioned in a memory that they may read."""
    if "@" not in record.content:
        return
    readers = [
        email for email, caller in people_mentioned(record.content)
        if MemoryRecord.objects.visible_to(caller).filter(pk=record.pk).exists()
    ]  # fmt: skip
    notify("mentioned", readers, record_id=record.pk, by=str(record.metadata.get("edited_by") or record.created_by))


def notifications_for(caller: Caller) -> QuerySet[Notification]:
    """One's own entries."""
    return Notification.objects.filter(person__email=caller.email)


def unread(person_id: int) -> QuerySet[Notification]:
    return Notification.objects.filter(person_id=person_id, read_at=None)


def entries_for(caller: Caller, rows: Sequence[Notification]) -> list[Notice]:
    """These entries with what they are about, as far as the caller may see it now."""
    ids = [row.record_id for row in rows]
    texts = dict(MemoryRecord.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "content"))
    texts |= dict(Insight.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "record__content"))
    return [
        Notice(
            pk=row.pk,
            at=row.at,
            by=row.by,
            says=KINDS[row.kind].says,
            text=texts.get(row.record_id, ""),
            link=url_for(KINDS[row.kind].page, row.record_id.hex) if row.record_id in texts else "",
            is_new=row.read_at is None,
        )
        for row in rows
        if row.kind in KINDS
    ]


def mark_read(*, caller: Caller, notice_id: int | None = None) -> int:
    """One's own entry, or all of one's own; returns how many were unread."""
    rows = notifications_for(caller).filter(read_at=None)
    return (rows.filter(pk=notice_id) if notice_id else rows).update(read_at=timezone.now())


def choose(*, caller: Caller, ways: Mapping[str, str]) -> None:
    """How the caller wants to be told of each kind of news."""
    for kind, way in ways.items():
        if kind not in {*KINDS, DIGEST} or way not in CHOICES:
            raise Invalid(f"{way!r} is unknown for {kind!r}", field="notify", allowed=", ".join(CHOICES))
    person = User.objects.get(email=caller.email)
    person.notify = {kind: way for kind, way in {**person.notify, **ways}.items() if way != "portal"}
    person.save(update_fields=["notify"])


def mail_one(notice_id: int) -> bool:
    """In a worker: the entry by mail, unless it was read meanwhile. It names no text, which may be hidden by then."""
    row = Notification.objects.select_related("person").filter(pk=notice_id, read_at=None).first()
    if row is None:
        return False
    try:
        caller = build_caller(row.person, channel="mail")
    except Forbidden:
        return False
    entries = entries_for(caller, [row])
    if not entries or not entries[0].link:
        return False
    context = {"notice": entries[0], "person": row.person}
    return mail.send([row.person.email], f"Commonplace: {row.by} {entries[0].says}", "mail/notice.txt", context)

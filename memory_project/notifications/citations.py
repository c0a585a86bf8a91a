"""Notifications that something has changed that a document of a person's cites.

Such a notification is about the document, and names no memory. There is one per document until it is read, however many
of its memories change, and it goes away if nothing is left to look at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from django.utils import timezone
from django.utils.translation import ngettext

from foundation.database import identity
from foundation.people.caller import Caller
from memories.use.citations import queries
from memory_project.accounts import mail
from memory_project.models import Notification, User
from memory_project.notifications.inbox import MAIL_DELAY

KIND = "cited"


@identity.service("notices")
def notify_outdated(documents: Mapping[UUID, str], by: str) -> None:
    """Notify the authors of documents, given by the documents' ids, except for `by`.

    The number of queries does not depend on the number of documents.
    """
    unread = Notification.objects.filter(kind=KIND, record_id__in=documents, read_at=None)
    known = set(unread.values_list("record_id", flat=True))
    people = User.objects.filter(email__in=set(documents.values()) - {by, ""}, is_active=True)
    accounts = {person.email: person for person in people.only("email", "notify")}
    now = timezone.now()
    new = []
    for document_id, author in documents.items():
        person = accounts.get(author)
        way = person.notify.get(KIND, "portal") if person else "none"
        if person is None or way == "none" or document_id in known:
            continue
        mail_at = now + MAIL_DELAY if way == "mail" and mail.is_configured() else None
        new.append(Notification(person=person, kind=KIND, record_id=document_id, by=by, at=now, mail_at=mail_at))
    Notification.objects.bulk_create(new)


@identity.service("notices")
def clear(document_ids: Sequence[UUID]) -> None:
    """Delete the unread notifications about documents that cite nothing any more that has changed."""
    Notification.objects.filter(kind=KIND, record_id__in=document_ids, read_at=None).delete()


def texts(caller: Caller, document_ids: Collection[UUID]) -> dict[UUID, str]:
    """Return what a notification says about each of these documents of the caller."""
    found = {}
    for document in queries.documents(caller).filter(pk__in=document_ids):
        changed = document.changed  # type: ignore[attr-defined]  # annotated
        says = ngettext(
            "%(document)s: %(count)s memory that it cites has changed",
            "%(document)s: %(count)s memories that it cites have changed",
            changed,
        )
        found[document.pk] = says % {"document": str(document), "count": changed}
    return found

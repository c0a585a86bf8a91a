"""Notifications of a person: who gets them, and when they go away again.

A notification stores no text, and it tells the state as of now: an unread one that later events have made untrue, such
as the approval of an insight after the approval was undone, is deleted. How notifications are shown is in lists.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller, system_caller
from knowledge.insights import events
from knowledge.insights.reviewers import second_approvers
from knowledge.models import (
    Changeset,
    ChangesetVerdict,
    Decision,
    DecisionKind,
    Insight,
    InterviewQuestion,
    Suggestion,
)
from memories.models import IN_USE, MemoryRecord, Status
from memories.queries import open_reports
from memory_project.accounts import mail
from memory_project.models import Notification, User
from memory_project.notifications.kinds import CHOICES, DIGEST, KINDS, TOPICS
from memory_project.notifications.mentions import people_mentioned

MAIL_DELAY = timedelta(minutes=2)  # collects notifications of one kind, so that a bulk decision causes few mails
SUGGESTIONS_PAUSE = timedelta(days=1)  # between two notifications of a person about suggestions

# Each of these kinds says what became of an insight, so only the newest one is true.
OUTCOMES = frozenset({"approved", "rejected", "applied", "rolled_back", "taken_back"})
OUTCOMES_OF_EDITS = frozenset({"edit_approved", "edit_rejected"})
TASKS = frozenset({"needs_more", "answered", "appealed", "handed_over"})  # their recipient should act on the insight
# event of the review → kinds of unread notifications about the insight that are no longer true after it
ENDED_BY: Mapping[str, Collection[str]] = {
    "approved": OUTCOMES | TASKS,
    "rejected": OUTCOMES | TASKS,
    "applied": OUTCOMES | TASKS,
    "rolled_back": OUTCOMES,
    "appealed": OUTCOMES,
    "needs_more": OUTCOMES | {"needs_more", "answered", "appealed"},
    "answered": {"needs_more", "answered"},
    "handed_over": {"handed_over"},
    "edit_approved": OUTCOMES_OF_EDITS,
    "edit_rejected": OUTCOMES_OF_EDITS,
}


@identity.service("notices")
def notify(kind: str, people: Iterable[str], *, record_id: UUID, by: str) -> None:
    """Create a notification for each of `people` (e-mail addresses) except the sender `by`.

    A person gets none if they have turned this kind off, or already have an unread notification of this kind about the
    same record. The number of queries does not depend on the number of people.
    """
    addresses = set(people) - {by, ""}
    if not addresses:
        return
    unread_already = Notification.objects.filter(kind=kind, record_id=record_id, read_at=None).values("person_id")
    recipients = User.objects.filter(email__in=addresses, is_active=True).exclude(pk__in=unread_already)
    ways = {person.pk: person.notify.get(kind, "portal") for person in recipients.only("notify").order_by("pk")}
    now = timezone.now()
    Notification.objects.bulk_create(
        Notification(
            person_id=person_id,
            kind=kind,
            record_id=record_id,
            by=by,
            at=now,
            mail_at=now + MAIL_DELAY if way == "mail" and mail.is_configured() else None,
        )
        for person_id, way in ways.items()
        if way != "none"
    )


def notify_review(kind: str, insight: Insight, *, by: str, notes: str, people: Sequence[str]) -> None:
    """Notify the people whom a review event concerns, and people mentioned in its notes who may read the insight.

    Unread notifications that the event has made untrue are deleted. If a decision is undone, only people who have
    already learned of it are notified of that.
    """
    if kind == DecisionKind.TAKEN_BACK:
        people = _retract(_kinds_of_undone_decision(insight), insight.pk)
    elif ended := ENDED_BY.get(kind):
        _delete_unread(ended, insight.pk)
    if kind in KINDS:
        notify(kind, people, record_id=insight.pk, by=by)
    if "@" in notes:
        readers = [
            email for email, caller in people_mentioned(notes)
            if email not in people and Insight.objects.visible_to(caller).filter(pk=insight.pk).exists()
        ]  # fmt: skip
        notify("mentioned", readers, record_id=insight.pk, by=by)


def _kinds_of_undone_decision(insight: Insight) -> Collection[str]:
    # The newest decision is the undo itself.
    undone = Decision.objects.filter(insight=insight).order_by("-at", "-pk").values_list("kind", flat=True)[1:2]
    return OUTCOMES_OF_EDITS if DecisionKind.EDIT_APPROVED in undone else OUTCOMES


@identity.service("notices")
def _retract(kinds: Collection[str], record_id: UUID) -> list[str]:
    """Delete unread notifications of a decision that was undone. Returns who has learned of the decision."""
    rows = Notification.objects.filter(record_id=record_id, kind__in=kinds)
    learned = rows.exclude(read_at=None, mailed_at=None).order_by("person_id", "-at", "-pk").distinct("person_id")
    # Whoever knows last that it is back in review learns nothing new.
    emails = [email for email, kind in learned.values_list("person__email", "kind") if kind != "taken_back"]
    rows.filter(read_at=None).delete()
    return emails


@identity.service("notices")
def _delete_unread(kinds: Collection[str], record_id: UUID) -> None:
    Notification.objects.filter(record_id=record_id, kind__in=kinds, read_at=None).delete()


def notify_changeset(changeset: Changeset, kind: str, *, by: str) -> None:
    """Notify curators that a changeset waits for a second approval, or whoever applied it of the decision."""
    if kind == events.PROPOSED:
        notify("second_approval", second_approvers(changeset), record_id=changeset.pk, by=by)
        return
    _delete_unread({"second_approval"}, changeset.pk)
    decided = {ChangesetVerdict.APPROVED: "changeset_approved", ChangesetVerdict.DECLINED: "changeset_declined"}
    if outcome := decided.get(ChangesetVerdict(kind)):
        notify(outcome, [changeset.applied_by], record_id=changeset.pk, by=by)


def notify_question(question: InterviewQuestion) -> None:
    notify("interviewed", [question.owner], record_id=question.pk, by=question.asked_by)


def clear_question(question: InterviewQuestion) -> None:
    _delete_unread({"interviewed"}, question.pk)


def notify_suggestions(suggestion: Suggestion) -> None:
    """Notify a person of suggestions, at most once in SUGGESTIONS_PAUSE, however many of their sessions have some."""
    since = timezone.now() - SUGGESTIONS_PAUSE
    recent = Notification.objects.filter(kind="suggested", person__email=suggestion.owner).filter(
        Q(at__gte=since) | Q(read_at=None)
    )
    if not recent.exists():
        notify("suggested", [suggestion.owner], record_id=suggestion.pk, by=system_caller().email)


def clear_suggestions(owner: str) -> None:
    """Delete the unread notification of suggestions of a person who has decided about all of them."""
    Notification.objects.filter(kind="suggested", person__email=owner, read_at=None).delete()


def notify_scope_proposed(record: MemoryRecord, caller: Caller) -> None:
    notify("scope_proposed", [record.created_by], record_id=record.pk, by=caller.email)


def clear_scope_proposal(record_id: UUID) -> None:
    _delete_unread({"scope_proposed"}, record_id)


def notify_stale(record: MemoryRecord, caller: Caller) -> None:
    """Notify the owner of a stale memory, unless the owner marked it stale."""
    notify("stale", [record.created_by], record_id=record.pk, by=caller.email)


def clear_outdated(record: MemoryRecord, before: str) -> None:
    """Delete unread notifications that a change of a memory's status from `before` has made untrue."""
    if before == Status.STALE and record.status != Status.STALE:
        _delete_unread({"stale"}, record.pk)
    is_gone = record.status in (Status.ARCHIVED, Status.SUPERSEDED)
    if is_gone and before != record.status:
        _delete_unread({*TASKS, "reported", "ends_soon", "ended"}, record.pk)


def notify_reported(record: MemoryRecord, caller: Caller) -> None:
    """Notify the owner of a memory in force that `caller` reported it as wrong or outdated."""
    if record.status in IN_USE:
        notify("reported", [record.created_by], record_id=record.pk, by=caller.email)


def clear_reports(record: MemoryRecord) -> None:
    """Delete unread notifications about reports of a memory that was verified or changed."""
    _delete_unread({"reported"}, record.pk)


@identity.service("notices")
def clear_reports_of(record: MemoryRecord, caller: Caller) -> None:
    """Delete an unread notification about reports that `caller` withdrew. Others' open reports are notified instead."""
    rows = Notification.objects.filter(record_id=record.pk, kind="reported", read_at=None, by=caller.email)
    other = open_reports().filter(record=record).exclude(by=caller.email).first()
    if rows.delete()[0] and other:
        notify("reported", [record.created_by], record_id=record.pk, by=other.by)


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


def mark_read(caller: Caller, *, notice_id: int | None = None, among: Q | None = None) -> int:
    """Mark one notification of the caller as read, those that match `among`, or all. Returns how many were unread."""
    rows = notifications_for(caller).filter(among or Q(), read_at=None)
    return (rows.filter(pk=notice_id) if notice_id else rows).update(read_at=timezone.now())


def ways_by_topic(person: User) -> dict[str, str]:
    """Return how a person is notified of each topic: a key of CHOICES, or "" if its kinds differ."""
    chosen = {}
    for name, topic in TOPICS.items():
        ways = {person.notify.get(kind, "portal") for kind in topic.kinds}
        chosen[name] = ways.pop() if len(ways) == 1 else ""
    return chosen


def choose_topics(caller: Caller, *, ways: Mapping[str, str]) -> None:
    """Save how the caller wants to be notified of topics. A topic with the way "" keeps the choices of its kinds."""
    for name in ways:
        if name not in TOPICS:
            raise Invalid(gettext("%(topic)r is unknown") % {"topic": name}, field="notify", allowed=", ".join(TOPICS))
    choose(caller, ways={kind: way for name, way in ways.items() if way for kind in TOPICS[name].kinds})


def choose(caller: Caller, *, ways: Mapping[str, str]) -> None:
    """Save how the caller wants to be notified: a key of CHOICES for each kind of notification."""
    for kind, way in ways.items():
        if kind not in {*KINDS, DIGEST} or way not in CHOICES:
            message = gettext("%(way)s is unknown for %(kind)s") % {"way": repr(way), "kind": repr(kind)}
            raise Invalid(message, field="notify", allowed=", ".join(CHOICES))
    person = User.objects.get(email=caller.email)
    person.notify = {kind: way for kind, way in {**person.notify, **ways}.items() if way != "portal"}
    person.save(update_fields=["notify"])

"""Notifications as shown to their recipient.

Notifications of one kind, sender and day make a group. Groups are computed when they are shown, so they need no upkeep
when notifications are deleted. Texts are read with the permissions that the recipient has then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Max, Q
from django.db.models.functions import TruncDate
from django.utils import timezone

from foundation.database.queryset_sql import CompiledQuery
from foundation.links import url_for
from foundation.operations.fields import Moment
from foundation.operations.operation import validate
from foundation.operations.paging import invalid_cursor
from foundation.people.caller import Caller
from knowledge.models import Changeset, Insight, InterviewQuestion
from knowledge.suggestions import queries as suggestions
from memories.models import MemoryRecord
from memories.rendering import entity_name
from memory_project.models import Notification
from memory_project.notifications import citations, inbox
from memory_project.notifications.kinds import KINDS, TEXTS, sentence

GROUPS_PER_PAGE = 20
MAX_SINGLE = 3  # groups of at most this many notifications are listed one by one
ENTITIES_SHOWN = 3
MAX_KEY = 2**63 - 1

GroupKey = tuple[date, str, str]  # day, kind, sender


@dataclass(frozen=True)
class Notice:
    """A notification. `text` and `link` are empty if the recipient may no longer read the memory or insight."""

    pk: int
    at: datetime
    by: str
    kind: str
    text: str
    link: str
    is_new: bool

    @property
    def sentence(self) -> str:
        return sentence(self.kind, self.by)


@dataclass
class NotificationGroup:
    """Notifications of one kind, sender and day. `pk` is the newest one's.

    `notices` is empty if there are more than MAX_SINGLE. Then `entities` are the entities that most of them are about,
    each with a number, and `readable` is the number of notifications whose memory the recipient may still read.
    """

    pk: int
    day: date
    at: datetime
    kind: str
    by: str
    count: int
    unread: int
    notices: list[Notice] = field(default_factory=list)
    entities: list[tuple[str, int]] = field(default_factory=list)
    readable: int = 0

    @property
    def sentence(self) -> str:
        return sentence(self.kind, self.by, self.count)

    @property
    def unreadable(self) -> int:
        return self.count - self.readable

    @property
    def key(self) -> GroupKey:
        return self.day, self.kind, self.by


@dataclass(frozen=True)
class GroupPage:
    groups: Sequence[NotificationGroup]
    after: str = ""  # cursor of the next page; empty on the last page


def group_page(caller: Caller, after: str = "") -> GroupPage:
    """Return the caller's groups after the cursor `after`, newest first. Raises Invalid if the cursor is malformed."""
    rows = inbox.notifications_for(caller).filter(kind__in=KINDS)
    grouped = rows.order_by().annotate(day=TruncDate("at")).values("day", "kind", "by")
    grouped = grouped.annotate(
        latest=Max("at"),
        newest=Max("pk"),
        total=Count("pk"),
        new=Count("pk", filter=Q(read_at=None)),
        pks=ArrayAgg("pk", order_by=["-at", "-pk"]),
    )
    if after:
        latest, newest = _read_cursor(after)
        _, end = _bounds(timezone.localdate(latest))
        grouped = grouped.filter(at__lt=end).filter(Q(latest__lt=latest) | Q(latest=latest, newest__lt=newest))
    found = list(grouped.order_by("-latest", "-newest")[: GROUPS_PER_PAGE + 1])
    shown = found[:GROUPS_PER_PAGE]
    groups = [
        NotificationGroup(row["newest"], row["day"], row["latest"], row["kind"], row["by"], row["total"], row["new"])
        for row in shown
    ]
    _add_notices(caller, groups, [row["pks"] for row in shown])
    _add_entities(caller, [group for group in groups if group.count > MAX_SINGLE])
    last = shown[-1] if len(found) > len(shown) else None
    return GroupPage(groups, f"{last['latest'].isoformat()}~{last['newest']}" if last else "")


def _read_cursor(after: str) -> tuple[datetime, int]:
    timestamp, _, key = after.partition("~")
    if not key.isdecimal() or not key.isascii() or len(key) > 19 or int(key) > MAX_KEY:
        raise invalid_cursor()
    return validate(Moment, timestamp or "missing", "after"), int(key)


def _bounds(day: date) -> tuple[datetime, datetime]:
    """Return the start of a day and of the next one in the current time zone."""
    start = timezone.make_aware(datetime.combine(day, time()))
    return start, timezone.make_aware(datetime.combine(day + timedelta(days=1), time()))


def _add_notices(caller: Caller, groups: Sequence[NotificationGroup], pks: Sequence[Sequence[int]]) -> None:
    small = {
        pk: group for group, members in zip(groups, pks, strict=True) if group.count <= MAX_SINGLE for pk in members
    }
    rows = list(Notification.objects.filter(pk__in=small).order_by("-at", "-pk"))
    for notice in entries_for(caller, rows):
        small[notice.pk].notices.append(notice)


def _add_entities(caller: Caller, groups: Sequence[NotificationGroup]) -> None:
    """Count for each group the notifications that the caller may still read, by the first entity of their memory."""
    for group in groups:
        group.readable = group.count  # suggestions, webhooks and upstreams have no memory
    groups = [group for group in groups if group.kind not in ("suggested", citations.KIND) and group.kind not in TEXTS]
    if not groups:
        return
    rule = Q(pk__in=[])
    for group in groups:
        rule |= _members(group.day, group.kind, group.by)
    rows = inbox.notifications_for(caller).filter(rule).order_by()
    about = rows.values("record_id")
    statement = CompiledQuery()
    members = statement.table(rows.annotate(day=TruncDate("at")).values_list("day", "kind", "by", "record_id"))
    records = MemoryRecord.objects.visible_to(caller).filter(pk__in=about).order_by()
    readable = statement.table(records.values_list("pk", "entity_urns"))
    insights = Insight.objects.visible_to(caller).filter(pk__in=about).order_by()
    in_review = statement.table(insights.values_list("pk", "record__entity_urns"))
    counts: dict[GroupKey, list[tuple[str, int]]] = defaultdict(list)
    sql = f"""
        SELECT member.day, member.kind, member.by, coalesce(found.urns[1], ''), count(*)
        FROM {members} member (day, kind, by, record_id)
        JOIN (SELECT * FROM {readable} UNION SELECT * FROM {in_review}) found (id, urns)
            ON found.id = member.record_id
        GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 4
    """  # noqa: S608 - generated names
    for day, kind, by, urn, count in statement.run(sql):
        counts[day, kind, by].append((urn, count))
    for group in groups:
        group.entities = [(urn, count) for urn, count in counts[group.key] if urn][:ENTITIES_SHOWN]
        group.readable = sum(count for _, count in counts[group.key])


def _members(day: date, kind: str, by: str) -> Q:
    start, end = _bounds(day)
    return Q(kind=kind, by=by, at__gte=start, at__lt=end)


def group_of(caller: Caller, notice_id: int) -> Q | None:
    """Return the condition for the notifications of a group that are not newer than its notification `notice_id`.

    Returns None if the caller has no such notification.
    """
    row = inbox.notifications_for(caller).filter(pk=notice_id, kind__in=KINDS).first()
    return _members(timezone.localdate(row.at), row.kind, row.by) & Q(pk__lte=notice_id) if row else None


def entries_for(caller: Caller, rows: Sequence[Notification]) -> list[Notice]:
    """Return the notifications with the texts and links that the caller may see now."""
    if not rows:
        return []
    ids = [row.record_id for row in rows]
    texts = dict(MemoryRecord.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "content"))
    texts |= dict(Insight.objects.visible_to(caller).filter(pk__in=ids).values_list("pk", "record__content"))
    if suggested := [row.record_id for row in rows if row.kind == "suggested"]:
        texts |= dict(suggestions.suggestions(caller).filter(pk__in=suggested).values_list("pk", "text"))
    if questions := [row.record_id for row in rows if row.kind == "interviewed"]:
        asked = InterviewQuestion.objects.filter(owner=caller.email, pk__in=questions)
        texts |= {pk: entity_name(urn) for pk, urn in asked.values_list("pk", "urn")}
    changesets = [row.record_id for row in rows if KINDS.get(row.kind) and KINDS[row.kind].page == "changeset"]
    if changesets:
        found = Changeset.objects.visible_to(caller).filter(pk__in=changesets)
        texts |= {changeset.pk: str(changeset) for changeset in found}
    if citing := [row.record_id for row in rows if row.kind == citations.KIND]:
        texts |= citations.texts(caller, citing)
    for kind in {row.kind for row in rows}.intersection(TEXTS):
        texts |= TEXTS[kind](caller)
    return [
        Notice(
            pk=row.pk,
            at=row.at,
            by=row.by,
            kind=row.kind,
            text=texts.get(row.record_id, ""),
            link=url_for(KINDS[row.kind].page, row.record_id.hex) if row.record_id in texts else "",
            is_new=row.read_at is None,
        )
        for row in rows
        if row.kind in KINDS
    ]

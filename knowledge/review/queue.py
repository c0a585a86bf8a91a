"""The review queue with a curator's filters and sort order, as encoded in the page's query string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Case, IntegerField, Q, Value, When
from django.db.models.functions import Left
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from knowledge.insights import queries
from knowledge.models import Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from knowledge.review.reviewers import without_assignee
from memories.contract.fields import UNSTORABLE
from memories.identity.caller import Caller
from memories.models import Category, Confidence
from memories.queries import MAX_COUNT
from memories.retrieval.near_duplicates import group_near_duplicates

MAX_ENTRIES = 40  # maximum number of insights listed beside one
ENTRIES_BEFORE = 10  # how many of them precede it
TEXT_SHOWN = 160  # number of characters of a claim in this list
MAX_GROUPED = 1_000  # maximum number of insights that are compared with each other to find near-duplicates
OVERDUE = "overdue"
AGES = {
    OVERDUE: gettext_lazy("Overdue"),
    "1": gettext_lazy("Last 24 hours"),
    "7": gettext_lazy("Last seven days"),
    "7+": gettext_lazy("Older than a week"),
    "30+": gettext_lazy("Older than 30 days"),
}
NO_ENTITY = "none"  # value of the filter `entity` for insights that name no catalog entity
CONFIDENCE_RANK = Case(
    *(When(record__confidence=value, then=Value(rank)) for rank, value in enumerate(("high", "medium", "low"))),
    default=Value(3),
    output_field=IntegerField(),
)
SORTS: Mapping[str, tuple[StrOrPromise, tuple[Any, ...]]] = {
    "oldest": (gettext_lazy("Oldest first"), ("record__created_at", "pk")),
    "newest": (gettext_lazy("Newest first"), ("-record__created_at", "pk")),
    "due": (gettext_lazy("Most overdue first"), ("due_at", "pk")),
    "confidence": (gettext_lazy("Most confident first"), (CONFIDENCE_RANK, "record__created_at", "pk")),
    "author": (gettext_lazy("By author"), ("record__created_by", "record__created_at", "pk")),
}
STATES: Mapping[str, tuple[StrOrPromise, Callable[[Caller], InsightQuerySet]]] = {
    "pending": (gettext_lazy("Waiting"), queries.waiting),
    "snoozed": (gettext_lazy("Snoozed"), queries.snoozed),
    "questions": (gettext_lazy("Needs info"), queries.awaiting_authors),
    "approved": (gettext_lazy("Approved, not applied"), queries.backlog),
    "applied": (gettext_lazy("Applied"), lambda caller: queries.in_state(caller, InsightState.APPLIED)),
    "rejected": (gettext_lazy("Rejected"), lambda caller: queries.in_state(caller, InsightState.REJECTED)),
}


@dataclass(frozen=True)
class Entry:
    """One line of the list beside an insight."""

    pk: UUID
    text: str  # the beginning of the claim
    author: str
    created_at: datetime
    due_at: datetime
    assignee: str

    @property
    def is_overdue(self) -> bool:
        return self.due_at < timezone.now()


@dataclass(frozen=True)
class QueuePosition:
    """An insight's position in the queue, counted from 1, with the ids of the others.

    The last insight is followed by the first. The first insight has no previous one. `entries` are the insights around
    it, or the first ones if it is not in the queue.
    """

    number: int
    total: int
    following: Sequence[UUID] = ()  # the other insights in the order in which they come next
    previous_id: UUID | None = None
    entries: Sequence[Entry] = ()

    @property
    def next_id(self) -> UUID | None:
        return next(iter(self.following), None)


@dataclass(frozen=True)
class Queue:
    """The insights that match a curator's filters. All fields except `caller` come from the query string."""

    caller: Caller
    state: str = "pending"
    q: str = ""
    entity: str = ""
    category: str = ""
    author: str = ""
    confidence: str = ""
    age: str = ""
    assignee: str = ""
    sort: str = "oldest"

    @classmethod
    def of(cls, caller: Caller, params: Mapping[str, str]) -> Queue:
        """Build the queue from query parameters, ignoring invalid values."""
        allowed = {
            "state": STATES, "category": Category.values, "confidence": Confidence.values, "age": AGES,
            "assignee": ("me", "nobody"), "sort": SORTS,
        }  # fmt: skip
        values = {name: UNSTORABLE.sub("", params.get(name, "")).strip()[:500] for name in FILTERS}
        return cls(caller, **{k: v for k, v in values.items() if v and (k not in allowed or v in allowed[k])})

    @property
    def rows(self) -> InsightQuerySet:
        _, in_state = STATES[self.state]
        rows = in_state(self.caller)
        if self.state == "pending" and not self.caller.is_admin:
            rows = rows.exclude(record__created_by=self.caller.email)  # curators can't decide on their own insights
        if self.sort == "due" or self.age == OVERDUE:
            rows = queries.with_due_time(rows)
        if self.assignee == "nobody":
            rows = without_assignee(rows)
        return rows.filter(self._condition()).order_by(*SORTS[self.sort][1])

    def _condition(self) -> Q:
        exact = {
            "record__category": self.category,
            "record__created_by": self.author,
            "record__confidence": self.confidence,
        }
        rule = Q(**{column: value for column, value in exact.items() if value})
        for word in self.q.split()[:10]:
            rule &= Q(record__content__icontains=word)
        if self.entity:
            is_none = self.entity == NO_ENTITY
            rule &= Q(record__entity_urns=[]) if is_none else Q(record__entity_urns__contains=[self.entity])
        if self.age == OVERDUE:
            rule &= Q(due_at__lt=timezone.now())
        elif self.age:
            cutoff = timezone.now() - timedelta(days=int(self.age.rstrip("+")))
            rule &= Q(record__created_at__lt=cutoff) if self.age.endswith("+") else Q(record__created_at__gte=cutoff)
        if self.assignee == "me":
            rule &= Q(assignee=self.caller.email)
        return rule

    @property
    def is_narrowed(self) -> bool:
        return any(getattr(self, name) for name in FILTERS if name not in ("state", "sort"))

    @property
    def address_fields(self) -> list[tuple[str, str]]:
        defaults = {"state": "pending", "sort": "oldest"}
        filters = [(name, str(getattr(self, name))) for name in FILTERS]
        return [(name, value) for name, value in filters if value and defaults.get(name) != value]

    @property
    def query_string(self) -> str:
        return f"?{urlencode(self.address_fields)}" if self.address_fields else ""

    def in_state(self, state: str) -> Queue:
        return replace(self, state=state)

    def ids(self, limit: int = MAX_COUNT + 1) -> list[UUID]:
        return list(self.rows.values_list("pk", flat=True)[:limit])

    def groups(self) -> list[list[UUID]]:
        """Return the ids in groups of near-duplicates, each group at the position of its first insight.

        Near-duplicates are only looked for among the first MAX_GROUPED insights. Every other insight is a
        group of its own.
        """
        ids = self.ids()
        groups = group_near_duplicates(ids[:MAX_GROUPED], threshold=settings.NEAR_DUPLICATE_COSINE)
        return [*groups, *([pk] for pk in ids[MAX_GROUPED:])]

    def locate(self, insight: Insight | None = None, *, entries: bool = False) -> QueuePosition:
        """Return the insight's position. Its number is 0 for None and for an insight that is not in the queue."""
        ids = tuple(self.ids())
        index = ids.index(insight.pk) if insight is not None and insight.pk in ids else -1
        first = max(0, min(index - ENTRIES_BEFORE, len(ids) - MAX_ENTRIES))
        around = self._entries(ids[first : first + MAX_ENTRIES]) if entries else ()
        if index < 0:
            return QueuePosition(0, len(ids), ids, entries=around)
        other_ids = (*ids[index + 1 :], *ids[:index])
        previous_id = ids[index - 1] if index else None
        return QueuePosition(index + 1, len(ids), other_ids, previous_id, around)

    def _entries(self, ids: Sequence[UUID]) -> list[Entry]:
        rows = queries.with_due_time(queries.by_ids(self.caller, ids)).annotate(
            text=Left("record__content", TEXT_SHOWN)
        )
        columns = ("pk", "text", "record__created_by", "record__created_at", "due_at", "assignee")
        by_id = {row[0]: Entry(*row) for row in rows.values_list(*columns)}
        return [by_id[pk] for pk in ids if pk in by_id]


FILTERS = tuple(field.name for field in fields(Queue) if field.name != "caller")

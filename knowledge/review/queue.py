"""The review queue with a curator's filters and sort order, as encoded in the page's query string."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Case, IntegerField, Q, QuerySet, Value, When, Window
from django.db.models.functions import Left, RowNumber
from django.utils import timezone
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from foundation.database.queryset_sql import CompiledQuery
from foundation.operations.fields import UNSTORABLE
from foundation.operations.normal_form import normal_form
from foundation.people.caller import Caller
from knowledge.insights import queries
from knowledge.insights.reviewers import without_assignee
from knowledge.models import Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from memories.models import Category, Confidence
from memories.queries import MAX_COUNT
from memories.retrieval.near_duplicates import group_near_duplicates

MAX_OTHERS = 60  # maximum number of insights from the beginning of the queue that are read with an insight
MAX_ENTRIES = 20  # maximum number of insights listed beside one
ENTRIES_BEFORE = 5  # how many of them precede it, if it is not one of the first or last
TEXT_SHOWN = 160  # number of characters of a claim in this list
MAX_GROUPED = 500  # maximum number of insights that are compared with each other to find near-duplicates
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


ENTRY_COLUMNS = ("pk", "text", "record__created_by", "record__created_at", "due_at", "assignee")
# The numbered queue around an insight, and its beginning, which follows its end. A row of counts comes with each.
LOCATE = """
    , place AS (
        SELECT coalesce((SELECT number FROM {queue} WHERE pk = %s), 0) AS number,
               (SELECT count(*) FROM {queue}) AS total {counts}
    )
    SELECT place.*, entry.* FROM place LEFT JOIN {queue} entry ON entry.number <= %s
        OR entry.number BETWEEN least(place.number - %s, place.total - {most}) AND place.number + %s
    ORDER BY entry.number"""


@dataclass(frozen=True)
class QueueEntry:
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
    following: Sequence[UUID] = ()  # the insights that come next, nearest first; at least MAX_OTHERS if there are
    previous_id: UUID | None = None
    entries: Sequence[QueueEntry] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

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
            rule &= Q(record__content__normal_form__icontains=normal_form(word))
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

    def locate(self, insight: Insight | None = None, **counted: QuerySet[Any]) -> QueuePosition:
        """Return the insight's position. Its number is 0 for None and for an insight that is not in the queue.

        `counted` are querysets to count in the same query; see `QueuePosition.counts`.
        """
        number = Window(RowNumber(), order_by=SORTS[self.sort][1])
        rows = queries.with_due_time(self.rows).annotate(number=number, text=Left("record__content", TEXT_SHOWN))
        statement = CompiledQuery()
        queue = statement.table(rows.order_by().values("number", *ENTRY_COLUMNS))
        tables = [statement.table(others.order_by().values("pk")[:MAX_COUNT]) for others in counted.values()]
        counts = [f"(SELECT count(*) FROM {table})" for table in tables]  # noqa: S608 - generated names
        select = LOCATE.format(queue=queue, most=MAX_ENTRIES, counts="".join(f", {count}" for count in counts))
        window = (insight.pk if insight else None, MAX_OTHERS, ENTRIES_BEFORE, MAX_ENTRIES - ENTRIES_BEFORE)
        found = statement.run(select, window)
        (index, total) = found[0][:2]
        numbers = found[0][2 : 2 + len(counts)]
        entries = {row[2 + len(counts)]: QueueEntry(*row[3 + len(counts) :]) for row in found if total}
        after = [entry.pk for place, entry in entries.items() if place > index]
        before = [entry.pk for place, entry in entries.items() if place < index]
        first = max(1, min(index - ENTRIES_BEFORE, total - MAX_ENTRIES + 1))
        return QueuePosition(
            index,
            total,
            (*after, *before),
            entries[index - 1].pk if index > 1 else None,
            tuple(entry for place, entry in entries.items() if first <= place < first + MAX_ENTRIES),
            dict(zip(counted, numbers, strict=True)),
        )


FILTERS = tuple(field.name for field in fields(Queue) if field.name != "caller")

"""The review queue with a curator's filters and sort order, as encoded in the page's query string."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.db.models import Case, IntegerField, Q, Value, When
from django.utils import timezone

from knowledge.insights import queries
from knowledge.models import Insight, InsightState
from knowledge.models.insight import InsightQuerySet
from memories.contract.fields import UNSTORABLE
from memories.identity.caller import Caller
from memories.models import Category, Confidence
from memories.queries import MAX_COUNT
from memories.retrieval.near_duplicates import group_near_duplicates

MAX_GROUPED = 1_000  # maximum number of insights that are compared with each other to find near-duplicates
AGES = {"1": "Last 24 hours", "7": "Last seven days", "7+": "Older than a week", "30+": "Older than 30 days"}
CONFIDENCE_RANK = Case(
    *(When(record__confidence=value, then=Value(rank)) for rank, value in enumerate(("high", "medium", "low"))),
    default=Value(3),
    output_field=IntegerField(),
)
SORTS: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "oldest": ("Oldest first", ("record__created_at", "pk")),
    "newest": ("Newest first", ("-record__created_at", "pk")),
    "confidence": ("Most confident first", (CONFIDENCE_RANK, "record__created_at", "pk")),
    "author": ("By author", ("record__created_by", "record__created_at", "pk")),
}
STATES: Mapping[str, tuple[str, Callable[[Caller], InsightQuerySet]]] = {
    "pending": ("Waiting", queries.waiting),
    "questions": ("Needs info", queries.awaiting_authors),
    "approved": ("Approved, not applied", queries.backlog),
    "applied": ("Applied", lambda caller: queries.in_state(caller, InsightState.APPLIED)),
    "rejected": ("Rejected", lambda caller: queries.in_state(caller, InsightState.REJECTED)),
}


@dataclass(frozen=True)
class QueuePosition:
    """An insight's position in the queue, counted from 1, with the ids of the insights before and after it.

    The last insight is followed by the first. The first insight has no previous one.
    """

    number: int
    total: int
    next_id: UUID | None = None
    previous_id: UUID | None = None


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
            rule &= Q(record__entity_urns__contains=[self.entity])
        if self.age:
            cutoff = timezone.now() - timedelta(days=int(self.age.rstrip("+")))
            rule &= Q(record__created_at__lt=cutoff) if self.age.endswith("+") else Q(record__created_at__gte=cutoff)
        if self.assignee:
            rule &= Q(assignee=self.caller.email if self.assignee == "me" else "")
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

    def locate(self, insight: Insight | None = None) -> QueuePosition:
        """Return the insight's position. Its number is 0 for None and for an insight that is not in the queue."""
        ids = self.ids()
        if insight is None or insight.pk not in ids:
            return QueuePosition(0, len(ids), next_id=ids[0] if ids else None)
        index = ids.index(insight.pk)
        other_ids = [*ids[index + 1 :], *ids[:index]]
        return QueuePosition(
            index + 1, len(ids), other_ids[0] if other_ids else None, ids[index - 1] if index else None
        )


FILTERS = tuple(field.name for field in fields(Queue) if field.name != "caller")

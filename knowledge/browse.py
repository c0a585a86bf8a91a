"""What My Knowledge shows for a query string: the list or the search, its facets, its next page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.utils import timezone

from knowledge.catalog.facts import short_name
from memories import queries
from memories.access import Caller
from memories.errors import DomainError
from memories.models import MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet
from memories.search import QUERY_MAX, Filters, Hit, Recall, in_scope, recall
from memories.shapes import moment
from memories.validation import UNSTORABLE, clean_id

PAGE = 20
BEST = 50  # what a search shows at most
FACETS = {
    "status": "Status",
    "owner": "Whose",
    "dimension": "Dimension",
    "category": "Category",
    "persona": "Persona",
    "tag": "Tag",
    "entity": "Entity",
}
COLUMNS = {"tag": "tags", "entity": "entity_urns"}


@dataclass(frozen=True)
class Option:
    value: str
    label: str
    count: int | None  # None: not counted
    chosen: bool


@dataclass(frozen=True)
class Facet:
    name: str
    title: str
    options: list[Option]


@dataclass(frozen=True)
class Result:
    hits: list[Hit]
    records: list[MemoryRecord]
    facets: list[Facet]
    total: int
    next_page: str
    recall: Recall | None
    error: str = ""

    @property
    def total_text(self) -> str:
        return f"{queries.COUNT_MOST:,}+" if self.total > queries.COUNT_MOST else f"{self.total:,}"


@dataclass(frozen=True)
class Browse:
    caller: Caller
    q: str
    chosen: dict[str, str]
    sort: str
    after: str
    as_of: str = ""

    @classmethod
    def of(cls, caller: Caller, params: Mapping[str, str]) -> Browse:
        def given(name: str, most: int = 500) -> str:
            return UNSTORABLE.sub("", params.get(name, "")).strip()[:most]

        chosen = {name: given(name) for name in FACETS}
        chosen["status"] = chosen["status"] if chosen["status"] in Status.values else Status.ACTIVE.value
        sort = "oldest" if params.get("sort") == "oldest" else "newest"
        return cls(
            caller,
            given("q", QUERY_MAX),
            chosen,
            sort,
            given("after"),
            given("as_of", 40),
        )

    @cached_property
    def filters(self) -> Filters:
        return Filters(
            statuses=[self.chosen["status"]],
            owner=self.caller.email if self.chosen["owner"] == "me" else "",
            dimension=self.chosen["dimension"],
            category=self.chosen["category"],
            persona=self.chosen["persona"],
            tags=[self.chosen["tag"]] if self.chosen["tag"] else [],
            entity=self.chosen["entity"],
        )

    def result(self) -> Result:
        try:
            return self._searched() if self.q else self._listed()
        except DomainError as error:
            return Result([], [], [], 0, "", None, error.message)

    def tiles(self) -> list[tuple[str, int, str]]:
        """Numbers at the top: what is there for this person, as (label, count, query string)."""
        mine = replace(Filters(), owner=self.caller.email)
        week = timezone.now() - timedelta(days=7)
        return [
            ("active memories", queries.capped_count(in_scope(self.caller, Filters())), "?"),
            ("of them mine", queries.capped_count(in_scope(self.caller, mine)), "?owner=me"),
            (
                "new this week",
                queries.capped_count(in_scope(self.caller, Filters()).filter(created_at__gte=week)),
                "?",
            ),
            ("to review", queries.capped_count(queries.stale(self.caller)), "?status=stale"),
        ]

    def _searched(self) -> Result:
        then = moment("as_of", self.as_of)
        answer = recall(caller=self.caller, query=self.q, filters=self.filters, as_of=then, limit=BEST)
        found = [hit.record for hit in answer.hits]
        facets = [
            self._facet(name, queries.facet_counts_of(found, COLUMNS.get(name, name)))
            for name in FACETS
            if name not in ("status", "owner")
        ]
        return Result(answer.hits, [], self._uncounted(self._fixed_facets()) + facets, len(found), "", answer)

    def _uncounted(self, facets: list[Facet]) -> list[Facet]:
        """A search has counted only what it found under the chosen values."""
        return [Facet(f.name, f.title, [replace(option, count=None) for option in f.options]) for f in facets]

    def _listed(self) -> Result:
        rows = in_scope(self.caller, self.filters)
        facets = self._fixed_facets()
        for name in FACETS:
            if name not in ("status", "owner"):
                facets.append(self._facet(name, queries.facet_counts(self._without(name), COLUMNS.get(name, name))))
        page = list(self._page(rows)[: PAGE + 1])
        total = queries.capped_count(rows)
        return Result([], page[:PAGE], facets, total, self._next(page), None)

    def _without(self, facet: str) -> MemoryRecordQuerySet:
        """The rows under all filters but this one, so that its other values can be seen."""
        column = {"tag": "tags", "entity": "entity", "dimension": "dimension", "category": "category"}.get(facet, facet)
        cleared: Any = {column: () if column == "tags" else ""}
        return in_scope(self.caller, replace(self.filters, **cleared))

    def _fixed_facets(self) -> list[Facet]:
        """Status and owner: always all values, with counts under the other filters."""
        by_status = [
            (status, queries.capped_count(in_scope(self.caller, replace(self.filters, statuses=[status]))))
            for status in Status.values
        ]
        everyone = queries.capped_count(in_scope(self.caller, replace(self.filters, owner="")))
        mine = queries.capped_count(in_scope(self.caller, replace(self.filters, owner=self.caller.email)))
        chosen = self.chosen["owner"]
        whose = [
            Option("", "Everyone’s", everyone, chosen != "me"),
            Option("me", "Mine", mine, chosen == "me"),
        ]
        return [
            Facet("status", FACETS["status"], self._options("status", by_status)),
            Facet("owner", FACETS["owner"], whose),
        ]

    def _facet(self, name: str, counts: list[tuple[str, int]]) -> Facet:
        chosen = self.chosen[name]
        if chosen and chosen not in dict(counts):
            counts = [(chosen, queries.capped_count(in_scope(self.caller, self.filters))), *counts]
        options = [Option("", "Any", 0, not chosen), *self._options(name, counts)]
        return Facet(name, FACETS[name], options if len(options) > 1 else [])

    def _options(self, name: str, counts: list[tuple[str, int]]) -> list[Option]:
        return [Option(value, label(name, value), count, value == self.chosen[name]) for value, count in counts]

    def _page(self, rows: MemoryRecordQuerySet) -> MemoryRecordQuerySet:
        rows = rows.defer("embedding", "search")
        newest = self.sort == "newest"
        if self.after:
            at, _, pk = self.after.partition("~")
            when, key = moment("after", at or "missing"), clean_id(pk, "after")
            beyond = Q(created_at__lt=when) if newest else Q(created_at__gt=when)
            rows = rows.filter(beyond | Q(created_at=when, pk__gt=key))
        return rows.order_by("-created_at" if newest else "created_at", "id")

    def _next(self, page: list[MemoryRecord]) -> str:
        if len(page) <= PAGE:
            return ""
        last = page[PAGE - 1]
        return self.query_string(after=f"{last.created_at.isoformat()}~{last.pk.hex}")

    def query_string(self, **more: str) -> str:
        params = {"q": self.q, **self.chosen, "sort": self.sort, **more}
        defaults = {"status": Status.ACTIVE.value, "sort": "newest"}
        return "?" + urlencode({k: v for k, v in params.items() if v and defaults.get(k) != v})


def label(facet: str, value: str) -> str:
    """A facet's value as people read it."""
    if facet == "entity":
        return short_name(value)
    return value if facet in ("tag", "persona") else value.replace("_", " ").capitalize()

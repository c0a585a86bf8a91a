"""The content of the page My Knowledge: the list of memories or the search results, with facets and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext

from foundation.operations.errors import DomainError
from foundation.operations.fields import UNSTORABLE, Moment
from foundation.operations.operation import validate
from foundation.operations.paging import page
from foundation.people.caller import Caller
from knowledge.catalog.entity_view import short_name
from knowledge.insights import queries as curation
from knowledge.models import Insight, InsightState
from memories import queries
from memories.models import Attachment, MemoryRecord, Status, Tier
from memories.operations import MAX_QUERY, RecallMemories
from memories.retrieval import facets
from memories.retrieval.filters import LISTED, QUIET, Filters, by_status, visible_rows
from memories.retrieval.recall import Recall, RecallHit, recall
from memories.writing import entity_assignment
from memories.writing.entity_assignment import Offer
from memory_project.accounts.names import name_of
from memory_project.portal.labels import FIELDS, title_of
from memory_project.web import locale

MAX_HITS = 50
MAX_IN_STAGE = 999  # maximum number of memories or insights that are counted in a stage
WHOLE = "?all=1"  # the address of the list without any filter, also not those of a default view
FACETS = {
    "kind": gettext_lazy("Origin"),
    "status": FIELDS["status"],
    "owner": gettext_lazy("Owner"),
    "attachment": gettext_lazy("Attachment"),
    "dimension": FIELDS["dimension"],
    "category": FIELDS["category"],
    "persona": FIELDS["persona"],
    "tag": gettext_lazy("Tag"),
    "entity": FIELDS["entity_urns"],
    "about": gettext_lazy("What it is about"),
}
ABOUT = {"unsettled": gettext_lazy("Without an entity")}
COLUMNS = {"tag": "tags", "entity": "entity_urns"}
COUNTED = tuple(facets.FACETS)  # facets whose values are read from the memories themselves
MAIN_FACETS = ("status", "owner")  # the others are folded
OWNERS = {"": gettext_lazy("Everyone"), "me": gettext_lazy("Me")}
KINDS = {"": gettext_lazy("Facts"), "conversation": gettext_lazy("Conversations")}
# Whether others use a memory is shown to its owner, so a choice here shows the caller's own memories alone.
ATTACHMENTS = {
    "": gettext_lazy("Any"),
    QUIET: gettext_lazy("Mine, no longer"),
    Attachment.ALWAYS.value: gettext_lazy("Mine, always"),
    Attachment.NEVER.value: gettext_lazy("Mine, never"),
}
FIXED = {"kind": KINDS, "attachment": ATTACHMENTS}
STATUSES = {"expired": gettext_lazy("No longer valid"), "not_yet_valid": gettext_lazy("Not valid yet")}


@dataclass(frozen=True)
class FacetOption:
    value: str
    label: str
    count: int | None  # None if the memories are not counted
    is_chosen: bool
    is_least: bool = False  # `count` is a lower bound, because not all rows were counted

    @property
    def count_text(self) -> str:
        if self.count is None or (self.is_least and self.count <= 1):
            return ""
        return f"{locale.number(self.count)}+" if self.is_least else format_count(self.count)


@dataclass(frozen=True)
class Chip:
    """A filter that is set, with the address of the list without it."""

    title: str
    label: str
    without: str


@dataclass(frozen=True)
class Stage:
    """One stage on the way from memory to knowledge: its name, its count and the page that it links to."""

    name: str
    count: int
    detail: str
    page: str

    @property
    def count_text(self) -> str:
        return up_to(MAX_IN_STAGE, self.count)


@dataclass(frozen=True)
class Facet:
    name: str
    title: str
    options: list[FacetOption]


@dataclass(frozen=True)
class MemoryPage:
    hits: list[RecallHit]
    records: list[MemoryRecord]
    facets: list[Facet]
    total: int
    next_page: str
    recall: Recall | None
    error: str = ""
    offer: Offer = field(default_factory=Offer)  # what unsettled memories on the page may be about
    editable: int = 0  # number of memories on all pages that the caller may change; at most MAX_COUNT + 1 are counted

    @property
    def total_text(self) -> str:
        return format_count(self.total)

    @property
    def editable_text(self) -> str:
        return format_count(self.editable)

    @property
    def main_facets(self) -> list[Facet]:
        return [facet for facet in self.facets if facet.name in MAIN_FACETS]

    @property
    def more_facets(self) -> list[Facet]:
        return [facet for facet in self.facets if facet.name not in MAIN_FACETS]

    @property
    def more_chosen(self) -> int:
        """Return the number of facets besides the main ones that narrow the list."""
        return sum(1 for facet in self.more_facets for option in facet.options if option.is_chosen and option.value)


@dataclass(frozen=True)
class Browse:
    caller: Caller
    q: str
    choices: dict[str, str]
    sort: str
    after: str
    as_of: str = ""
    author: str = ""
    is_whole: bool = False  # the address says that no default view applies

    @classmethod
    def of(cls, caller: Caller, params: Mapping[str, str]) -> Browse:
        def read(name: str, limit: int = 500) -> str:
            return UNSTORABLE.sub("", params.get(name, "")).strip()[:limit]

        choices = {name: read(name) for name in FACETS}
        choices["kind"] = choices["kind"] if choices["kind"] in KINDS else ""
        choices["about"] = choices["about"] if choices["about"] in ABOUT else ""
        choices["attachment"] = choices["attachment"] if choices["attachment"] in ATTACHMENTS else ""
        choices["owner"] = "me" if choices["owner"] == "me" else ""
        choices["status"] = choices["status"] if choices["status"] in LISTED else Status.ACTIVE.value
        sort = "oldest" if params.get("sort") == "oldest" else "newest"
        return cls(
            caller,
            read("q", MAX_QUERY),
            choices,
            sort,
            read("after"),
            read("as_of", 40),
            read("by", 254),
            params.get("all") == "1",
        )

    @cached_property
    def filters(self) -> Filters:
        is_mine = self.choices["owner"] == "me" or (self.choices["attachment"] and not self.caller.is_admin)
        return Filters(
            tiers=[Tier.LONG_TERM if self.choices["kind"] else Tier.NONE],
            **by_status(self.choices["status"]),
            owner=self.caller.email if is_mine else self.author,
            attachment=self.choices["attachment"],
            dimension=self.choices["dimension"],
            category=self.choices["category"],
            persona=self.choices["persona"],
            tags=[self.choices["tag"]] if self.choices["tag"] else [],
            entity=self.choices["entity"],
            unsettled=self.choices["about"] == "unsettled",
        )

    def result(self) -> MemoryPage:
        try:
            found = self._search() if self.q else self._list()
        except DomainError as error:
            return MemoryPage([], [], [], 0, "", None, error.message)
        if not self.filters.unsettled:
            return found
        records = [*found.records, *(hit.record for hit in found.hits)]
        return replace(found, offer=entity_assignment.offer(self.caller, records))

    def rows(self) -> QuerySet[MemoryRecord]:
        """Return all memories that the page shows, on whichever of its pages. Raises as `recall`."""
        if self.q:
            found = [hit.record.pk for hit in self._search().hits]
            return MemoryRecord.objects.visible_to(self.caller).filter(pk__in=found)
        order = "created_at" if self.sort == "oldest" else "-created_at"
        return visible_rows(self.caller, self.filters).order_by(order, "pk")

    def editable_rows(self) -> QuerySet[MemoryRecord]:
        """Return those of `rows` that the caller may change. Raises as `recall`."""
        return self.rows() if self.caller.is_admin else self.rows().filter(created_by=self.caller.email)

    def chips(self) -> list[Chip]:
        """Return the filters that are set, in the order of the facets."""
        chips = [Chip(gettext("Search"), self.q, self.without(q=""))] if self.q else []
        if self.author:
            chips.append(Chip(gettext("Author"), name_of(self.author), self.without(by="")))
        for name, value in self.choices.items():
            if value and (name, value) != ("status", Status.ACTIVE):
                chips.append(Chip(str(FACETS[name]), label(name, value), self.without(**{name: ""})))
        return chips

    def without(self, **changes: str) -> str:
        query = self.query_string(**changes)
        return reverse("my-knowledge") + (query if query != "?" else WHOLE)

    def _search(self) -> MemoryPage:
        as_of = validate(Moment, self.as_of, "as_of") if self.as_of else None
        result = recall(
            self.caller,
            RecallMemories.read({"query": self.q, "as_of": as_of, "limit": MAX_HITS}),
            filters=self.filters,
        )
        records = [hit.record for hit in result.hits]
        counts: dict[str, list[tuple[str, int | None]]] = {
            name: [*queries.facet_counts_of(records, COLUMNS.get(name, name))] for name in COUNTED
        }
        # All hits have the chosen status and owner, so memories with other statuses and owners can't be counted.
        counts["status"] = [(status, None) for status in LISTED]
        counts["owner"] = [("", None), ("me", None)]
        counts["about"] = [("unsettled", None)]
        editable = sum(1 for record in records if self.caller.can_edit_for(record.created_by))
        return MemoryPage(result.hits, [], self._facets(counts), len(records), "", result, editable=editable)

    def _list(self) -> MemoryPage:
        current_page = page(
            visible_rows(self.caller, self.filters).defer("search"),
            self.after,
            newest=self.sort == "newest",
        )
        counts = facets.counts(self.caller, self.filters)
        total = dict(counts["status"])[self.choices["status"]]
        next_query = self.query_string(after=current_page.after) if current_page.after else ""
        # Under the filter of another owner, the count of "me" is that of other rows.
        is_own = self.caller.is_admin or self.filters.owner == self.caller.email
        editable = total
        if not is_own:
            editable = 0 if self.filters.owner else dict(counts["owner"])["me"]
        facets_shown = self._facets(counts)
        rows = list(current_page.rows)
        return MemoryPage([], rows, facets_shown, total, next_query, None, editable=editable)

    def _facets(self, counts: Mapping[str, Sequence[tuple[str, int | None]]]) -> list[Facet]:
        shown = []
        lower_bounds = dict(counts.get("least", []))
        for name, title in FACETS.items():
            choice = self.choices[name]
            values = [] if name in FIXED else list(counts[name])
            if name in FIXED:
                options = [FacetOption(v, str(text), None, v == choice) for v, text in FIXED[name].items()]
            elif name == "about":
                options = [
                    FacetOption(v, str(ABOUT[v]), count, v == choice) for v, count in values if count != 0 or choice
                ]
                options = [FacetOption("", gettext("Any"), None, not choice), *options] if options else []
            elif name == "owner":
                options = [FacetOption(v, str(OWNERS[v]), count, v == choice) for v, count in values]
            else:
                if choice and choice not in dict(values):
                    values = [(choice, None), *values]
                options = [
                    FacetOption(v, label(name, v), count, v == choice, name in lower_bounds) for v, count in values
                ]
            if name in ("dimension", "category", "persona"):
                options.sort(key=lambda option: option.label)  # a fixed order, independent of the counts
            if name in COUNTED and options:
                options = [FacetOption("", gettext("Any"), None, not choice), *options]
            shown.append(Facet(name, str(title), options))
        return shown

    @property
    def is_narrowed(self) -> bool:
        return self.query_string() != "?"

    @property
    def address(self) -> str:
        query = self.query_string(as_of=self.as_of)
        return reverse("my-knowledge") + (WHOLE if query == "?" and self.is_whole else query)

    def query_string(self, **changes: str) -> str:
        params = {"q": self.q, "by": self.author, **self.choices, "sort": self.sort, **changes}
        defaults = {"status": Status.ACTIVE.value, "sort": "newest"}
        return "?" + urlencode({k: v for k, v in params.items() if v and defaults.get(k) != v})


def counted_stages(caller: Caller) -> dict[str, QuerySet[Any]]:
    """Return the rows whose numbers `stages` shows."""
    week = timezone.now() - timedelta(days=7)
    facts = visible_rows(caller, Filters()).facts()
    proposals = curation.proposed_by(caller)
    return {
        "in_memory": facts,
        "new_in_memory": facts.filter(created_at__gte=week),
        "in_review": proposals.filter(state__in=[InsightState.PENDING, InsightState.APPROVED]),
        "in_catalog": Insight.objects.visible_to(caller).filter(state=InsightState.APPLIED),
    }


def stages(counts: Mapping[str, int]) -> list[Stage]:
    """Return the stages Memory, Insight and Knowledge with their counts."""
    return [
        Stage(
            gettext("Memory"),
            counts["in_memory"],
            gettext("%(count)s new this week") % {"count": up_to(MAX_IN_STAGE, counts["new_in_memory"])},
            "my-knowledge",
        ),
        Stage(
            gettext("Insight"),
            counts["in_review"],
            ngettext("of your proposals is in progress", "of your proposals are in progress", counts["in_review"]),
            "my-insights",
        ),
        Stage(
            gettext("Knowledge"),
            counts["in_catalog"],
            ngettext("insight in the catalog", "insights in the catalog", counts["in_catalog"]),
            "knowledge",
        ),
    ]


def format_count(count: int) -> str:
    """Return the number, or the largest counted one with a "+" if counting stopped there."""
    return up_to(queries.MAX_COUNT, count)


def up_to(most: int, count: int) -> str:
    """Return the number, or `most` with a "+" if it is larger."""
    return f"{locale.number(most)}+" if count > most else locale.number(count)


def label(facet: str, value: str) -> str:
    if facet == "entity":
        return ".".join(short_name(value).split(".")[-2:])  # the last two parts of the name identify the entity
    if facet in ("tag", "persona"):
        return value
    fixed = {"owner": OWNERS, "status": STATUSES, "about": ABOUT, **FIXED}.get(facet, {})
    return str(fixed.get(value) or title_of(value))

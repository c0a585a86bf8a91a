"""Keyset pagination of memory lists, and facet counts in one statement."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from foundation.operations.errors import Invalid
from foundation.operations.paging import page
from foundation.people.caller import Caller
from memories import queries, services
from memories.models import MemoryRecord
from memories.operations import Forget, Remember
from memories.retrieval import facets
from memories.retrieval.filters import Filters, visible_rows

pytestmark = pytest.mark.django_db
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def facts(alice: Caller, bob: Caller, olga: Caller) -> list[MemoryRecord]:
    dice = random.Random(3)
    rows = []
    for n in range(60):
        rows.append(
            services.remember(
                dice.choice([alice, bob, olga]),
                Remember(
                    content=f"Fact {n} about the tills.",
                    dimension=dice.choice(["knowledge", "event"]),
                    category=dice.choice(["correction", "data_quality", "general"]),
                    tags=dice.sample(["tax", "till", "stock"], k=2),
                    visibility=dice.choice(["persona", "private", "everyone"]),
                ),
                created_at=START + timedelta(minutes=n // 3),
            ).record
        )
    for row in rows[::9]:
        services.forget(replace(alice, is_admin=True), Forget(record_id=row.pk))
    return rows


@pytest.mark.parametrize("newest", [True, False])
def test_pages_return_every_row_once_in_order(alice: Caller, facts: list[MemoryRecord], newest: bool) -> None:
    rows = visible_rows(alice, Filters())
    rows_read: list[MemoryRecord] = []
    after = ""
    while True:
        result = page(rows, after, newest=newest, size=7)
        rows_read += result.rows
        after = result.after
        if not after:
            break
    assert len({row.pk for row in rows_read}) == len(rows_read) == rows.count()
    times = [row.created_at for row in rows_read]
    assert times == sorted(times, reverse=newest)


@pytest.mark.parametrize("after", ["nonsense", "2026-01-01T00:00:00Z~nonsense", "~", "\x00~\x00"])
def test_an_invalid_cursor_is_rejected(alice: Caller, facts: list[MemoryRecord], after: str) -> None:
    with pytest.raises(Invalid) as caught:
        page(visible_rows(alice, Filters()), after)
    assert caught.value.field == "after"


@pytest.mark.parametrize(
    "filters",
    [
        Filters(),
        Filters(category="correction"),
        Filters(category="correction", tags=["tax"]),
        Filters(statuses=["archived"], dimension="event"),
        Filters(owner="alice@example.org", tags=["till"]),
    ],
)
def test_facets_count_the_matches_of_each_filter(
    alice: Caller, facts: list[MemoryRecord], filters: Filters, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        counted = facets.counts(alice, filters)

    def matching(**changed: Any) -> list[MemoryRecord]:
        return list(visible_rows(alice, replace(filters, **changed)))

    expected = {
        "dimension": Counter(row.dimension for row in matching(dimension="")),
        "category": Counter(row.category for row in matching(category="")),
        "persona": Counter(row.persona for row in matching(persona="")),
        "tag": Counter(tag for row in matching(tags=()) for tag in row.tags),
        "entity": Counter(urn for row in matching(entity="") for urn in row.entity_urns),
        "status": Counter({s: len(matching(statuses=[s])) for s in ("active", "stale", "superseded", "archived")}),
        "owner": Counter({"": len(matching(owner="")), "me": len(matching(owner="alice@example.org"))}),
        "about": Counter({"unsettled": len(matching(unsettled=True))}),
    }
    assert counted.pop("least") == []
    assert {name: Counter(dict(values)) for name, values in counted.items()} == expected


def test_facets_of_many_rows_are_lower_bounds_from_the_newest(
    alice: Caller, facts: list[MemoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facets, "MAX_ROWS", 5)
    counted = facets.counts(alice, Filters())
    assert sum(n for _, n in counted["category"]) == 5
    assert dict(counted["least"]).keys() == facets.FACETS.keys()
    total = visible_rows(alice, Filters()).count()
    assert dict(counted["status"])["active"] == total > 5
    filtered = facets.counts(alice, Filters(category="correction"))
    assert [name for name, _ in filtered["least"]] == ["category"]
    assert sum(n for _, n in filtered["dimension"]) == visible_rows(alice, Filters(category="correction")).count()


def test_hostile_filters_are_treated_as_data(alice: Caller, facts: list[MemoryRecord]) -> None:
    counted = facets.counts(alice, Filters(category="'; DROP TABLE memory_records; --", tags=["%s", "{x}"]))
    assert counted["tag"] == []
    assert MemoryRecord.objects.count() == 60


def test_several_counts_need_one_query(
    alice: Caller, facts: list[MemoryRecord], django_assert_num_queries: Any
) -> None:
    rows = visible_rows(alice, Filters())
    with django_assert_num_queries(1):
        counted = queries.capped_counts(all=rows, none=rows.filter(pk__in=[]), tax=rows.filter(tags__contains=["tax"]))
    assert counted["all"] == rows.count()
    assert counted["tax"] == rows.filter(tags__contains=["tax"]).count()

"""Queries of ingested records: conditions, aggregates, rows, descriptions and samples, compared with plain Python."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import rendering, sessions
from analysis.models import IngestedRecord, Session
from analysis.operations import Describe
from analysis.querying import description, query, sampling
from analysis.querying.query import scope
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from tests.analysis.conftest import Hold

pytestmark = pytest.mark.django_db

ODD: list[dict[str, Any]] = [
    {"id": 1, "amount": 5, "at": "2026-01-01", "tags": ["a", "b"], "name": "Alpha", "gap": None},
    {"id": 2, "amount": "10", "at": "2026-02-01T10:00:00+02:00", "tags": ["b"], "name": "Beta beta"},
    {"id": 3, "amount": "N/A", "at": "soon", "tags": "b", "name": "null", "gap": "null"},
    {"id": 4, "amount": "", "at": "", "name": None},
    {"id": 5, "amount": 50.5, "at": "2026-03-01T00:00:00Z", "name": "100%_sure"},
    {"id": 6, "at": None, "name": "constructor"},
    {"id": 7, "amount": "Infinity", "at": "infinity", "name": "NaN"},
    {"id": 8, "amount": True, "at": "2026-13-45", "name": {"first": "x"}},
]


def matching_ids(session: Session, conditions: dict[str, Any]) -> set[int]:
    return {row["id"] for row in query.filtered(scope(session, "", conditions), limit=200).rows}


def test_dates_with_points_have_the_day_first_and_others_are_no_dates(hold: Hold) -> None:
    """With slashes, the order depends on the country, so such a text is no date."""
    texts = ["01.02.2025", "31.12.2024", "2025-01-02", "01/02/2025", "1.2.25", "32.01.2025"]
    session = hold([{"id": number, "at": text} for number, text in enumerate(texts)])
    assert matching_ids(session, {"at": {"$gte": "2025-01-15"}}) == {0}
    assert matching_ids(session, {"at": {"$lt": "2025-01-15"}}) == {1, 2}
    for text in ("1.2.10", "10.0.10.5", "10-20-30-A"):  # a version, an address and a code
        matching_ids(session, {"at": {"$gt": text}})
    for wrong in ("01.11.2026", "11/28/2026", "1-2-2026 10:00"):
        with pytest.raises(Invalid, match="is a date in another form; allowed: ISO 8601"):
            matching_ids(session, {"at": {"$gt": wrong}})


def test_an_operator_without_its_sign_is_refused(hold: Hold) -> None:
    session = hold([{"id": 1, "n": 2, "of": {"in": 3}}])
    with pytest.raises(Invalid, match=r"did you mean \$gt\?"):
        matching_ids(session, {"n": {"gt": 1}})
    assert matching_ids(session, {"of": {"in": 3}}) == {1}


def test_a_part_number_is_no_number(hold: Hold) -> None:
    session = hold([{"id": 1, "nr": "1E8001"}, {"id": 2, "nr": "0.5"}])
    assert matching_ids(session, {"nr": {"$gt": 0}}) == {2}


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        ({"amount": {"$gte": 10}}, {2, 5}),
        ({"amount": {"$gte": "10"}}, {2, 5}),  # compared as numbers; as texts, 5 would be greater than 10
        ({"amount": {"$gt": 5, "$lt": 50}}, {2}),
        ({"amount": {"$lte": -1}}, set()),
        ({"at": {"$gte": "2026-02-01"}}, {2, 5}),
        ({"at": {"$lt": "2026-02-01T08:30:00Z"}}, {1, 2}),
        ({"amount": 5}, {1}),
        ({"amount": "10"}, {2}),
        ({"gap": None}, {1}),
        ({"gap": {"$exists": True}}, {1, 3}),
        ({"amount": {"$exists": False}}, {6}),
        ({"tags": ["b"]}, {1, 2}),
        ({"tags": {"$contains": "b"}}, {1, 2, 3}),
        ({"name": {"$contains": "BETA"}}, {2}),
        ({"name": {"$contains": "%_s"}}, {5}),
        ({"name": {"first": "x"}}, {8}),
        ({"id": {"$in": [1, 3, 99]}}, {1, 3}),
        ({"id": {"$in": []}}, set()),
        ({"id": {"$nin": [1, 2, 3, 4]}}, {5, 6, 7, 8}),
        ({"amount": {"$ne": 5}}, {2, 3, 4, 5, 6, 7, 8}),
        ({"amount": {"$eq": 50.5}}, {5}),
        # values that can't be compared match neither the condition nor its negation
        ({"amount": {"$not": {"$gte": 10}}}, {1}),
        ({"$or": [{"id": 1}, {"amount": {"$gt": 50}}]}, {1, 5}),
        ({"$and": [{"id": {"$gte": 2}}, {"id": {"$lte": 3}}]}, {2, 3}),
        ({"$not": {"id": {"$gte": 2}}}, {1}),
    ],
)
def test_conditions(hold: Hold, conditions: dict[str, Any], ids: set[int]) -> None:
    assert matching_ids(hold(ODD), conditions) == ids


def test_values_that_cannot_be_compared_are_counted(hold: Hold) -> None:
    session = hold(ODD)
    rows = query.filtered(scope(session, "", {"amount": {"$gte": 0}}))
    assert rows.total == 3
    assert rows.uncastable == {"amount": 4}  # N/A, the empty text, Infinity, true
    assert query.filtered(scope(session, "", {"at": {"$gte": "2020-01-01"}})).uncastable == {"at": 4}
    assert query.filtered(scope(session, "", {"id": 1})).uncastable == {}


def test_only_decimal_notation_is_a_number(hold: Hold) -> None:
    numbers = ["31", " 7 ", "-1.5", "+2", ".5", "5.", "1e3", "2E-1"]
    others = [
        "0x1F",
        "0b11",
        "0o17",
        "1_000",
        "1,000",
        "NaN",
        "infinity",
        "٣",
        "1e",
        "e5",
        ".",
        "--1",
        "1e999999",
        "1 2",
    ]
    session = hold([{"id": value, "size": value, "kind": "x"} for value in numbers + others])
    selection = scope(session, "", {"size": {"$gte": -100}})
    found = query.filtered(selection, sort="size")
    assert [row["id"] for row in found.rows] == sorted(numbers, key=float)
    assert found.uncastable == {"size": len(others)}
    (group,) = query.aggregate(selection, "kind", metrics=[{"op": "sum", "field": "size"}]).groups
    assert group.metrics["sum(size)"] == sum(map(float, numbers))


@pytest.mark.parametrize(
    ("conditions", "field", "message"),
    [
        ({"a": {"$near": 1}}, "where.a", "$contains"),
        ({"a": {"$gte": 1, "$near": 1}}, "where.a", "not an operator"),
        ({"$nor": []}, "where", "not an operator"),
        ({"$or": []}, "where.$or", "list of conditions"),
        ({"a" * 201: {"$gt": 1}}, f"where.{'a' * 201}.$gt", "not a valid field name"),
        ({"": {"$gt": 1}}, "where..$gt", "not a valid field name"),
        ({"a": {"$gt": None}}, "where.a.$gt", "can't be ordered"),
        ({"a": {"$gt": True}}, "where.a.$gt", "can't be ordered"),
        ({"a": {"$gt": "2026-99-99"}}, "where.a.$gt", "not a time"),
        ({"a": {"$in": 1}}, "where.a.$in", "list"),
        ({"a": {"$exists": 1}}, "where.a.$exists", "true nor false"),
        ({"a": "x\x00"}, "where.a", "NUL"),
        ({"a": {"$contains": "x\x00"}}, "where.a.$contains", "NUL"),
        ({"a": math.nan}, "where.a", "finite"),
    ],
)
def test_an_error_names_the_invalid_condition(hold: Hold, conditions: dict[str, Any], field: str, message: str) -> None:
    session = hold(ODD)
    with pytest.raises(Invalid) as caught:
        scope(session, "", conditions)
    assert (caught.value.field, message in caught.value.message) == (field, True), caught.value.message


@pytest.mark.parametrize("name", ["'; DROP TABLE ingested_records; --", "%s", "{x}", 'a" -> b', "a' OR '1'='1"])
def test_hostile_names_and_values_are_treated_as_data(hold: Hold, name: str) -> None:
    session = hold([{"id": 1, name: name}, {"id": 2}])
    assert matching_ids(session, {name: name}) == {1}
    assert matching_ids(session, {name: {"$contains": name}}) == {1}
    assert matching_ids(session, {name: {"$exists": False}}) == {2}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(values=st.lists(json_values, min_size=1, max_size=12), pivot=st.integers(-100, 100))
def test_no_value_breaks_a_comparison(hold: Hold, values: list[Any], pivot: int) -> None:
    """For any values, a comparison succeeds, and no row matches both a condition and its negation."""
    IngestedRecord.objects.all().delete()
    session = hold([{"id": n, "v": value} for n, value in enumerate(values)])
    for condition in ({"$gte": pivot}, {"$lt": "2026-01-01"}, {"$contains": "a"}, {"$ne": None}, {"$in": [1, "x"]}):
        matching, excluded = matching_ids(session, {"v": condition}), matching_ids(session, {"v": {"$not": condition}})
        assert not matching & excluded
        if "$gte" not in condition and "$lt" not in condition:
            assert matching | excluded == set(range(len(values)))
    numbers = {n for n, value in enumerate(values) if isinstance(value, int) and not isinstance(value, bool)}
    assert {n for n in numbers if values[n] >= pivot} <= matching_ids(session, {"v": {"$gte": pivot}})


# -- rows --------------------------------------------------------------------------------------------------------


def test_rows_keep_the_order_in_which_they_arrived(hold: Hold) -> None:
    arrived = [10, 9, 100, 1, "b", "a", 55, 2]
    session = hold([{"id": record_id} for record_id in arrived])
    hold([{"id": 7}, {"id": 100}, {"id": 3}])  # 100 is known, and keeps its place
    found = query.filtered(scope(session, "", None))
    assert [row["id"] for row in found.rows] == [*arrived, 7, 3]


def test_rows_are_paged_sorted_and_projected(hold: Hold) -> None:
    session = hold([{"id": n, "rank": str(100 - n), "x": n} for n in range(45)])
    selection = scope(session, "", {"x": {"$gte": 0}})
    ids: list[int] = []
    cursor = ""
    while True:
        page = query.filtered(selection, sort="rank", cursor=cursor, fields=["id"])
        ids += [row["id"] for row in page.rows]
        assert page.total == 45
        cursor = page.cursor
        if not cursor:
            break
    assert ids == list(range(44, -1, -1))  # sorted as the numbers 56 to 100
    assert set(page.rows[0]) == {"id"}
    assert query.filtered(selection, sort="-rank").rows[0]["id"] == 0


@pytest.mark.parametrize(
    ("arguments", "field"),
    [({"limit": 0}, "limit"), ({"limit": 201}, "limit"), ({"cursor": "x"}, "cursor"), ({"sort": "a b"}, "sort")],
)
def test_an_error_names_the_invalid_page_argument(hold: Hold, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        query.filtered(scope(hold(ODD), "", None), **arguments)
    assert caught.value.field == field


# -- aggregate -----------------------------------------------------------------------------------------------------


def test_null_and_the_word_null_are_two_groups(hold: Hold) -> None:
    result = query.aggregate(scope(hold(ODD), "", None), "gap")
    assert {(group.values[0], group.count) for group in result.groups} == {(None, 7), ("null", 1)}
    assert sum(group.count for group in result.groups) == result.total == 8


def test_metrics_equal_those_of_python(hold: Hold) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "g": n % 3, "v": n * 1.5 if n % 4 else "odd"} for n in range(60)]
    metrics: list[dict[str, Any]] = [{"op": op, "field": "v"} for op in ("count", "sum", "avg", "min", "max")]
    metrics[4] = {"op": "percentile", "field": "v", "p": 0.5}
    result = query.aggregate(scope(hold(rows), "", None), "g", metrics=metrics)
    assert result.uncastable == {"v": 15}
    for group in result.groups:
        values = [row["v"] for row in rows if str(row["g"]) == group.values[0] and row["v"] != "odd"]
        assert group.metrics["count(v)"] == len([row for row in rows if str(row["g"]) == group.values[0]])
        assert math.isclose(group.metrics["sum(v)"], sum(values))
        assert math.isclose(group.metrics["avg(v)"], statistics.fmean(values))
        assert math.isclose(group.metrics["p50(v)"], statistics.median(values))


def test_groups_beyond_top_n_are_counted(hold: Hold) -> None:
    result = query.aggregate(scope(hold([{"id": n, "v": n // 2} for n in range(500)]), "", None), "v", top_n=10)
    assert (len(result.groups), result.total, result.other_groups, result.other_count) == (10, 500, 240, 480)


def test_records_are_grouped_by_several_fields_within_conditions(hold: Hold) -> None:
    rows = [{"id": n, "a": n % 2, "b": n % 3} for n in range(30)]
    result = query.aggregate(scope(hold(rows), "", {"id": {"$lt": 12}}), ["a", "b"])
    expected = Counter((str(row["a"]), str(row["b"])) for row in rows if row["id"] < 12)
    assert {tuple(group.values): group.count for group in result.groups} == expected


@pytest.mark.parametrize(
    ("bucket", "expected"),
    [
        ("1 day", {"2026-01-31T00:00:00Z": 2, "2026-02-28T00:00:00Z": 1, "2025-12-31T00:00:00Z": 1}),
        ("1 month", {"2026-01-01T00:00:00Z": 2, "2026-02-01T00:00:00Z": 1, "2025-12-01T00:00:00Z": 1}),
        ("1 quarter", {"2026-01-01T00:00:00Z": 3, "2025-10-01T00:00:00Z": 1}),
        ("1 year", {"2026-01-01T00:00:00Z": 3, "2025-01-01T00:00:00Z": 1}),
        ("2 years", {"2025-01-01T00:00:00Z": 4}),
    ],
)
def test_dates_are_grouped_into_buckets_of_days_to_years(hold: Hold, bucket: str, expected: dict[str, int]) -> None:
    dates = ["2026-01-31T23:59:59Z", "2026-01-31", "2026-02-28T12:00:00Z", "2026-01-01T00:30:00+02:00", "never"]
    dates[3] = "2025-12-31T23:30:00Z"
    session = hold([{"id": n, "at": date} for n, date in enumerate(dates)])
    result = query.aggregate(scope(session, "", None), [{"field": "at", "bucket": bucket}])
    counts = {group.values[0]: group.count for group in result.groups}
    assert counts.pop(None) == 1
    assert counts == expected
    assert result.uncastable == {"at": 1}


@pytest.mark.parametrize("bucket", ["0 days", "1 fortnight", "0 months", "1 day; DROP TABLE x", "-1 day"])
def test_an_invalid_interval_is_rejected(hold: Hold, bucket: str) -> None:
    with pytest.raises(Invalid, match="Invalid interval"):
        query.aggregate(scope(hold(ODD), "", None), [{"field": "at", "bucket": bucket}])


# -- describe --------------------------------------------------------------------------------------------------------


def test_describe_returns_types_and_missing_values(alice: Caller, hold: Hold) -> None:
    summary = description.describe(scope(hold(ODD), "", None))
    by_name = {field.name: field for field in summary.fields}
    assert (summary.rows_read, summary.total, summary.more_fields) == (8, 8, 0)
    assert by_name["amount"].types == {"number": 2, "string": 4, "boolean": 1}
    assert (by_name["amount"].missing, by_name["gap"].missing) == (1, 6)
    text = rendering.describe_answer(alice, Session.objects.get(), Describe(analysis_id="audit")).text
    assert "| amount |" in text
    assert '"mode": "filter"' in text


def test_several_models_are_never_mixed(alice: Caller, hold: Hold) -> None:
    hold([{"id": 1}], model="book")
    session = hold([{"id": 1}, {"id": 2}], model="review")
    with pytest.raises(Invalid, match="book, review"):
        scope(session, "", None)
    assert query.filtered(scope(session, "review", None)).total == 2
    assert "book: 1 records" in rendering.describe_answer(alice, session, Describe(analysis_id="audit")).text


# -- samples -----------------------------------------------------------------------------------------------------------

populations = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e", None]), st.integers(1, 25), min_size=1)


@settings(max_examples=60)
@given(groups=populations, size=st.integers(1, 50), seed=st.integers(0, 2**31))
def test_a_stratified_sample_is_full_even_and_reproducible(
    hold: Hold, groups: dict[str | None, int], size: int, seed: int
) -> None:
    IngestedRecord.objects.all().delete()
    rows = [{"id": f"{name}{n}", "g": name} for name, count in groups.items() for n in range(count)]
    if None in groups and len(rows) > 1 and rows[-1]["g"] is None:
        rows[-1].pop("g")  # a missing field and a null belong to the same group
    selection = scope(hold(rows), "", None)
    result = sampling.sample(selection, size=size, stratify_by="g", seed=seed)
    drawn = Counter(row.get("g") for row in result.rows)
    # no duplicates, and as many rows as are available
    assert len(result.rows) == len({row["id"] for row in result.rows}) == min(size, len(rows))
    if size >= len(groups):
        assert set(drawn) == set(groups)  # every group is represented
    even = [count for name, count in drawn.items() if count < groups[name]]
    assert not even or max(drawn.values()) - min(even) <= 1  # evenly, unless a group has too few rows
    assert sampling.sample(selection, size=size, stratify_by="g", seed=seed).rows == result.rows


def test_samples_of_many_seeds_include_every_row(hold: Hold) -> None:
    selection = scope(hold([{"id": n} for n in range(40)]), "", None)
    drawn = {row["id"] for seed in range(60) for row in sampling.sample(selection, size=5, seed=seed).rows}
    assert drawn == set(range(40))


def test_strata_conditions_and_proximity_can_be_combined(hold: Hold) -> None:
    origin = datetime(2026, 3, 15, tzinfo=UTC)
    rows = [
        {"id": n, "s": "xy"[n % 2], "v": n, "at": (origin + timedelta(days=n - 60)).isoformat()} for n in range(120)
    ]
    rows.append({"id": 999, "s": "x", "v": 50, "at": "no date"})
    near = {"field": "at", "origin": "2026-03-15", "window": "14 days", "bucket": "1 week"}
    selection = scope(hold(rows), "", {"v": {"$gte": 50}})
    result = sampling.sample(selection, size=12, stratify_by="s", proximity=near, seed=1)
    assert len(result.rows) == 12
    for row in result.rows:
        assert row["v"] >= 50
        assert abs(datetime.fromisoformat(row["at"]) - origin) <= timedelta(days=14)
    weeks = {(row["s"], (datetime.fromisoformat(row["at"]) - origin).days // 7) for row in result.rows}
    assert len(weeks) >= 6
    assert result.uncastable == {"at": 1}


def test_a_proximity_window_may_be_months(hold: Hold) -> None:
    rows = [{"id": n, "at": f"2026-{n:02d}-15"} for n in range(1, 13)]
    near = {"field": "at", "origin": "2026-06-15", "window": "2 months", "bucket": "1 month"}
    result = sampling.sample(scope(hold(rows), "", None), size=50, proximity=near)
    assert sorted(row["id"] for row in result.rows) == [4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("near", "field"),
    [
        ({"field": "at", "origin": "soon", "window": "1 day"}, "proximity.origin"),
        ({"field": "at", "origin": "2026-01-01", "window": "often"}, "proximity.window"),
        ({"field": "at", "origin": "2026-01-01"}, "proximity.window"),
        ({"field": "a b", "origin": "2026-01-01", "window": "1 day"}, "proximity.field"),
        ({"feld": "at"}, "proximity"),
    ],
)
def test_an_error_names_the_invalid_proximity_field(hold: Hold, near: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        sampling.sample(scope(hold(ODD), "", None), proximity=near)
    assert caught.value.field == field


# -- ownership and expiry ----------------------------------------------------------------------------------------------


def test_only_its_owner_reads_or_clears_a_session(alice: Caller, bob: Caller, ada: Caller, hold: Hold) -> None:
    hold(ODD)
    for stranger in (bob, ada):  # not even an admin may query it
        with pytest.raises(NotFound):
            sessions.get_session(stranger, "audit")
        assert sessions.clear(stranger, analysis_id="audit") == (0, 0)
    assert IngestedRecord.objects.count() == 8
    assert sessions.clear(alice, analysis_id="audit") == (8, 0)


def test_expired_records_are_hidden_and_deleted(alice: Caller, hold: Hold) -> None:
    session = hold(ODD)
    IngestedRecord.objects.filter(record_id="1").update(expires_at=session.created_at)
    assert sessions.models_of(session) == {"book": 7}
    assert 1 not in matching_ids(session, {"id": {"$gte": 0}})
    assert sessions.delete_expired_sessions() == 1

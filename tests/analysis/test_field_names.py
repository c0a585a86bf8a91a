"""Fields with any name, and values in nested objects, in every part of a query."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import export, rendering
from analysis.ingest import ingest
from analysis.models import IngestedRecord
from analysis.operations import Describe, Export, IngestRecords
from analysis.querying import query, sampling
from analysis.querying.query import scope
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from tests.analysis.conftest import Hold
from tests.fake_rest_api import Api

pytestmark = pytest.mark.django_db

NAMES = [
    "Order Date",
    "größe",
    "nested.a.b",
    "a-b",
    "%s",
    "{0}",
    "'; DROP TABLE x; --",
    'x"y',
    "a..b",
    ".",
    "1",
    "数量",
]


def row(number: int, name: str, nested: bool = False) -> dict[str, Any]:
    value: Any = number
    if not nested:
        return {"id": number, name: value}
    for part in reversed(name.split(".")):
        value = {part: value}
    return {"id": number, **value}


def check_every_part_of_a_query(selection: Any, name: str) -> None:
    """Query ten rows whose field `name` has the values 0 to 9."""

    def ids(conditions: dict[str, Any]) -> list[int]:
        narrowed = scope(selection.session, "", conditions)
        return [found["id"] for found in query.filtered(narrowed, sort=f"-{name}").rows]

    metrics = [{"op": "sum", "field": name}, {"op": "count", "field": name}]
    groups = query.aggregate(selection, name, metrics=metrics).groups
    assert {(group.values[0], group.metrics[f"sum({name})"]) for group in groups} == {(str(n), n) for n in range(10)}
    assert ids({}) == list(range(9, -1, -1))
    assert ids({name: {"$gte": 7}}) == [9, 8, 7]
    assert ids({name: {"$not": {"$gte": 1}}}) == [0]
    assert ids({name: 4}) == ids({name: {"$in": [4]}}) == ids({name: {"$contains": "4"}}) == [4]
    assert ids({name: {"$exists": True, "$ne": 4}}) == [9, 8, 7, 6, 5, 3, 2, 1, 0]
    assert query.filtered(selection, fields=[name], limit=1).rows == [{name: 0}]
    assert len(sampling.sample(selection, size=10, stratify_by=name).rows) == 10


@pytest.mark.parametrize("name", NAMES)
def test_a_field_can_have_any_name(hold: Hold, name: str) -> None:
    check_every_part_of_a_query(scope(hold([row(n, name) for n in range(10)]), "", None), name)


@pytest.mark.parametrize("name", ["nested.a.b", "größe.in cm"])
def test_dots_lead_to_values_in_nested_objects(hold: Hold, name: str) -> None:
    check_every_part_of_a_query(scope(hold([row(n, name, nested=True) for n in range(10)]), "", None), name)


@settings(max_examples=30)
@given(
    name=st.text(min_size=1, max_size=20).filter(lambda name: name != "id" and name.isprintable() and name[0] != "$")
)
def test_no_name_breaks_a_query(hold: Hold, name: str) -> None:
    IngestedRecord.objects.all().delete()
    check_every_part_of_a_query(scope(hold([row(n, name) for n in range(10)]), "", None), name)


def test_dates_with_any_field_name_are_bucketed_and_near(hold: Hold) -> None:
    dates = ["2026-01-05", "2026-01-20", "2026-02-01"]
    session = hold([{"id": n, "Order Date": date, "order": {"placed at": date}} for n, date in enumerate(dates)])
    for name in ("Order Date", "order.placed at"):
        result = query.aggregate(scope(session, "", None), {"field": name, "bucket": "month"})
        assert [group.count for group in result.groups] == [2, 1]
        near = {"field": name, "origin": "2026-01-06", "window": "3 days", "bucket": "1 day"}
        assert [found["id"] for found in sampling.sample(scope(session, "", None), proximity=near).rows] == [0]


def test_a_name_with_dots_prefers_the_field_of_this_name(hold: Hold) -> None:
    session = hold([{"id": 1, "a.b": "flat", "a": {"b": "nested"}}])
    result = query.aggregate(scope(session, "", None), "a.b")
    assert [group.values for group in result.groups] == [["flat"]]


@pytest.mark.parametrize("name", ["Order date", "nested.a.c", "nested.b"])
def test_an_unknown_name_is_an_error(hold: Hold, name: str) -> None:
    session = hold([{"id": 1, "Order Date": 1, "nested": {"a": {"b": 1}}}])
    with pytest.raises(Invalid, match="has a field"):
        scope(session, "", {name: {"$gt": 1}})


def test_examples_of_describe_use_the_names_as_they_are(alice: Caller, hold: Hold) -> None:
    session = hold([{"id": n, "Größe (cm)": "SM"[n % 2]} for n in range(10)])
    text = rendering.describe_answer(alice, session, Describe(analysis_id="audit")).text
    assert '"group_by": "Größe (cm)"' in text


def test_exports_hold_fields_of_any_name(alice: Caller, hold: Hold) -> None:
    hold([{"id": 1, "Order Date": "2026-01-05", "nested": {"a": {"b": 7}}}])
    names = ["nested.a.b", "Order Date"]
    for format, expected in (("csv", '7,2026-01-05"'), ("jsonl", '{"nested.a.b": 7, "Order Date": "2026-01-05"}')):
        operation = Export.read({"analysis_id": "audit", "format": format, "fields": names})
        file, _ = export.prepare(alice, operation)
        assert expected.strip('"') in "".join(export.lines(file))


def test_an_ingest_of_a_nested_field_keeps_its_object(api: Api, alice: Caller) -> None:
    api.books = {"1": {"id": 1, "title": "x", "size": {"cm": {"high": 20}}}}
    ingest(alice, IngestRecords.read({"analysis_id": "a", "model": "book", "fields": ["size.cm.high"]}))
    assert IngestedRecord.objects.get().data == {"id": 1, "size": {"cm": {"high": 20}}}


@pytest.mark.parametrize("text", ["😀", "\U00016800", "\\u0000", "\\ud83d"])
def test_values_outside_the_basic_plane_and_texts_about_escapes_are_compared(hold: Hold, text: str) -> None:
    session = hold([{"id": 1, "mood": text}, {"id": 2, "mood": "other"}])
    assert [row["id"] for row in query.filtered(scope(session, "", {"mood": text})).rows] == [1]


@pytest.mark.parametrize("text", ["a\x00", "\ud83d"])
def test_values_that_no_record_can_have_are_refused(hold: Hold, text: str) -> None:
    with pytest.raises(Invalid, match="NUL character or half"):
        scope(hold([{"id": 1, "mood": "calm"}]), "", {"mood": text})

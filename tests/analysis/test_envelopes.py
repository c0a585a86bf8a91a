"""What responses of REST APIs say about their records and their size, in the forms in which public APIs say it."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.sources.envelopes import NoRows, PageOf, unwrap

ROWS = [{"id": number} for number in range(10)]


def read(body: Any, envelope: str = "auto", *, is_first: bool = True) -> PageOf:
    return unwrap(body, {}, envelope, 10, is_first=is_first)


@pytest.mark.parametrize(
    "body",
    [
        {"errors": [], "messages": [], "success": True, "result": ROWS},
        {"errors": [], "orders": ROWS},
        {"facets": [], "filters": [{"name": "color"}], "products": ROWS},
        {"included": [{"id": "x"}], "orders": ROWS},
        {"@odata.context": "x", "value": ROWS},
        {"size": 10, "values": ROWS},
    ],
)
def test_the_records_are_not_what_stands_beside_them(body: dict[str, Any]) -> None:
    assert read(body).rows == ROWS


def test_an_empty_list_before_a_full_one_is_not_taken_for_the_records() -> None:
    with pytest.raises(NoRows, match="its list 'tags' is empty, and its list 'things' may not be the records"):
        read({"tags": [], "things": ROWS})
    assert read({"things": [], "tags": ROWS}, is_first=False).rows == []


@pytest.mark.parametrize(
    "stated",
    [
        {"totalCount": 1_015},
        {"totalItems": 1_015},
        {"@odata.count": 1_015},
        {"total": 1_015.0},
        {"total": "1,015"},
        {"pagination": {"total_results": 1_015}},
        {"result_info": {"total_count": 1_015}},
    ],
)
def test_totals_of_every_form_are_read(stated: dict[str, Any]) -> None:
    assert read({**stated, "data": ROWS}).total == 1_015


@pytest.mark.parametrize("value", ["NaN", float("nan"), float("inf"), -1, 1.5, True, "1,00", "x"])
def test_other_values_are_no_totals(value: Any) -> None:
    assert read({"total": value, "data": ROWS}).total is None


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"pagination": {"has_next": "true"}}, True),
        ({"has_more": "false"}, False),
        ({"paging": {"next": {"after": "10"}}}, True),
        ({"next": 2, "results": ROWS}, True),
        ({"next": True, "results": ROWS}, True),
        ({"next": False, "results": ROWS}, False),
    ],
)
def test_whatever_says_that_there_is_more_is_heard(stated: dict[str, Any], expected: bool) -> None:
    page = read({"data": ROWS, **stated})
    assert page.has_more is expected
    assert not page.next


def test_a_link_within_an_object_is_followed() -> None:
    link = "http://127.0.0.1/contacts?after=10"
    assert read({"results": ROWS, "paging": {"next": {"after": "10", "link": link}}}).next == link


@pytest.mark.parametrize("body", [{"nextPageToken": "b"}, {"response_metadata": {"next_cursor": "b"}}])
def test_cursors_are_found_where_apis_put_them(body: dict[str, Any]) -> None:
    assert read({**body, "items": ROWS}, "cursor").cursor == "b"
    assert read({"items": ROWS}, "cursor").cursor is None
    assert read({"items": ROWS}, "cursor", is_first=False).cursor == ""


@pytest.mark.parametrize(
    "body",
    [
        {"status": "error", "message": "bad key", "data": []},
        {"success": False, "message": "bad key", "result": []},
        {"error": "bad key", "items": []},
    ],
)
def test_an_error_with_the_status_of_success_is_one(body: dict[str, Any]) -> None:
    with pytest.raises(NoRows, match="it states an error: bad key"):
        read(body)


@pytest.mark.parametrize("envelope", ["auto", "hal"])
def test_a_collection_without_records_may_leave_them_out(envelope: str) -> None:
    body = {"_links": {"self": {"href": "/orders"}}, "page": {"totalElements": 0, "totalPages": 0}}
    assert read(body, envelope).rows == []

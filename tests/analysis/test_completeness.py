"""Rows that are stored, repeated or skipped, and downloads that a server cuts short."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import child_ingest, rendering
from analysis import ingest as ingesting
from analysis.models import Ingest, IngestedRecord
from analysis.operations import IngestChildren, IngestRecords
from foundation.people.caller import Caller
from tests.fake_rest_api import Api

pytestmark = pytest.mark.django_db


def everything(caller: Caller, **overrides: Any) -> ingesting.IngestResult:
    arguments = {"analysis_id": "audit", "model": "book", "ingest_all": True, "per_page": 50}
    return ingesting.ingest(caller, IngestRecords.read({**arguments, **overrides}))


def check_incomplete(result: ingesting.IngestResult, reason: str) -> None:
    answer = rendering.ingest_answer(result)
    assert not result.complete
    assert not answer.data["complete"]
    assert reason in answer.data["error"]
    assert f"Incomplete: {answer.data['error']}" in answer.text
    assert Ingest.objects.get().state == "partial"


def without_ids(count: int) -> dict[str, dict[str, Any]]:
    return {str(n): {"title": f"Book {n}"} for n in range(count)}


@pytest.mark.parametrize("books", [None, without_ids(130)])
@pytest.mark.parametrize(
    "meta",
    [
        pytest.param(lambda rows, total: {}, id="no totals"),
        pytest.param(lambda rows, total: {"count": rows}, id="the page's number of rows"),
        pytest.param(lambda rows, total: {"total_count": total, "total_pages": -(-total // 50)}, id="too few pages"),
    ],
)
def test_pages_shorter_than_requested_are_read_to_the_end(alice: Caller, api: Api, books: Any, meta: Any) -> None:
    api.fill(130)
    api.books, api.page_cap, api.meta = books or api.books, 20, meta
    result = everything(alice)
    assert (result.records, result.complete, result.repeated, result.skipped) == (130, True, 0, 0)
    assert IngestedRecord.objects.count() == 130


@pytest.mark.parametrize("books", [None, without_ids(130)])
def test_a_server_that_returns_one_page_again_and_again_is_never_complete(alice: Caller, api: Api, books: Any) -> None:
    api.fill(130)
    api.books, api.page_cap, api.hides_totals, api.ignores_page = books or api.books, 20, True, True
    for resume in (False, True):  # a resume stores nothing twice
        result = everything(alice, resume=resume)
        check_incomplete(result, "page 2 has no other rows than the pages before it")
        assert result.repeated == 20
        assert IngestedRecord.objects.count() == 20


@pytest.mark.parametrize("envelope", ["data_meta", "drf", "hal"])
def test_a_server_whose_paging_does_not_advance_is_measured_by_its_total(
    alice: Caller, api: Api, envelope: str
) -> None:
    api.fill(130)
    api.envelope, api.page_cap, api.ignores_page = envelope, 20, True
    api.meta = lambda rows, total: {"total": total}
    result = everything(alice)
    reason = "has no other rows" if envelope == "hal" else "reports 130 records, but delivered 20"
    check_incomplete(result, reason)
    assert (result.records, IngestedRecord.objects.count()) == (20, 20)


def test_a_server_that_stops_before_its_total_is_not_complete(alice: Caller, api: Api) -> None:
    api.fill(130)
    api.last_page = 2
    check_incomplete(everything(alice), "reports 130 records, but delivered 100")
    api.last_page = 10
    assert everything(alice, resume=True).complete
    assert IngestedRecord.objects.count() == 130


def test_announced_pages_that_are_empty_are_named(alice: Caller, api: Api) -> None:
    api.fill(130)
    api.last_page, api.meta = 1, lambda rows, total: {"total_pages": 3}
    check_incomplete(everything(alice), "reports 3 pages, but returned no rows for page 2, 3")


def test_a_cursor_that_ends_before_the_total_is_not_complete(alice: Caller, api: Api) -> None:
    api.envelope, api.last_page = "cursor", 1
    for _ in range(2):
        check_incomplete(everything(alice, resume=True), "reports 120 records, but delivered 50")
    api.last_page = 10
    assert everything(alice, resume=True).complete
    assert IngestedRecord.objects.count() == 120


@pytest.mark.parametrize("envelope", ["cursor", "link"])
def test_an_empty_page_with_a_next_page_does_not_end_a_download(alice: Caller, api: Api, envelope: str) -> None:
    api.envelope, api.empty_pages = envelope, {2}
    for resume in (False, True):
        result = everything(alice, resume=resume)
        assert result.complete, result.shortfall
        assert IngestedRecord.objects.count() == 120


def test_empty_pages_without_the_announced_records_are_not_complete(alice: Caller, api: Api) -> None:
    api.envelope, api.last_page, api.empty_pages = "cursor", 0, {1, 2, 3, 4, 5, 6}
    check_incomplete(everything(alice), "reports 120 records, but delivered 0")


def test_equal_rows_without_ids_fill_several_pages(alice: Caller, api: Api) -> None:
    api.books = {str(n): {"status": "reading"} for n in range(150)}
    result = everything(alice)
    assert (result.records, result.complete, IngestedRecord.objects.count()) == (150, True, 150)


def test_a_page_of_known_ids_with_other_contents_is_kept(alice: Caller, api: Api) -> None:
    """Ids that are declared wrongly repeat on many pages, and don't end the download."""
    api.books = {str(n): {"id": n // 60, "line": n} for n in range(180)}
    result = everything(alice)
    assert (result.records, result.repeated, result.complete) == (3, 177, True)
    assert [row.data["line"] for row in IngestedRecord.objects.all()] == [59, 119, 179]


def test_repeated_and_skipped_rows_are_counted_separately(alice: Caller, api: Api) -> None:
    rows: list[dict[str, Any]] = [{"id": n % 60} for n in range(70)]  # ten ids of page 1 come again on page 2
    rows += [{"id": "x" * 501}, {"title": "no id"}, {"id": 61}, {"id": 61}]
    api.books = {str(n): row for n, row in enumerate(rows)}
    result = everything(alice)
    answer = rendering.ingest_answer(result)
    assert {key: answer.data[key] for key in ("records", "repeated", "skipped", "complete")} == {
        "records": 62,
        "repeated": 11,
        "skipped": 1,
        "complete": True,
    }
    assert "Repeated rows, stored once: 11. Skipped rows: 1." in answer.text
    assert "has 501 characters" in answer.text
    assert IngestedRecord.objects.count() == 62


def test_a_second_ingest_stores_all_rows_again(alice: Caller, api: Api) -> None:
    everything(alice)
    result = everything(alice)
    assert (result.records, result.repeated, result.complete) == (120, 0, True)


def test_a_single_page_is_complete_only_if_it_is_the_only_one(alice: Caller, api: Api) -> None:
    assert not everything(alice, ingest_all=False).complete
    assert everything(alice, ingest_all=False, per_page=200).complete


# -- child records ---------------------------------------------------------------------------------------------


def children(caller: Caller) -> child_ingest.ChildIngestResult:
    operation = {"analysis_id": "audit", "parent_model": "book", "child_resource": "reviews", "parent_ids": ["1", "2"]}
    return child_ingest.ingest(caller, IngestChildren.read(operation))


def test_children_of_a_server_that_ignores_the_page_are_not_called_complete(alice: Caller, api: Api) -> None:
    api.children = {"1": [{"id": n} for n in range(30)], "2": [{"id": n} for n in range(100, 103)]}
    api.page_cap, api.hides_totals, api.ignores_page = 20, True, True
    result = children(alice)
    assert (result.records, result.repeated, result.complete) == (23, 23, False)
    assert "1, 2: page 2 has no other rows" in rendering.nested_text(result)


def test_rows_of_children_are_counted_separately(alice: Caller, api: Api) -> None:
    shared = {"id": "shared"}
    api.children = {"1": [{"id": 1}, {"id": 1}, shared, {"id": "x" * 501}], "2": [shared, {"stars": 5}]}
    result = children(alice)
    assert (result.records, result.repeated, result.skipped, result.complete) == (3, 2, 1, True)
    assert IngestedRecord.objects.count() == 3


# -- statements that agree and disagree ---------------------------------------------------------------------------


def rows_of(page: int, count: int = 10) -> list[dict[str, Any]]:
    return [{"id": 100 * page + number, "title": "x"} for number in range(count)]


def bodies(*pages: dict[str, Any], key: str = "data", counts: tuple[int, ...] = (10, 10, 5)) -> list[Any]:
    return [
        (200, {key: rows_of(n, count), **page}, {}) for n, (page, count) in enumerate(zip(pages, counts, strict=True))
    ]


def arrays(*headers: dict[str, str], counts: tuple[int, ...] = (10, 10, 5)) -> list[Any]:
    return [(200, rows_of(n, count), given) for n, (given, count) in enumerate(zip(headers, counts, strict=True))]


NEXT = "/books?page={}&per_page=10"
FIRST, SECOND = {"Link": f'<{NEXT.format(2)}>; rel="next"'}, {"Link": f'<{NEXT.format(3)}>; rel="next"'}
END_404: Any = (404, {"detail": "Invalid page."}, {})
END_400: Any = (400, {"code": "rest_post_invalid_page_number"}, {})
PLAIN: tuple[dict[str, str], ...] = ({}, {}, {})
TOTALS = {"X-WP-Total": "25", "X-WP-TotalPages": "3"}


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([*arrays(*PLAIN), END_404], id="404 after the last page"),
        pytest.param([*arrays(*PLAIN), END_400], id="400 after a short page"),
        pytest.param([*arrays(TOTALS, TOTALS, TOTALS), END_400], id="totals in headers"),
        pytest.param([*arrays(*PLAIN, counts=(10, 10, 10)), END_404], id="404 after a full page"),
        pytest.param(
            bodies({"info": {"page": 1, "more_records": True}}, {"info": {"page": 2, "more_records": True}},
                   {"info": {"page": 3, "more_records": False}}), id="a flag"),
        pytest.param([*bodies(*PLAIN), (204, None, {})], id="204 after the last page"),
        pytest.param(
            bodies({"links": {"next": NEXT.format(2)}}, {"links": {"next": NEXT.format(3)}}, {"links": {"next": None}}),
            id="links in the body"),
        pytest.param(
            bodies({"total": 25, "next_page_url": NEXT.format(2)}, {"total": 25, "next_page_url": NEXT.format(3)},
                   {"total": 25, "next_page_url": None}), id="a total and links"),
        pytest.param(bodies({"last": False}, {"last": False}, {"last": True}), id="a flag for the last page"),
        pytest.param(
            bodies({"meta": {"next_page": 2}}, {"meta": {"next_page": 3}}, {"meta": {"next_page": None}}),
            id="the number of the next page"),
        pytest.param(arrays(FIRST, SECOND, {"Link": '</books>; rel="first"'}), id="link headers"),
    ],
)  # fmt: skip
def test_statements_that_agree_are_complete(alice: Caller, api: Api, script: Any) -> None:
    api.script = script
    result = everything(alice, per_page=10)
    assert (result.complete, result.shortfall, result.error) == (True, "", "")
    assert IngestedRecord.objects.count() == sum(
        len(body if isinstance(body, list) else body["data"]) for status, body, _ in script if status == 200
    )


def test_a_page_that_a_link_led_to_is_the_last_one_without_a_link(alice: Caller, api: Api) -> None:
    pages = bodies({"@odata.nextLink": NEXT.format(2)}, {"@odata.nextLink": NEXT.format(3)}, {}, key="value")
    api.script = [*pages, pages[0]]  # the server doesn't know the parameter `page`
    result = everything(alice, per_page=10)
    assert (result.complete, result.shortfall, IngestedRecord.objects.count()) == (True, "", 25)


@pytest.mark.parametrize(
    ("script", "records", "named"),
    [
        pytest.param(
            [(200, {"count": 10, "next": NEXT.format(2), "results": rows_of(0)}, {}),
             (200, {"count": 10, "next": None, "results": rows_of(1)}, {})],
            20, ("a link to a next page", "10 records"), id="a count and a link"),
        pytest.param(
            bodies({"total": 10, "has_more": True}, {"total": 10, "has_more": True}, {"total": 10, "has_more": False}),
            25, ("a flag for more pages", "10 records"), id="a total and a flag"),
        pytest.param(
            bodies(*3 * [{"total": 10, "total_pages": 3}]), 25, ("3 pages", "10 records"), id="a total and pages"),
        pytest.param(
            [(200, {"count": 25, "next": None, "results": rows_of(0)}, {}),
             (200, {"count": 25, "next": None, "results": rows_of(1)}, {}),
             (200, {"count": 25, "next": None, "results": rows_of(2, 5)}, {})],
            25, ("25 records", "no link to a next page"), id="a count without links"),
        pytest.param(
            arrays(*3 * [{"Link": '</books>; rel="first"', "X-Total-Pages": "3"}]),
            25, ("3 pages", "no link to a next page"), id="headers"),
        pytest.param(
            bodies(*3 * [{"next_cursor": "", "has_more": True}]), 10, ("a flag for more pages", "no cursor"),
            id="a cursor"),
        pytest.param(bodies(*3 * [{"total": 0}]), 25, ("0 records",), id="no records"),
        pytest.param(
            bodies(*3 * [{"total_pages": 2}], counts=(10, 10, 10)), 30, ("2 pages",), id="a full last page"),
    ],
)  # fmt: skip
def test_statements_that_disagree_are_followed_and_named(
    alice: Caller, api: Api, script: Any, records: int, named: tuple[str, ...]
) -> None:
    api.script = script
    result = everything(alice, per_page=10)
    assert IngestedRecord.objects.count() == records
    check_incomplete(result, named[0])
    assert all(text in result.shortfall for text in named), result.shortfall
    single = everything(alice, per_page=10, ingest_all=False, page=1, analysis_id="single")
    assert not single.complete

"""Ingesting records: every response envelope, misbehaving upstreams, and defects known from older systems."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from analysis import child_ingest
from analysis import ingest as ingesting
from analysis.ingest import ingest
from analysis.models import Finding, Ingest, IngestedRecord
from analysis.operations import IngestChildren, IngestRecords
from analysis.sources.interface import UpstreamFailed
from foundation.operations.errors import Degraded, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.work import progress
from memories import services
from memories.operations import Remember
from tests.fake_rest_api import Api

pytestmark = pytest.mark.django_db


def everything(caller: Caller, **overrides: Any) -> ingesting.IngestResult:
    arguments = {"analysis_id": "audit", "model": "book", "ingest_all": True, "per_page": 50}
    return ingest(caller, IngestRecords.read({**{**arguments, **overrides}}))


def ids() -> list[str]:
    return sorted(
        IngestedRecord.objects.values_list("record_id", flat=True), key=lambda record_id: (len(record_id), record_id)
    )


@pytest.mark.parametrize("envelope", ["data_meta", "array", "link", "drf", "hal", "cursor"])
@pytest.mark.parametrize("page_cap", [10_000, 20])
def test_every_envelope_yields_every_record(alice: Caller, api: Api, envelope: str, page_cap: int) -> None:
    api.envelope, api.page_cap = envelope, page_cap
    result = everything(alice)
    assert (result.records, result.capped, result.error) == (120, False, "")
    assert ids() == [str(n) for n in range(120)]
    assert Ingest.objects.get().state == "complete"


def test_pages_are_fetched_concurrently_and_reported(alice: Caller, api: Api) -> None:
    api.delay_s = 0.05
    reports: list[tuple[float, float | None, str]] = []
    progress.listen(lambda *report: reports.append(report))
    everything(alice, per_page=10)
    assert api.most_at_once > 1
    assert [position for position, _, _ in reports] == [float(n) for n in range(1, 13)]
    assert reports[-1] == (12, 12, "Ingested page 12/12 (120 records)")


def test_without_a_total_pages_are_read_until_one_is_empty(alice: Caller, api: Api) -> None:
    api.hides_totals, api.page_cap = True, 20  # pages are shorter than requested, and the response does not say so
    assert everything(alice).records == 120


def test_ingest_ends_if_the_server_ignores_the_page_number(alice: Caller, api: Api) -> None:
    api.hides_totals = api.ignores_page = True
    assert everything(alice).pages == 2
    assert IngestedRecord.objects.count() == 50


def test_a_capped_ingest_explains_resume_and_resume_continues_it(
    alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "MAX_PAGES", 5)
    first = everything(alice, per_page=10)
    assert (first.pages, first.records, first.capped) == (5, 50, True)
    assert "resume" in first.notes[0]
    second = everything(alice, per_page=10, resume=True)
    assert (second.resumed_from, second.pages, second.capped) == (6, 5, True)
    last = everything(alice, per_page=10, resume=True)
    assert (last.pages, last.capped, len(ids())) == (2, False, 120)


def test_an_ingest_of_exactly_the_maximum_of_pages_is_not_capped(
    alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingesting, "MAX_PAGES", 12)
    result = everything(alice, per_page=10)
    assert (result.pages, result.capped) == (12, False)


def test_a_failing_page_keeps_the_others_and_resume_fetches_the_rest(alice: Caller, api: Api) -> None:
    api.fail_pages = {5: [404]}
    first = everything(alice, per_page=10)
    assert "not now" in first.error
    assert "4" not in first.error.replace("(404)", "")
    pages = Ingest.objects.get().pages_done
    assert 5 not in pages
    api.requests.clear()
    second = everything(alice, per_page=10, resume=True)
    assert len(ids()) == 120
    assert second.pages == 12 - len(pages)
    assert second.resumed_from == 5


def test_resume_with_other_filters_starts_a_new_ingest(alice: Caller, api: Api) -> None:
    everything(alice, per_page=10)
    result = everything(alice, per_page=10, filters={"status": "reading"}, resume=True)
    assert (result.resumed_from, result.pages) == (0, 3)
    assert "status=reading" in api.requests[-1][1]


@pytest.mark.parametrize("statuses", [[429], [503, 502], [500, 500, 500]])
def test_requests_to_a_busy_upstream_are_retried(alice: Caller, api: Api, statuses: list[int]) -> None:
    api.fail_pages = {2: list(statuses)}
    assert everything(alice).records == 120


def test_an_upstream_that_keeps_failing_raises_an_error(
    alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.sources.rest.ATTEMPTS", 2)
    api.fail_pages = {1: [500] * 9}
    with pytest.raises(UpstreamFailed, match="not now"):
        everything(alice)


def test_a_next_page_on_another_host_is_rejected(alice: Caller, api: Api) -> None:
    api.envelope = "elsewhere"
    result = everything(alice)
    assert "another host" in result.error
    assert all("evil" not in path for _, path in api.requests)


def test_a_cancelled_ingest_stops_and_can_be_resumed(alice: Caller, api: Api) -> None:
    class Cancelled(BaseException):
        pass

    def stop(position: float, total: float | None, message: str) -> None:
        if position == 3:
            raise Cancelled

    progress.listen(stop)
    with pytest.raises(Cancelled):
        everything(alice, per_page=10)
    progress.listen(lambda *report: None)
    assert Ingest.objects.get().state == "partial"
    everything(alice, per_page=10, resume=True)
    assert len(ids()) == 120


def test_unusual_records_are_stored_completely(alice: Caller, api: Api) -> None:
    rows: list[dict[str, Any]] = [
        {"id": 0, "n": 1},
        {"id": "", "n": 2},
        {"id": "a/b", "n": 3},
        {"id": "twice", "n": 4},
        {"id": "twice", "n": 5},
        {"n": 6},
        {"id": "nul", "text": "a\x00b", "half": "\ud800", "deep": {"x\x00": [float("nan")]}},
        {"id": "long", "text": "x" * 100_000},
    ]
    api.books = {str(n): row for n, row in enumerate(rows)}
    assert everything(alice).records == 7
    assert everything(alice).records == 7  # a second ingest replaces them, also the record without id
    records = {record.record_id: record for record in IngestedRecord.objects.all()}
    assert {"0", "", "a/b", "twice", "nul", "long"} < set(records)
    assert records["twice"].data["n"] == 5
    assert {record_id for record_id, row in records.items() if not row.has_id} - {""} == {
        next(record_id for record_id in records if record_id[:1] == "~")
    }


def test_a_second_ingest_updates_the_records_time_and_the_summaries(alice: Caller, api: Api) -> None:
    everything(alice)
    before = IngestedRecord.objects.order_by("id").first()
    everything(alice)
    after = IngestedRecord.objects.order_by("id").first()
    assert before is not None
    assert after is not None
    assert after.ingested_at > before.ingested_at
    assert Finding.objects.filter(category="page_summary").count() == 3


def test_fields_keep_ids_and_the_ids_of_their_associations(alice: Caller, api: Api) -> None:
    everything(alice, fields=["status", "author_name"])
    row = IngestedRecord.objects.get(record_id="8").data
    assert row == {"id": 8, "status": "reading", "author_name": "Author 1", "author_id": 1}


def test_the_credential_is_read_from_the_environment_for_every_request(
    alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything(alice)
    assert {headers["Authorization"] for headers in api.headers} == {"Bearer secret-token"}
    monkeypatch.delenv("SOURCE_BOOKS_TOKEN")
    with pytest.raises(Degraded, match="SOURCE_BOOKS_TOKEN"):
        everything(alice)


def test_only_callers_with_the_right_act_for_other_users(alice: Caller, api: Api) -> None:
    with pytest.raises(Forbidden) as caught:
        everything(alice, user_id="bob@example.org")
    assert caught.value.field == "user_id"
    service = replace(alice, rights=frozenset({"act_for_users"}))
    everything(service, user_id="bob@example.org", filters={"status": "reading"})
    assert api.headers[-1]["X-On-Behalf-Of"] == "bob@example.org"


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({"model": "boat"}, "model", "allowed: book"),
        ({"filters": {"colour": 1}}, "filters", "Unknown filter"),
        ({"filters": {"status": "novel"}}, "filters.status", "did you mean the filter kind"),
        ({"filters": {"updated": "2026"}}, "filters.updated", "not a range"),
        ({"filters": {"updated": {"from": "soon"}}}, "filters.updated.from", "not a time"),
        ({"model": "shelf", "filters": {"a": 1}}, "filters", "does not support"),
        ({"per_page": 0}, "per_page", "1 to 1000"),
        ({"page": 0, "ingest_all": False}, "page", "1 to"),
        ({"analysis_id": ""}, "analysis_id", "characters"),
    ],
)
def test_an_error_names_the_field_before_anything_is_sent(
    alice: Caller, api: Api, arguments: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(Invalid) as caught:
        everything(alice, **arguments)
    assert caught.value.field == field
    assert message in caught.value.message
    assert api.requests == []


def test_filters_are_sent_as_declared(alice: Caller, api: Api) -> None:
    everything(alice, filters={"status": "reading,unread", "updated": {"from": "2026-01-01"}})
    assert "status=reading&status=unread&updated_after=2026-01-01" in api.requests[0][1]


def test_the_built_in_source_holds_the_memories_that_the_caller_may_read(alice: Caller, olga: Caller, db: None) -> None:
    for n in range(7):
        services.remember(alice, Remember(content=f"Fact {n} about the tills."))
    services.remember(olga, Remember(content="Something of Olga’s persona."))
    result = ingest(alice, IngestRecords(analysis_id="own", model="memory", ingest_all=True, per_page=3))
    assert (result.records, result.pages) == (7, 3)
    page = ingest(alice, IngestRecords(analysis_id="own", model="memory", page=3, per_page=3))
    assert (page.page, page.records, page.total_pages) == (3, 1, 3)


# -- child records ---------------------------------------------------------------------------------------------


def reviews(count: int, shared: bool = False) -> list[dict[str, Any]]:
    extra = [{"id": "shared", "stars": 5}] if shared else []
    return [{"id": f"r{n}", "stars": n % 5} for n in range(count)] + extra


def children(caller: Caller, **overrides: Any) -> child_ingest.ChildIngestResult:
    arguments = {"analysis_id": "audit", "parent_model": "book", "child_resource": "reviews"}
    return child_ingest.ingest(caller, IngestChildren.read({**{**arguments, **overrides}}))


def test_children_of_all_parents_page_by_page(alice: Caller, api: Api) -> None:
    everything(alice)
    api.children = {"1": reviews(130, shared=True), "2": [{"id": "shared", "stars": 5}]}
    result = children(alice)
    assert (result.parents, result.failed) == (120, {})
    rows = IngestedRecord.objects.filter(model="review")
    assert rows.count() == 131
    assert sorted(rows.get(record_id="shared").data["_parent_ids"]) == ["1", "2"]


def test_a_broken_parent_is_named_and_the_others_are_kept(
    alice: Caller, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.sources.rest.ATTEMPTS", 2)
    api.children = {"1": reviews(3)}
    result = children(alice, parent_ids=["1", "broken"])
    assert (result.records, list(result.failed)) == (3, ["broken"])


def test_children_of_many_pages_are_ingested(alice: Caller, api: Api) -> None:
    api.children = {"1": reviews(2_400)}
    result = children(alice, parent_ids=["1"])
    assert result.records == 2_400


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"child_resource": ""}, "child_resource"),
        ({"child_resource": "covers"}, "child_resource"),
        ({"parent_ids": [str(n) for n in range(26)]}, "parent_ids"),
    ],
)
def test_an_error_names_the_field_of_a_child_ingest(
    alice: Caller, api: Api, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as caught:
        children(alice, **arguments)
    assert caught.value.field == field


def test_without_parents_an_error_says_to_ingest_them_first(alice: Caller, api: Api) -> None:
    with pytest.raises(NotFound, match="ingest the parents first"):
        children(alice)


def test_resume_ignores_a_page_that_was_ingested_alone(alice: Caller, api: Api) -> None:
    api.envelope = "drf"
    ingest(alice, IngestRecords(analysis_id="audit", model="book", page=2, per_page=50))
    result = everything(alice, resume=True)
    assert (result.records, result.total_pages, len(ids())) == (120, 3, 120)


def test_equal_rows_without_id_are_stored_separately(alice: Caller, api: Api) -> None:
    api.books = {str(n): {"status": "reading"} for n in range(70)}
    everything(alice)
    everything(alice)
    assert IngestedRecord.objects.count() == 70


def test_a_resume_after_expiry_starts_a_new_ingest(alice: Caller, api: Api) -> None:
    everything(alice)
    Ingest.objects.update(started_at=timezone.now() - timedelta(days=30))
    IngestedRecord.objects.all().delete()
    assert everything(alice, resume=True).records == 120


@pytest.mark.parametrize("filters", [{"status": []}, {"updated": {"from": None}}, {"status": ""}])
def test_an_empty_filter_is_rejected_and_not_ignored(alice: Caller, api: Api, filters: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        everything(alice, filters=filters)
    assert api.requests == []


def test_a_parent_id_cannot_leave_its_endpoint(alice: Caller, api: Api) -> None:
    result = children(alice, parent_ids=[".."])
    assert list(result.failed) == [".."]
    assert api.requests == []


def test_other_fields_are_another_download(alice: Caller, api: Api) -> None:
    everything(alice, fields=["title"])
    answer = everything(alice, fields=["rating"], resume=True)
    assert (answer.resumed_from, answer.pages, answer.records) == (0, 3, 120)


def test_arguments_that_would_be_ignored_are_refused_or_named(api: Api, alice: Caller) -> None:
    base = {"analysis_id": "audit", "model": "book"}
    with pytest.raises(Invalid, match="resume: continues a download of all pages; allowed: only with ingest_all"):
        ingest(alice, IngestRecords.read({**base, "resume": True}))
    with pytest.raises(Invalid, match="page: is 2, and ingest_all downloads all pages"):
        ingest(alice, IngestRecords.read({**base, "ingest_all": True, "page": 2}))
    result = ingest(alice, IngestRecords.read({**base, "fields": ["titel", "rating"]}))
    assert "no record of the first page has titel" in result.notes
    with pytest.raises(Invalid, match="fields: no record of the first page has titel, ratign"):
        ingest(alice, IngestRecords.read({**base, "fields": ["titel", "ratign"]}))
    assert IngestedRecord.objects.filter(data__has_key="rating").exists()
    assert not IngestedRecord.objects.filter(data__has_key="titel").exists()

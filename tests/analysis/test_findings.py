from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from analysis import findings, sessions
from analysis.models import Finding, FindingPassage
from analysis.operations import StoreFindings
from analysis.querying.page_summaries import summarize
from foundation import embedding
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from memories.models import IndexJob
from memories.retrieval import indexing

pytestmark = pytest.mark.django_db
OUTLIERS = {"finding": "Completed books rated 1 are outliers.", "category": "quality_issue", "metadata": {"count": 12}}
SCIENCE_FICTION = {"finding": "Science fiction is over-represented in reading.", "category": "pattern"}


def store(caller: Caller, *items: dict[str, Any], **options: Any) -> list[Finding]:
    rows, _ = findings.store(caller, StoreFindings.read({"analysis_id": "audit", "findings": list(items), **options}))
    return rows


def test_findings_are_found_by_meaning_in_their_own_session(alice: Caller, bob: Caller) -> None:
    store(alice, OUTLIERS, SCIENCE_FICTION)
    store(bob, {"finding": "Completed books rated 1 are Bob’s."})
    result = findings.search(
        alice, sessions.get_session(alice, "audit"), "completed books rated 1 outliers", threshold=0.1
    )
    assert result.hits[0].finding.finding == OUTLIERS["finding"]
    assert {hit.finding.session.owner for hit in result.hits} == {"alice@example.org"}
    narrowed = findings.search(alice, sessions.get_session(alice, "audit"), "books", category="pattern", threshold=-1)
    assert [hit.finding.category for hit in narrowed.hits] == ["pattern"]


def test_the_threshold_is_applied_before_the_limit(alice: Caller) -> None:
    store(alice, *[{"finding": f"Completed books number {n}."} for n in range(20)], OUTLIERS)
    session = sessions.get_session(alice, "audit")
    everything = findings.search(alice, session, "completed books", threshold=-1, top_k=200)
    threshold = everything.hits[9].similarity
    result = findings.search(alice, session, "completed books", threshold=threshold, top_k=5)
    assert len(result.hits) == 5
    assert all(hit.similarity >= threshold for hit in result.hits)


def test_without_embedder_findings_match_by_word_and_the_result_is_degraded(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    embedding.reset()
    _, note = findings.store(
        alice, StoreFindings.read({"analysis_id": "audit", "findings": [OUTLIERS, SCIENCE_FICTION]})
    )
    assert "until their vectors are computed" in note
    result = findings.search(alice, sessions.get_session(alice, "audit"), "outliers")
    assert (result.degraded, result.ranking, len(result.hits)) == (True, "lexical", 1)
    assert IndexJob.objects.filter(source_kind="finding").count() == 2
    settings.EMBEDDING_PROVIDER = "deterministic"
    embedding.reset()
    assert indexing.run_batch("test") == (2, 0)
    assert FindingPassage.objects.count() == 2


def test_ephemeral_findings_expire_and_persistent_ones_do_not(alice: Caller) -> None:
    store(alice, OUTLIERS)
    store(alice, SCIENCE_FICTION, persistent=True)
    Finding.objects.filter(persistent=False).update(expires_at=timezone.now() - timedelta(seconds=1))
    session = sessions.get_session(alice, "audit")
    assert [row.finding for row in findings.readable(alice, ()).filter(session=session)] == [SCIENCE_FICTION["finding"]]
    assert sessions.delete_expired_sessions() == 1


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "findings"),
        ([OUTLIERS] * 26, "findings"),
        ([{"finding": ""}], "findings[0].finding"),
        ([OUTLIERS, {"finding": "x", "colour": 1}], "findings[1].colour"),
        ([{"finding": "x", "metadata": [1]}], "findings[0].metadata"),
        ([{"finding": "x\x00"}], "findings[0].finding"),
    ],
)
def test_an_error_names_the_invalid_finding_and_none_is_stored(alice: Caller, items: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        findings.store(alice, StoreFindings.read({"analysis_id": "audit", "findings": items}))
    assert caught.value.field == field
    assert not Finding.objects.exists()


def test_a_slip_in_the_name_of_an_analysis_is_told(alice: Caller, bob: Caller) -> None:
    def note_of(caller: Caller, analysis_id: str) -> str:
        operation = StoreFindings.read({"analysis_id": analysis_id, "findings": [{"finding": "Refunds doubled."}]})
        return findings.store(caller, operation)[1]

    assert note_of(alice, "orders-2026-05") == ""
    assert note_of(alice, "orders-2026-06") == ""  # another month
    assert note_of(alice, "order-2026-05") == "this begins a new analysis; you also have orders-2026-05"
    assert note_of(alice, "order-2026-05") == ""
    assert note_of(bob, "order-2026-06") == ""
    with pytest.raises(NotFound, match="did you mean orders-2026-06"):
        sessions.get_session(alice, "ordres-2026-06")
    with pytest.raises(NotFound, match="start one with analysis_ingest"):
        sessions.get_session(bob, "ordres-2026-05")


def test_only_its_owner_reads_a_finding(alice: Caller, bob: Caller) -> None:
    (row,) = store(alice, OUTLIERS)
    assert findings.get_finding(alice, row.pk).pk == row.pk
    with pytest.raises(NotFound):
        findings.get_finding(bob, row.pk)


# -- page summaries --------------------------------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]], total: int | None = 3) -> Any:
    return summarize("deal", rows, 2, total, [], frozenset({"id", "owner_id"}))


def test_a_summary_handles_gaps_mixed_types_and_time_zones() -> None:
    rows: list[dict[str, Any]] = [{"id": n, "owner_id": n, "amount": None if n == 0 else n} for n in range(10)]
    rows[3]["amount"] = "n/a"
    for n, row in enumerate(rows):
        row["state"] = ("constructor", "open")[n % 2]
        row["at"] = ("2026-01-01T23:00:00-05:00", "2026-01-02T01:00:00+05:00")[n % 2]
        row["long"] = "x" * 300
        row["nested"] = {"a": [1]}
    result = summary(rows)
    assert result.text.startswith("Page 2/3 of deal records (10 records).")
    # a gap in the first row does not remove the field's statistics
    assert result.metadata["numericStats"]["amount"]["n"] == 8
    assert result.metadata["distributions"]["state"] == {"constructor": 5, "open": 5}
    assert "owner_id" not in result.metadata["numericStats"]
    # compared as times, not as texts
    assert result.metadata["dateRanges"]["at"]["earliest"] == "2026-01-02T01:00:00+05:00"
    assert "x" * 100 not in result.text


def test_a_field_of_distinct_values_has_no_distribution_and_a_page_may_be_empty() -> None:
    result = summary([{"id": n, "name": f"name {n}"} for n in range(50)], None)
    assert result.text == "Page 2 of deal records (50 records)."
    assert summary([]).text == "Page 2/3 of deal records (0 records)."


def test_a_long_finding_is_found_by_a_sentence_anywhere_in_it(alice: Caller) -> None:
    sentence = "The hail of May emptied the warehouse at Dover."
    filler = "Totals of the eastern region were as in the year before. " * 30
    texts = [f"{sentence} {filler}", f"{filler}{sentence} {filler}", f"{filler}{sentence}"]
    store(
        alice, *({"finding": text, "category": "supply"} for text in texts), {"finding": filler, "category": "supply"}
    )
    hits = findings.search(alice, sessions.get_session(alice, "audit"), sentence).hits
    assert {hit.finding.finding for hit in hits[:3]} == {text.strip() for text in texts}
    assert all(hit.similarity > 0.7 for hit in hits)  # similarity to the best passage; that to the whole text is .47

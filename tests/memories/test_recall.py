from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from foundation.database.queryset_sql import condition
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller, system_caller
from memories import extensions, services
from memories.extensions import MemoryExtension
from memories.mcp_tools import memory_recall
from memories.models import MemoryRecord, Passage, Status
from memories.operations import STRATEGIES, Forget, RecallMemories, Remember, Revise, Share, Supersede
from memories.retrieval import ranking, term_statistics
from memories.retrieval.filters import Filters, visible_rows
from memories.retrieval.recall import Recall, recall

pytestmark = pytest.mark.django_db
ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"
STOCK = "urn:li:dataset:(urn:li:dataPlatform:snowflake,stock,PROD)"


@pytest.fixture
def library(alice: Caller) -> dict[str, MemoryRecord]:
    texts = {
        "refunds": ("Revenue in the sales mart excludes refunds.", [ORDERS]),
        "tax": ("Gross amounts in the sales mart are with tax.", [ORDERS]),
        "stock": ("Stock snapshots are taken at two at night.", [STOCK]),
        "identifier": ("The column sales_2024.orders.orderTotal is in cents.", []),
    }
    records = {
        key: services.remember(alice, Remember(content=text, entity_urns=urns, tags=[key])).record
        for key, (text, urns) in texts.items()
    }
    term_statistics.refresh()
    return records


def records_of(result: Recall) -> list[MemoryRecord]:
    return [hit.record for hit in result.hits]


def test_semantic_recall_combines_cosine_and_coverage(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    result = recall(alice, RecallMemories(query="which revenue excludes refunds", strategy="semantic"))
    assert (result.ranking, result.degraded) == ("hybrid", False)
    best = result.hits[0]
    assert best.record == library["refunds"]
    assert best.score == pytest.approx(0.6 * (best.cosine or 0) + 0.3 * best.coverage)
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)


def test_an_outsider_finds_nothing_with_any_strategy(olga: Caller, library: dict[str, MemoryRecord]) -> None:
    for strategy in STRATEGIES:
        assert recall(olga, RecallMemories(query="refunds", entity_urns=[ORDERS], strategy=strategy)).hits == []


def test_a_colleague_finds_memories_of_the_persona(bob: Caller, library: dict[str, MemoryRecord]) -> None:
    assert records_of(recall(bob, RecallMemories(query="refunds")))[0] == library["refunds"]


@pytest.mark.parametrize("part", ["orders", "sales_2024", "total", "orderTotal", "sales_2024.orders"])
def test_identifiers_are_found_by_their_parts(alice: Caller, library: dict[str, MemoryRecord], part: str) -> None:
    assert library["identifier"] in records_of(recall(alice, RecallMemories(query=part, strategy="lexical")))


def test_recall_without_embedder_is_lexical_and_degraded(
    alice: Caller, library: dict[str, MemoryRecord], settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    result = recall(alice, RecallMemories(query="excludes refunds", strategy="semantic"))
    assert (result.ranking, result.degraded) == ("lexical", True)
    assert "results are lexical-only (exact-term matches), not semantic" in result.note
    assert records_of(result) == [library["refunds"]]
    assert not recall(alice, RecallMemories(query="excludes refunds", strategy="lexical")).degraded


def test_memories_without_vector_are_found_by_words(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    Passage.objects.filter(record=library["refunds"]).delete()
    result = recall(alice, RecallMemories(query="refunds"))
    assert result.hits[0].record == library["refunds"]
    assert result.hits[0].cosine is None


def test_a_memory_matches_with_some_of_the_words(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    assert library["refunds"] in records_of(
        recall(alice, RecallMemories(query="are refunds booked monthly", strategy="lexical"))
    )


def test_unknown_words_find_nothing(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    assert recall(alice, RecallMemories(query="zzqx wvvk jjpt")).hits == []


def test_entity_recall_needs_no_query_and_excludes_stale_memories(
    alice: Caller, library: dict[str, MemoryRecord]
) -> None:
    assert set(records_of(recall(alice, RecallMemories(entity_urns=[ORDERS], strategy="entity")))) == {
        library["refunds"],
        library["tax"],
    }
    services.mark_stale(system_caller(), record_id=library["tax"].pk, reason="changed")
    assert records_of(recall(alice, RecallMemories(entity_urns=[ORDERS], strategy="entity"))) == [library["refunds"]]
    with_stale = recall(alice, RecallMemories(entity_urns=[ORDERS], strategy="entity", include_stale=True))
    assert set(records_of(with_stale)) == {library["refunds"], library["tax"]}


def test_include_stale_excludes_superseded_and_archived_memories(
    alice: Caller, library: dict[str, MemoryRecord]
) -> None:
    services.supersede(alice, Supersede(record_id=library["refunds"].pk, content="Revenue includes refunds since May."))
    services.forget(alice, Forget(record_id=library["tax"].pk))
    statuses = {
        hit.status
        for hit in recall(alice, RecallMemories(query="revenue refunds tax sales mart", include_stale=True)).hits
    }
    assert statuses == {Status.ACTIVE}


def test_graph_recall_includes_neighbors_and_ranks_by_distance(
    alice: Caller, library: dict[str, MemoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lineage(MemoryExtension):
        def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
            return {STOCK: 1}, ""

    monkeypatch.setattr(extensions.EXTENSIONS, "_by_path", {"lineage": Lineage()})
    result = recall(alice, RecallMemories(entity_urns=[ORDERS], strategy="graph"))
    assert records_of(result)[-1] == library["stock"]
    assert [hit.bonus for hit in result.hits] == [1.0, 1.0, 0.5]


def test_auto_has_one_order_and_a_limit_keeps_the_best(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    complete = recall(alice, RecallMemories(query="gross amounts with tax", entity_urns=[STOCK], limit=10))
    scores = [hit.score for hit in complete.hits]
    assert scores == sorted(scores, reverse=True)
    assert set(records_of(complete)[:2]) == {library["tax"], library["stock"]}
    for limit in (1, 2, 3):
        assert (
            records_of(recall(alice, RecallMemories(query="gross amounts with tax", entity_urns=[STOCK], limit=limit)))
            == records_of(complete)[:limit]
        )


def test_filters_apply_before_the_limit(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    for n in range(15):
        services.remember(alice, Remember(content=f"Refunds, refunds, refunds: rule {n}."))
    services.remember(alice, Remember(content="She prefers refunds in a table.", dimension="preference"))
    result = recall(alice, RecallMemories(query="refunds", limit=1), filters=Filters(dimension="preference"))
    assert [hit.record.dimension for hit in result.hits] == ["preference"]
    assert records_of(recall(alice, RecallMemories(query="refunds"), filters=Filters(tags=["refunds"]))) == [
        library["refunds"]
    ]


def test_equal_scores_have_a_fixed_order(alice: Caller, settings: Any) -> None:
    moment = timezone.now()
    for n in range(8):
        services.remember(alice, Remember(content=f"Returns wait, case {n}."), created_at=moment)
    first = records_of(recall(alice, RecallMemories(query="returns", strategy="lexical")))
    assert all(
        records_of(recall(alice, RecallMemories(query="returns", strategy="lexical"))) == first for _ in range(3)
    )
    assert [r.pk for r in first] == sorted(r.pk for r in first)


def test_index_search_returns_the_same_as_an_exact_scan(
    alice: Caller, library: dict[str, MemoryRecord], settings: Any
) -> None:
    exact = records_of(recall(alice, RecallMemories(query="refunds of revenue")))
    settings.RECALL_EXACT_SCAN_ROWS = 0
    assert records_of(recall(alice, RecallMemories(query="refunds of revenue"))) == exact


def test_an_admin_recalls_private_memories_of_others(alice: Caller, ada: Caller) -> None:
    record = services.remember(alice, Remember(content="Vouchers expire after a year.", visibility="private")).record
    assert records_of(recall(ada, RecallMemories(query="vouchers expire"))) == [record]


def test_word_weights_among_many_rows_come_from_what_the_caller_may_read(
    alice: Caller, olga: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that the caller may not read change no weight, even if they contain the word often."""
    monkeypatch.setattr(ranking, "_estimated_rows", lambda: 100.0)
    settings.RECALL_EXACT_SCAN_ROWS = 0
    for n in range(6):
        services.remember(alice, Remember(content=f"Region {n} has its returns late.", visibility="private"))
    services.remember(alice, Remember(content="Region 7 pays by voucher.", visibility="private"))

    def coverages() -> list[tuple[Any, float]]:
        hits = recall(alice, RecallMemories(query="voucher returns", strategy="lexical")).hits
        return [(hit.record.pk, hit.coverage) for hit in hits]

    before = coverages()
    for n in range(20):
        services.remember(olga, Remember(content=f"The voucher {n} is void.", visibility="private"))
    term_statistics.refresh()
    assert coverages() == before != []


def test_a_word_too_common_to_search_by_still_counts_in_the_score(alice: Caller, settings: Any) -> None:
    for n in range(12):
        services.remember(alice, Remember(content=f"Region {n} has its returns late."))
    services.remember(alice, Remember(content="Region 7 pays by voucher, returns included."))
    term_statistics.refresh()
    exact = recall(alice, RecallMemories(query="voucher returns", strategy="lexical")).hits[0]
    settings.RECALL_EXACT_SCAN_ROWS = 0
    with pytest.MonkeyPatch.context() as patch:
        # The search uses only the rare word; the common one counts in the rows found.
        patch.setattr(term_statistics, "CANDIDATE_ROWS", 5)
        hits = recall(alice, RecallMemories(query="voucher returns", strategy="lexical")).hits
    assert [hit.record for hit in hits] == [exact.record]
    assert hits[0].coverage == pytest.approx(1.0)


def test_a_query_of_common_words_finds_rows_that_contain_all(alice: Caller, settings: Any) -> None:
    settings.RECALL_EXACT_SCAN_ROWS = 0
    both = services.remember(alice, Remember(content="Returns and refunds are late.")).record
    for n in range(5):
        services.remember(alice, Remember(content=f"Returns of region {n}."))
        services.remember(alice, Remember(content=f"Refunds of region {n}."))
    term_statistics.refresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_statistics, "CANDIDATE_ROWS", 3)
        assert records_of(recall(alice, RecallMemories(query="refunds returns", strategy="lexical"))) == [both]


@pytest.mark.parametrize(
    ("rows", "share_of", "small"), [(900, 1_000, True), (5_000, 5_000, False), (5_000, 180_000, True)]
)
def test_rows_are_scanned_if_they_are_a_small_share_of_all(
    alice: Caller, monkeypatch: pytest.MonkeyPatch, rows: int, share_of: int, small: bool
) -> None:
    """The vector index has to skip rows of others, so it is slow for callers who may read only a small share."""
    monkeypatch.setattr(ranking, "_estimated_rows", lambda: float(share_of))
    monkeypatch.setattr(ranking, "_rows_up_to", lambda searched, limit: min(rows, limit + 1))
    assert ranking.is_small(condition(visible_rows(alice, Filters()))) is small


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"strategy": "psychic", "query": "x"}, "strategy"),
        ({"strategy": "semantic"}, "query"),
        ({"strategy": "lexical", "entity_urns": [ORDERS]}, "query"),
        ({"strategy": "entity", "query": "x"}, "entity_urns"),
        ({"strategy": "auto"}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x" * 4001}, "query"),
    ],
)
def test_a_recall_error_names_the_field(alice: Caller, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        recall(alice, RecallMemories.read(arguments))
    assert caught.value.field == field


def test_recall_rejects_a_filter_with_an_unknown_dimension(alice: Caller) -> None:
    with pytest.raises(Invalid) as caught:
        recall(alice, RecallMemories(query="x"), filters=Filters(dimension="fact"))
    assert caught.value.field == "dimension"


@given(query=st.text(min_size=1, max_size=80).filter(lambda text: "\x00" not in text))
@hypothesis_settings(max_examples=60)
def test_any_text_is_a_valid_query(alice: Caller, query: str) -> None:
    if query.strip():
        recall(alice, RecallMemories(query=query, strategy="lexical"))
    else:
        with pytest.raises(Invalid, match="query"):
            recall(alice, RecallMemories.read({"query": query, "strategy": "lexical"}))


# -- as of ------------------------------------------------------------------------------------------------


def test_as_of_returns_text_and_status_of_that_time(alice: Caller) -> None:
    start = timezone.now() - timedelta(days=30)
    old = services.remember(alice, Remember(content="Refunds are left out of revenue."), created_at=start).record
    new = services.supersede(
        alice,
        Supersede(record_id=old.pk, content="Refunds are part of revenue."),
        created_at=start + timedelta(days=10),
    ).record
    services.revise(alice, Revise(record_id=new.pk, content="Refunds are part of revenue, vouchers too."))
    services.forget(alice, Forget(record_id=new.pk))

    def at(days: int) -> list[tuple[str, str]]:
        result = recall(alice, RecallMemories(query="refunds of revenue", as_of=start + timedelta(days=days)))
        return [(hit.content, hit.status) for hit in result.hits]

    assert at(-1) == []
    assert at(5) == [("Refunds are left out of revenue.", "active")]
    assert at(15) == [("Refunds are part of revenue.", "active")]
    assert at(31) == []
    assert "as of" in recall(alice, RecallMemories(query="refunds", as_of=start)).note


def test_as_of_never_returns_texts_that_were_private_then(alice: Caller, bob: Caller) -> None:
    start = timezone.now() - timedelta(days=3)
    record = services.remember(
        alice,
        Remember(content="The salary list is in the secret folder.", visibility="private"),
        created_at=start,
    ).record
    services.revise(alice, Revise(record_id=record.pk, content="The list is in the public folder."))
    services.share(alice, Share(record_id=record.pk, visibility="persona"))
    then = start + timedelta(days=1)
    assert recall(bob, RecallMemories(query="list in the folder", as_of=then)).hits == []
    assert len(recall(alice, RecallMemories(query="list in the folder", as_of=then)).hits) == 1


# -- term statistics --------------------------------------------------------------------------------------


def test_rare_words_weigh_more_and_unknown_words_most(alice: Caller, bob: Caller, olga: Caller) -> None:
    for caller in (alice, bob, olga):  # words of fewer than three users would count as unknown
        services.remember(caller, Remember(content="Refunds are sales of a kind."))
        for n in range(5):
            services.remember(caller, Remember(content=f"The sales of region {n} come late."))
    term_statistics.refresh()
    terms = {term.lexeme: term for term in term_statistics.query_terms("sales refunds xylophone")}
    assert terms["xylophon"].idf > terms["refund"].idf > terms["sale"].idf


def test_many_rows_are_searched_by_their_rarest_terms() -> None:
    common = term_statistics.Term("common", 90_000, term_statistics.idf(90_000, 100_000))
    rare = term_statistics.Term("rare", 10, term_statistics.idf(10, 100_000))
    middling = term_statistics.Term("middling", 900, term_statistics.idf(900, 100_000))
    assert term_statistics.selective([rare, middling, common]).tsquery == "'rare' | 'middling'"
    frequent = term_statistics.Term("other", 80_000, term_statistics.idf(80_000, 100_000))
    assert term_statistics.selective([frequent, common]).tsquery == "'other' & 'common'"


@pytest.mark.parametrize(
    "query",
    ["zephyrine beside sales.orders", "zephyrine beside shipmants", "Wo ist die zephyrine und wo sind die orders?"],
)
def test_among_many_rows_common_words_do_not_hide_a_rare_one(
    query: str, alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Covers an identifier with common parts, a typo of a common word, and a common word of the installation's
    language.
    """
    monkeypatch.setattr(term_statistics, "CANDIDATE_ROWS", 10)
    found = ranking.SQL["found"].replace("2000", "5")
    monkeypatch.setattr(ranking, "SQL", {**ranking.SQL, "found": found})
    settings.RECALL_EXACT_SCAN_ROWS = 0
    for n in range(20):
        services.remember(alice, Remember(content=f"sales.orders has the load {n} of shipments."))
    rare = services.remember(alice, Remember(content="The zephyrine is in the basement.")).record
    term_statistics.refresh()
    assert rare in records_of(recall(alice, RecallMemories(query=query, strategy="lexical")))


def test_a_rare_name_is_found_despite_a_typo_of_one_letter(alice: Caller) -> None:
    record = services.remember(alice, Remember(content="Quintessa keeps the ledger of the depot.")).record
    services.remember(alice, Remember(content="Somebody else keeps the ledger of the shop."))
    term_statistics.refresh()
    for typo in ("quintesa", "quintezsa", "qiuntessa", "quintessaa"):
        result = recall(alice, RecallMemories(query=typo, strategy="lexical"))
        assert records_of(result) == [record], typo


def test_similar_words_are_searched_only_in_what_the_caller_may_read(alice: Caller, olga: Caller) -> None:
    services.remember(alice, Remember(content="Quintessa keeps the ledger of the depot.", visibility="private"))
    services.remember(olga, Remember(content="The ledger of the shop is kept here.", visibility="private"))
    term_statistics.refresh()
    with_typo = recall(olga, RecallMemories(query="quintesa ledger", strategy="lexical"))
    with_unknown_word = recall(olga, RecallMemories(query="zzzzzzzz ledger", strategy="lexical"))
    assert [hit.score for hit in with_typo.hits] == [hit.score for hit in with_unknown_word.hits]


def test_an_identifier_matches_as_a_whole_and_in_parts(alice: Caller) -> None:
    complete = services.remember(alice, Remember(content="The column customer_id is hashed in web.sessions.")).record
    parts = services.remember(alice, Remember(content="A customer shows an id card in sessions on the web.")).record
    for query in ("customer_id", "web.sessions"):
        assert records_of(recall(alice, RecallMemories(query=query, strategy="lexical"))) == [complete, parts]
    assert complete in records_of(recall(alice, RecallMemories(query="customer", strategy="lexical")))


def test_of_equal_scores_the_newest_comes_first(alice: Caller) -> None:
    for days in (2, 3, 1):
        created_at = timezone.now() - timedelta(days=days)
        services.remember(alice, Remember(content=f"Returns wait, case {days}."), created_at=created_at)
    answer = recall(alice, RecallMemories(query="returns", strategy="lexical"))
    assert [record.content[-2] for record in records_of(answer)] == ["1", "2", "3"]


# -- ids, and questions in other words ------------------------------------------------------------------------


def test_the_id_of_a_memory_finds_it_first(alice: Caller, olga: Caller, fact: MemoryRecord) -> None:
    services.remember(alice, Remember(content=f"The memory {fact.pk.hex} was discussed on Monday."))
    for written in (fact.pk.hex, str(fact.pk), f" {str(fact.pk).upper()} "):
        hits = recall(alice, RecallMemories(query=written)).hits
        assert hits[0].record == fact
        assert hits[0].score == 1.0
    assert fact not in [hit.record for hit in recall(olga, RecallMemories(query=fact.pk.hex)).hits]
    unknown = memory_recall(alice, query="0" * 32).data
    assert (unknown["memories"], "no memory that you may read has this id, or" in unknown["note"]) == ([], True)
    newer = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    (hit,) = [hit for hit in recall(alice, RecallMemories(query=fact.pk.hex)).hits if hit.record == fact]
    assert (hit.status, hit.record.superseded_by) == (Status.SUPERSEDED, newer.pk)


def test_what_is_weak_is_shown_as_weak_instead_of_nothing(
    alice: Caller, fact: MemoryRecord, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "the sales mart and refunds"
    settings.RECALL_MIN_SCORE = 0.9
    settings.RECALL_DISTANT_SCORE = 0.1
    found = memory_recall(alice, query=asked).data
    assert [hit["match"] for hit in found["memories"]] == ["distant"]
    assert "distant match" in found["note"]
    assert "left_out" not in found
    settings.RECALL_DISTANT_SCORE = 0.89
    silent = memory_recall(alice, query=asked).data
    assert (silent["memories"], "below_threshold" in silent["left_out"]) == ([], True)
    assert recall(alice, RecallMemories(query=asked)).hits == []  # only agents get it

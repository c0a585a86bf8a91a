from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from memories import extensions, services
from memories.contract.errors import Invalid
from memories.database.queryset_sql import condition
from memories.extensions import MemoryExtension
from memories.identity.caller import Caller, system_caller
from memories.models import MemoryRecord, Passage, Status
from memories.operations import STRATEGIES
from memories.retrieval import ranking, term_statistics
from memories.retrieval.recall import Recall, recall
from memories.retrieval.scope import Filters, in_scope

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
        key: services.remember(caller=alice, content=text, entity_urns=urns, tags=[key]).record
        for key, (text, urns) in texts.items()
    }
    term_statistics.refresh()
    return records


def records_of(answer: Recall) -> list[MemoryRecord]:
    return [hit.record for hit in answer.hits]


def test_semantic_recall_is_hybrid_and_says_why(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    answer = recall(caller=alice, query="which revenue excludes refunds", strategy="semantic")
    assert (answer.ranking, answer.degraded) == ("hybrid", False)
    best = answer.hits[0]
    assert best.record == library["refunds"]
    assert best.score == pytest.approx(0.6 * (best.cosine or 0) + 0.3 * best.coverage)
    assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


def test_an_outsider_gets_nothing_by_any_strategy(olga: Caller, library: dict[str, MemoryRecord]) -> None:
    for strategy in STRATEGIES:
        assert recall(caller=olga, query="refunds", entity_urns=[ORDERS], strategy=strategy).hits == []


def test_a_colleague_finds_what_the_persona_knows(bob: Caller, library: dict[str, MemoryRecord]) -> None:
    assert records_of(recall(caller=bob, query="refunds"))[0] == library["refunds"]


@pytest.mark.parametrize("part", ["orders", "sales_2024", "total", "orderTotal", "sales_2024.orders"])
def test_identifiers_are_found_by_their_parts(alice: Caller, library: dict[str, MemoryRecord], part: str) -> None:
    assert library["identifier"] in records_of(recall(caller=alice, query=part, strategy="lexical"))


def test_recall_without_embedder_finds_words_and_says_so(
    alice: Caller, library: dict[str, MemoryRecord], settings: Any
) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    answer = recall(caller=alice, query="excludes refunds", strategy="semantic")
    assert (answer.ranking, answer.degraded) == ("lexical", True)
    assert "results are lexical-only (exact-term matches), not semantic" in answer.note
    assert records_of(answer) == [library["refunds"]]
    assert not recall(caller=alice, query="excludes refunds", strategy="lexical").degraded


def test_rows_without_vector_are_still_found(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    Passage.objects.filter(record=library["refunds"]).delete()
    answer = recall(caller=alice, query="refunds")
    assert answer.hits[0].record == library["refunds"]
    assert answer.hits[0].cosine is None


def test_or_matching_finds_what_has_only_some_of_the_words(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    assert library["refunds"] in records_of(
        recall(caller=alice, query="are refunds booked monthly", strategy="lexical")
    )


def test_nonsense_finds_nothing(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    assert recall(caller=alice, query="zzqx wvvk jjpt").hits == []


def test_entity_recall_needs_no_query_and_honours_stale(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    assert set(records_of(recall(caller=alice, entity_urns=[ORDERS], strategy="entity"))) == {
        library["refunds"],
        library["tax"],
    }
    services.mark_stale(caller=system_caller(), record_id=library["tax"].pk, reason="changed")
    assert records_of(recall(caller=alice, entity_urns=[ORDERS], strategy="entity")) == [library["refunds"]]
    with_stale = recall(caller=alice, entity_urns=[ORDERS], strategy="entity", include_stale=True)
    assert set(records_of(with_stale)) == {library["refunds"], library["tax"]}


def test_include_stale_brings_neither_superseded_nor_archived(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    services.supersede(caller=alice, record_id=library["refunds"].pk, content="Revenue includes refunds since May.")
    services.forget(caller=alice, record_id=library["tax"].pk)
    statuses = {
        hit.status for hit in recall(caller=alice, query="revenue refunds tax sales mart", include_stale=True).hits
    }
    assert statuses == {Status.ACTIVE}


def test_graph_takes_neighbours_and_ranks_by_distance(
    alice: Caller, library: dict[str, MemoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Lineage(MemoryExtension):
        def related_entities(self, caller: Caller, urns: Sequence[str]) -> tuple[dict[str, int], str]:
            return {STOCK: 1}, ""

    monkeypatch.setattr(extensions, "_extensions", {"lineage": Lineage()})
    answer = recall(caller=alice, entity_urns=[ORDERS], strategy="graph")
    assert records_of(answer)[-1] == library["stock"]
    assert [hit.bonus for hit in answer.hits] == [1.0, 1.0, 0.5]


def test_auto_is_one_order_and_the_limit_keeps_the_best(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    whole = recall(caller=alice, query="gross amounts with tax", entity_urns=[STOCK], limit=10)
    scores = [hit.score for hit in whole.hits]
    assert scores == sorted(scores, reverse=True)
    assert set(records_of(whole)[:2]) == {library["tax"], library["stock"]}
    for limit in (1, 2, 3):
        assert (
            records_of(recall(caller=alice, query="gross amounts with tax", entity_urns=[STOCK], limit=limit))
            == records_of(whole)[:limit]
        )


def test_filters_apply_before_the_limit(alice: Caller, library: dict[str, MemoryRecord]) -> None:
    for n in range(15):
        services.remember(caller=alice, content=f"Refunds, refunds, refunds: rule {n}.")
    services.remember(caller=alice, content="She prefers refunds in a table.", dimension="preference")
    answer = recall(caller=alice, query="refunds", filters=Filters(dimension="preference"), limit=1)
    assert [hit.record.dimension for hit in answer.hits] == ["preference"]
    assert records_of(recall(caller=alice, query="refunds", filters=Filters(tags=["refunds"]))) == [library["refunds"]]


def test_equal_scores_come_in_a_fixed_order(alice: Caller, settings: Any) -> None:
    moment = timezone.now()
    for n in range(8):
        services.remember(caller=alice, content=f"Returns wait, case {n}.", created_at=moment)
    first = records_of(recall(caller=alice, query="returns", strategy="lexical"))
    assert all(records_of(recall(caller=alice, query="returns", strategy="lexical")) == first for _ in range(3))
    assert [r.pk for r in first] == sorted(r.pk for r in first)


def test_the_index_path_keeps_an_owner_of_few_rows(
    alice: Caller, library: dict[str, MemoryRecord], settings: Any
) -> None:
    exact = records_of(recall(caller=alice, query="refunds of revenue"))
    settings.RECALL_EXACT_SCAN_ROWS = 0
    assert records_of(recall(caller=alice, query="refunds of revenue")) == exact


def test_an_admin_recalls_what_others_keep_to_themselves(alice: Caller, ada: Caller) -> None:
    record = services.remember(caller=alice, content="Vouchers expire after a year.", visibility="private").record
    assert records_of(recall(caller=ada, query="vouchers expire")) == [record]


def test_a_large_scope_counts_words_among_its_own_rows(
    alice: Caller, olga: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else wrote changes no weight, however often it holds the word."""
    monkeypatch.setattr(ranking, "_rows_in_all", lambda: 100.0)
    settings.RECALL_EXACT_SCAN_ROWS = 0
    for n in range(6):
        services.remember(caller=alice, content=f"Region {n} has its returns late.", visibility="private")
    services.remember(caller=alice, content="Region 7 pays by voucher.", visibility="private")

    def coverages() -> list[tuple[Any, float]]:
        hits = recall(caller=alice, query="voucher returns", strategy="lexical").hits
        return [(hit.record.pk, hit.coverage) for hit in hits]

    before = coverages()
    for n in range(20):
        services.remember(caller=olga, content=f"The voucher {n} is void.", visibility="private")
    term_statistics.refresh()
    assert coverages() == before != []


def test_a_word_by_which_no_rows_are_looked_for_counts_by_its_share(alice: Caller, settings: Any) -> None:
    for n in range(12):
        services.remember(caller=alice, content=f"Region {n} has its returns late.")
    services.remember(caller=alice, content="Region 7 pays by voucher, returns included.")
    term_statistics.refresh()
    exact = recall(caller=alice, query="voucher returns", strategy="lexical").hits[0]
    settings.RECALL_EXACT_SCAN_ROWS = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            term_statistics, "CANDIDATE_ROWS", 5
        )  # the common word is left to the rows that hold the rare one
        hits = recall(caller=alice, query="voucher returns", strategy="lexical").hits
    assert [hit.record for hit in hits] == [exact.record]
    assert hits[0].coverage == pytest.approx(1.0)


def test_common_words_alone_find_the_rows_that_hold_them_all(alice: Caller, settings: Any) -> None:
    settings.RECALL_EXACT_SCAN_ROWS = 0
    both = services.remember(caller=alice, content="Returns and refunds are late.").record
    for n in range(5):
        services.remember(caller=alice, content=f"Returns of region {n}.")
        services.remember(caller=alice, content=f"Refunds of region {n}.")
    term_statistics.refresh()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(term_statistics, "CANDIDATE_ROWS", 3)
        assert records_of(recall(caller=alice, query="refunds returns", strategy="lexical")) == [both]


@pytest.mark.parametrize(
    ("rows", "share_of", "small"), [(900, 1_000, True), (5_000, 5_000, False), (5_000, 180_000, True)]
)
def test_a_scope_is_scanned_by_its_share_of_all_rows(
    alice: Caller, monkeypatch: pytest.MonkeyPatch, rows: int, share_of: int, small: bool
) -> None:
    """The vector index passes over the rows of others; the fewer are one's own, the more it passes over."""
    monkeypatch.setattr(ranking, "_rows_in_all", lambda: float(share_of))
    monkeypatch.setattr(ranking, "_rows_up_to", lambda scope, limit: min(rows, limit + 1))
    assert ranking.is_small(condition(in_scope(alice, Filters()))) is small


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"strategy": "psychic", "query": "x"}, "strategy"),
        ({"strategy": "semantic"}, "query"),
        ({"strategy": "lexical", "entity_urns": [ORDERS]}, "query"),
        ({"strategy": "entity", "query": "x"}, "entity_urns"),
        ({"strategy": "auto"}, "query"),
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "filters": Filters(dimension="fact")}, "dimension"),
        ({"query": "x" * 4001}, "query"),
    ],
)
def test_recall_names_what_is_missing_or_wrong(alice: Caller, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        recall(caller=alice, **arguments)
    assert refused.value.field == field


@given(query=st.text(min_size=1, max_size=80).filter(lambda text: "\x00" not in text))
@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_can_be_asked(alice: Caller, query: str) -> None:
    if query.strip():
        recall(caller=alice, query=query, strategy="lexical")
    else:
        with pytest.raises(Invalid, match="query"):
            recall(caller=alice, query=query, strategy="lexical")


# -- as of ------------------------------------------------------------------------------------------------


def test_as_of_shows_text_and_status_of_that_time(alice: Caller) -> None:
    start = timezone.now() - timedelta(days=30)
    old = services.remember(caller=alice, content="Refunds are left out of revenue.", created_at=start).record
    new = services.supersede(
        caller=alice,
        record_id=old.pk,
        content="Refunds are part of revenue.",
        created_at=start + timedelta(days=10),
    ).record
    services.revise(caller=alice, record_id=new.pk, content="Refunds are part of revenue, vouchers too.")
    services.forget(caller=alice, record_id=new.pk)

    def at(days: int) -> list[tuple[str, str]]:
        answer = recall(caller=alice, query="refunds of revenue", as_of=start + timedelta(days=days))
        return [(hit.content, hit.status) for hit in answer.hits]

    assert at(-1) == []
    assert at(5) == [("Refunds are left out of revenue.", "active")]
    assert at(15) == [("Refunds are part of revenue.", "active")]
    assert at(31) == []
    assert "as of" in recall(caller=alice, query="refunds", as_of=start).note


def test_as_of_never_shows_what_was_private_then(alice: Caller, bob: Caller) -> None:
    start = timezone.now() - timedelta(days=3)
    record = services.remember(
        caller=alice,
        content="The salary list is in the secret folder.",
        visibility="private",
        created_at=start,
    ).record
    services.revise(caller=alice, record_id=record.pk, content="The list is in the public folder.")
    services.share(caller=alice, record_id=record.pk, visibility="persona")
    then = start + timedelta(days=1)
    assert recall(caller=bob, query="list in the folder", as_of=then).hits == []
    assert len(recall(caller=alice, query="list in the folder", as_of=then).hits) == 1


# -- terms ------------------------------------------------------------------------------------------------


def test_rare_words_weigh_more_and_unknown_words_most(alice: Caller, bob: Caller, olga: Caller) -> None:
    for caller in (alice, bob, olga):  # what fewer people wrote counts as unknown
        services.remember(caller=caller, content="Refunds are sales of a kind.")
        for n in range(5):
            services.remember(caller=caller, content=f"The sales of region {n} come late.")
    term_statistics.refresh()
    terms = {term.lexeme: term for term in term_statistics.query_terms("sales refunds xylophone")}
    assert terms["xylophon"].idf > terms["refund"].idf > terms["sale"].idf


def test_a_large_scope_takes_the_rarest_terms_first() -> None:
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
def test_in_a_large_scope_common_words_hide_no_rare_one(
    query: str, alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An identifier is as common as its parts, a typo as what it may mean, a word as in the installation's language."""
    monkeypatch.setattr(term_statistics, "CANDIDATE_ROWS", 10)
    monkeypatch.setattr(ranking, "FOUND", ranking.FOUND.replace("2000", "5"))
    settings.RECALL_EXACT_SCAN_ROWS = 0
    for n in range(20):
        services.remember(caller=alice, content=f"sales.orders has the load {n} of shipments.")
    rare = services.remember(caller=alice, content="The zephyrine is in the basement.").record
    term_statistics.refresh()
    assert rare in records_of(recall(caller=alice, query=query, strategy="lexical"))


def test_a_typo_of_one_letter_still_finds_a_rare_name(alice: Caller) -> None:
    record = services.remember(caller=alice, content="Quintessa keeps the ledger of the depot.").record
    services.remember(caller=alice, content="Somebody else keeps the ledger of the shop.")
    term_statistics.refresh()
    for typo in ("quintesa", "quintezsa", "qiuntessa", "quintessaa"):
        answer = recall(caller=alice, query=typo, strategy="lexical")
        assert records_of(answer) == [record], typo


def test_likes_are_looked_for_in_the_reader_s_scope_alone(alice: Caller, olga: Caller) -> None:
    services.remember(caller=alice, content="Quintessa keeps the ledger of the depot.", visibility="private")
    services.remember(caller=olga, content="The ledger of the shop is kept here.", visibility="private")
    term_statistics.refresh()
    with_like = recall(caller=olga, query="quintesa ledger", strategy="lexical")
    without = recall(caller=olga, query="zzzzzzzz ledger", strategy="lexical")
    assert [hit.score for hit in with_like.hits] == [hit.score for hit in without.hits]


def test_an_identifier_counts_as_a_whole_and_in_parts(alice: Caller) -> None:
    whole = services.remember(caller=alice, content="The column customer_id is hashed in web.sessions.").record
    parts = services.remember(caller=alice, content="A customer shows an id card in sessions on the web.").record
    for query in ("customer_id", "web.sessions"):
        assert records_of(recall(caller=alice, query=query, strategy="lexical")) == [whole, parts]
    assert whole in records_of(recall(caller=alice, query="customer", strategy="lexical"))

"""The twelve conversation tools as their contract describes them, and defects known from the original system."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.conversation import deletion, tasks
from memories.conversation.consolidation import merging, summaries
from memories.conversation.models import CachedAnswer, MergeProposal, UserDecision, UserDecisionChange
from memories.conversation.recall import final_score
from memories.models import IndexJob, MemoryRecord, Status, Tier
from memories.operations import Erase, RecallMemories, Restore, Supersede
from memories.writing import erasure
from tests.memories.conversation.conftest import LONG, call, long_term_memory, store_turns

pytestmark = pytest.mark.django_db


# -- store_memory -----------------------------------------------------------------------------------------


def test_messages_are_kept_for_a_day_and_long_human_ones_become_long_term(alice: Caller) -> None:
    messages = [
        {"role": "human", "content": LONG},
        {"role": "ai", "content": "Noted: dark themes everywhere you build."},
    ]
    response = call(alice, "store_memory", conversation_id="c", messages=messages)
    assert response["count"] == 2
    turns = [MemoryRecord.objects.get(pk=pk) for pk in response["stm_ids"]]
    assert [(turn.tier, turn.role, turn.content) for turn in turns] == [
        ("stm", m["role"], m["content"]) for m in messages
    ]
    in_a_day = timezone.now() + timedelta(hours=24)
    assert all(turn.expires_at and abs(turn.expires_at - in_a_day) < timedelta(minutes=5) for turn in turns)
    (candidate,) = MemoryRecord.objects.filter(tier=Tier.LONG_TERM)
    assert (candidate.derived_from, candidate.enrichment_status) == (turns[0].pk, "pending")


@pytest.mark.parametrize(("length", "count"), [(30, 0), (31, 1)])
def test_long_term_memories_have_more_than_thirty_characters(alice: Caller, length: int, count: int) -> None:
    store_turns(alice, "x" * length)
    assert MemoryRecord.objects.filter(tier=Tier.LONG_TERM).count() == count


def test_a_message_is_stored_verbatim_with_author_and_time(alice: Caller) -> None:
    (turn,) = store_turns(alice, "  two  spaces\tand a tab \n", author="Melanie", timestamp="2023-05-08T13:56:00+00:00")
    assert (turn.content, turn.author) == ("  two  spaces\tand a tab \n", "Melanie")
    assert turn.created_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert turn.spoken.startswith("Melanie: ")
    assert store_turns(alice, "short", author="assistant")[0].spoken == "short"  # a role is not used as a name


def test_a_known_conversation_is_continued(alice: Caller, bob: Caller) -> None:
    store_turns(alice, "one", "two")
    (third,) = store_turns(alice, "three")
    assert third.thread_position == 2
    assert store_turns(bob, "another's")[0].thread_position == 0


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "messages: is empty"),
        ([{"role": "robot", "content": "x"}], "messages[0].role: 'robot' is unknown; allowed: human, ai"),
        ([{"role": "ai"}], "messages[0].content: is missing"),
        ([{"role": "ai", "content": " \n"}], "messages[0].content: is missing"),
        ([{"role": "ai", "content": "x", "mood": "good"}], "messages[0].mood: is unknown"),
        ([{"role": "ai", "content": "x", "timestamp": "soon"}], "messages[0].timestamp: 'soon' is not a time"),
        ([{"role": "ai", "content": "x" * 20_001}], "messages[0].content: has 20001 characters"),
    ],
)
def test_an_invalid_message_is_rejected_and_nothing_is_stored(alice: Caller, messages: list[Any], fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        call(alice, "store_memory", conversation_id="c", messages=[{"role": "ai", "content": "fine"}, *messages][1:])
    assert caught.value.message.startswith(fault)
    assert not MemoryRecord.objects.exists()


# -- recall_memory and hybrid_search ----------------------------------------------------------------------


def test_recall_returns_the_keys_of_the_contract(alice: Caller) -> None:
    (turn,) = store_turns(alice, LONG)
    response = call(alice, "recall_memory", query="dark theme")
    (hit,) = response["results"]  # one hit for the turn and its long-term memory
    assert response["count"] == 1
    assert {"_id", "user_id", "tier", "content", "importance", "access_count", "created_at", "final_score"} <= set(hit)
    assert hit["user_id"] == alice.email
    assert turn.pk.hex in (hit["_id"], hit.get("derived_from"))
    assert "embedding" not in hit


def test_the_better_of_a_turn_and_its_long_term_memory_is_returned(alice: Caller) -> None:
    (turn,) = store_turns(alice, LONG)
    MemoryRecord.objects.filter(pk=long_term_memory(turn).pk).update(importance=0.9)
    (hit,) = call(alice, "recall_memory", query="dark theme")["results"]
    assert (hit["tier"], hit["importance"]) == ("ltm", 0.9)
    assert [h["tier"] for h in call(alice, "recall_memory", query="dark theme", tier=["stm"])["results"]] == ["stm"]


def test_the_score_follows_the_formula_of_the_contract() -> None:
    now = timezone.now()
    new = MemoryRecord(importance=1.0, access_count=100, created_at=now)
    old = MemoryRecord(importance=0.6, access_count=0, created_at=now - timedelta(days=30))
    assert final_score(new, 1.0) == pytest.approx(0.2 + 0.3 + 0.5, abs=1e-4)
    assert final_score(old, 0.0) == pytest.approx(0.2 * 0.36788 + 0.3 * 0.6 / 3, abs=1e-4)


def test_a_worker_counts_accesses(alice: Caller) -> None:
    (turn,) = store_turns(alice, LONG)
    tasks.count_accesses([turn.pk.hex])
    tasks.count_accesses([turn.pk.hex])
    turn.refresh_from_db()
    assert turn.access_count == 2
    assert turn.last_accessed_at is not None


def test_both_searches_filter_by_type_and_tags(alice: Caller) -> None:
    """An older system filtered on fields that its index did not have."""
    first, _ = store_turns(alice, LONG, "The warehouse team moved its dashboards to another theme yesterday.")
    tasks.enrich()
    for tool in ("recall_memory", "hybrid_search"):
        hits = call(alice, tool, query="dashboard theme", memory_type="preference")["results"]
        assert [hit["_id"] for hit in hits] == [long_term_memory(first).pk.hex]
        assert not call(alice, tool, query="dashboard theme", tags=["no-such-tag"])["results"]


def test_hybrid_search_fuses_by_reciprocal_rank(alice: Caller) -> None:
    store_turns(alice, LONG, "The weather is fine.")
    hits = call(alice, "hybrid_search", query="dark theme dashboards")["results"]
    assert hits[0]["rrf_score"] == pytest.approx(1 / 61 + 0.7 / 61, abs=1e-4)
    assert "final_score" not in hits[0]


def test_expired_turns_are_not_recalled_and_are_deleted(alice: Caller) -> None:
    (turn,) = store_turns(alice, "short words")
    MemoryRecord.objects.filter(pk=turn.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert call(alice, "recall_memory", query="short words")["count"] == 0
    tasks.consolidate()
    assert not MemoryRecord.objects.filter(pk=turn.pk).exists()


def test_memory_recall_finds_long_term_memories_but_no_turns(alice: Caller) -> None:
    from memories.retrieval.recall import recall

    (turn,) = store_turns(alice, LONG)
    hits = recall(alice, RecallMemories(query="dark theme dashboard")).hits
    assert [hit.record.pk for hit in hits] == [long_term_memory(turn).pk]


# -- delete_memory ----------------------------------------------------------------------------------------


def test_deletion_by_id_includes_the_derived_memory_and_needs_no_confirm(alice: Caller) -> None:
    (turn,) = store_turns(alice, LONG)
    response = call(alice, "delete_memory", memory_id=long_term_memory(turn).pk.hex)
    assert response == {"deleted_count": 1, "copies_deleted": 1, "dry_run": False}
    assert call(alice, "recall_memory", query="dark theme")["count"] == 0
    assert set(MemoryRecord.objects.values_list("status", flat=True)) == {Status.ARCHIVED}
    services.restore(alice, Restore(record_id=long_term_memory(turn).pk))  # possible until it is purged
    assert call(alice, "recall_memory", query="dark theme")["count"] == 1


def test_bulk_deletion_needs_confirm_and_a_dry_run_changes_nothing(alice: Caller) -> None:
    store_turns(alice, "a", "b", timestamp="2026-03-31T23:30:00+02:00")
    store_turns(alice, "c", timestamp="2026-04-02T10:00:00Z")
    span = {"start": "2026-03-31T21:00:00Z", "end": "2026-03-31T22:00:00Z"}  # 23:30 in Zurich is 21:30 in UTC
    with pytest.raises(Invalid, match="confirm: is not set"):
        call(alice, "delete_memory", time_range=span)
    assert call(alice, "delete_memory", time_range=span, dry_run=True) == {"deleted_count": 2, "dry_run": True}
    assert MemoryRecord.objects.filter(status=Status.ACTIVE).count() == 3
    assert call(alice, "delete_memory", time_range=span, confirm=True)["deleted_count"] == 2


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "memory_id: is missing"),
        ({"time_range": {}, "confirm": True}, "memory_id: is missing"),
        (
            {"time_range": {"start": "2026-02-01T00:00:00Z", "end": "2026-01-01T00:00:00Z"}, "confirm": True},
            "time_range",
        ),
        ({"memory_id": "0" * 32, "tags": ["a"]}, "memory_id: can't be combined"),
    ],
)
def test_an_invalid_selection_is_rejected(alice: Caller, arguments: dict[str, Any], fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        call(alice, "delete_memory", **arguments)
    assert caught.value.message.startswith(fault)


def test_facts_are_not_deleted_by_delete_memory(alice: Caller, fact: MemoryRecord) -> None:
    with pytest.raises(NotFound):
        call(alice, "delete_memory", memory_id=fact.pk.hex)
    everything = {"start": "2000-01-01T00:00:00Z"}
    assert call(alice, "delete_memory", time_range=everything, confirm=True)["deleted_count"] == 0


def test_deleted_memories_are_purged_after_the_configured_days(alice: Caller, settings: Any) -> None:
    settings.SOFT_DELETE_PURGE_DAYS = 0
    (turn,) = store_turns(alice, LONG)
    call(alice, "delete_memory", memory_id=turn.pk.hex)
    assert deletion.delete_expired() == (0, 2)
    assert not MemoryRecord.objects.exists()


# -- cache ------------------------------------------------------------------------------------------------

DEADLINE = {"query": "What is the project deadline?", "response": "The project deadline is March 31, 2025."}


def test_the_cache_hits_for_equal_and_similar_questions(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(call(alice, "store_cache", **DEADLINE)) == {"cache_id", "expires_at"}
    assert call(alice, "check_cache", query=DEADLINE["query"]) == {"cache_hit": True, **DEADLINE, "score": 1.0}
    similar = call(alice, "check_cache", query="What is the project deadline, please?", similarity_threshold=0.5)
    assert (similar["cache_hit"], similar["response"]) == (True, DEADLINE["response"])
    assert call(alice, "check_cache", query="Who feeds our penguins?") == {"cache_hit": False}


def test_a_question_about_another_year_is_no_cache_hit(alice: Caller) -> None:
    call(alice, "store_cache", query="How many orders were there in 2024?", response="12")
    response = call(alice, "check_cache", query="How many orders were there in 2025?", similarity_threshold=0.1)
    assert response["cache_hit"] is False
    assert [near["differs"] for near in response["near"]] == ["2024 against 2025"]


def test_the_cache_returns_the_newest_answer_until_it_expires(alice: Caller) -> None:
    call(alice, "store_cache", query="q?", response="old")
    call(alice, "store_cache", query="Q?", response="new")
    assert call(alice, "check_cache", query="q?")["response"] == "new"
    entry = CachedAnswer.objects.get()
    assert timedelta(seconds=3590) < entry.expires_at - entry.created_at <= timedelta(seconds=3600)
    CachedAnswer.objects.update(expires_at=timezone.now())
    assert call(alice, "check_cache", query="q?") == {"cache_hit": False}
    assert tasks.delete_expired_answers() == 1


def test_cache_entries_are_invalidated_by_pattern_by_entity_or_all(alice: Caller) -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.orders,PROD)"
    for query in ("orders today", "orders yesterday", "refunds"):
        call(alice, "store_cache", query=query, response="1")
    call(alice, "store_cache", query="owner", response=f"See {urn}.")
    assert call(alice, "cache_invalidate", pattern="^ORDERS .*day$") == {"user_id": alice.email, "deleted_count": 2}
    assert call(alice, "cache_invalidate", entity_urns=[urn])["deleted_count"] == 1
    with pytest.raises(Invalid, match="regular expression"):
        call(alice, "cache_invalidate", pattern="(")
    with pytest.raises(Invalid, match="pattern: is missing"):
        call(alice, "cache_invalidate")
    with pytest.raises(Invalid, match="invalidate_all: contradicts the other conditions"):
        call(alice, "cache_invalidate", pattern="refunds", invalidate_all=True)
    assert call(alice, "cache_invalidate", invalidate_all=True)["deleted_count"] == 1


ORDERS_URN = "urn:li:dataset:(urn:li:dataPlatform:x,fernhill.sales.orders,PROD)"


def test_a_changed_entity_invalidates_answers_about_it(alice: Caller) -> None:
    from memories import extensions

    call(alice, "store_cache", query="Which columns has fernhill.sales.orders?", response="id, total")
    call(alice, "store_cache", query="Which day is it?", response="Monday")
    for extension in extensions.EXTENSIONS.all():
        extension.catalog_changed(
            ["urn:li:dataset:(urn:li:dataPlatform:x,fernhill.sales.orders,PROD)"], ["fernhill.sales.orders"]
        )
    assert list(CachedAnswer.objects.values_list("response", flat=True)) == ["Monday"]


# -- decisions --------------------------------------------------------------------------------------------


def test_a_decision_is_created_and_updated_with_its_history(alice: Caller) -> None:
    """An older system always returned "stored", let decisions expire after 90 days, and kept no history."""
    first = call(alice, "store_decision", key="preferred_language", value="Python")
    assert first == {"key": "preferred_language", "action": "created", "user_id": alice.email}
    assert call(alice, "store_decision", key="preferred_language", value="SQL")["action"] == "updated"
    response = call(alice, "recall_decision", key="preferred_language")
    assert response["found"] is True
    assert (response["decision"]["value"], "expires_at" in response["decision"]) == ("SQL", False)
    assert [change.value for change in UserDecisionChange.objects.all()] == ["Python"]
    assert call(alice, "recall_decision", key="nothing") == {"key": "nothing", "found": False}


def test_an_expired_decision_is_not_found_and_can_be_created_again(alice: Caller) -> None:
    call(alice, "store_decision", key="k", value="v", ttl_days=1)
    UserDecision.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert call(alice, "recall_decision", key="k") == {"key": "k", "found": False}
    assert call(alice, "store_decision", key="k", value="v")["action"] == "created"
    assert call(alice, "recall_decision", key="k")["found"] is True


# -- health and web search --------------------------------------------------------------------------------


def test_health_counts_by_tier_and_enrichment(alice: Caller, bob: Caller) -> None:
    store_turns(alice, LONG, "short")
    store_turns(bob, LONG)
    assert call(alice, "memory_health") == {
        "user_id": alice.email,
        "total_memories": 3,
        "tier_stats": {"stm": 2, "ltm": 1},
        "enrichment_stats": {"completed": 0, "pending": 1},
    }
    tasks.enrich()
    assert call(alice, "memory_health")["enrichment_stats"] == {"completed": 1, "pending": 0}


def test_web_search_without_a_key_explains_the_error(alice: Caller, settings: Any) -> None:
    from foundation.operations.errors import Upstream

    settings.TAVILY_API_KEY = ""
    with pytest.raises(Upstream) as caught:
        call(alice, "search_web", query="x")
    assert caught.value.message == "Web search service unavailable: Tavily API key not configured"


def test_a_caller_without_identity_cannot_store_anything(alice: Caller) -> None:
    from dataclasses import replace

    with pytest.raises(Forbidden):
        call(replace(alice, email=""), "store_decision", user_id="x", key="k", value="v")


def test_a_corrected_message_stays_in_its_place_and_expires_like_it(alice: Caller) -> None:
    _, turn = store_turns(alice, "one", "The stand-up is at nine.", author="Melanie")
    answer = services.supersede(alice, Supersede(record_id=turn.pk, content="The stand-up is at ten."))
    kept = ("tier", "conversation_id", "role", "author", "thread_position", "importance", "expires_at")
    assert {name: getattr(answer.record, name) for name in kept} == {name: getattr(turn, name) for name in kept}


def test_without_embedder_messages_and_long_term_memories_are_queued(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    (turn,) = store_turns(alice, LONG)
    waiting = set(IndexJob.objects.filter(source_kind="memory").values_list("source_id", flat=True))
    assert waiting == {turn.pk, long_term_memory(turn).pk}


def test_a_restored_memory_is_not_purged(alice: Caller, settings: Any) -> None:
    settings.SOFT_DELETE_PURGE_DAYS = 0
    (turn,) = store_turns(alice, "The stand-up is at nine.")
    services.supersede(alice, Supersede(record_id=turn.pk, content="The stand-up is at ten."))
    call(alice, "delete_memory", memory_id=turn.pk.hex)
    assert services.restore(alice, Restore(record_id=turn.pk)).status == Status.SUPERSEDED
    assert deletion.delete_expired() == (0, 0)
    assert MemoryRecord.objects.filter(pk=turn.pk).exists()


def test_answers_of_another_embedding_model_are_not_compared(alice: Caller) -> None:
    call(alice, "store_cache", **DEADLINE)
    CachedAnswer.objects.update(embedding_model="another-384")
    like = call(alice, "check_cache", query="What is the project deadline, please?", similarity_threshold=0.5)
    assert like == {"cache_hit": False}
    assert call(alice, "check_cache", query=DEADLINE["query"])["cache_hit"] is True  # the same words


def test_a_cached_answer_goes_with_the_memory_that_it_names(alice: Caller, fact: MemoryRecord) -> None:
    call(alice, "store_cache", query="Is that so?", response="Yes.", memory_ids=[fact.pk.hex])
    call(alice, "store_cache", query="What did I read?", response=fact.content)
    erased = erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert list(CachedAnswer.objects.values_list("response", flat=True)) == [fact.content]
    assert (erased.removed, erased.same_words) == ({"cached answers": 1}, {"cached answers": 1})


@pytest.mark.parametrize("erased", ["turn", "memory"])
def test_a_turn_its_memory_and_its_summary_are_erased_together(alice: Caller, erased: str) -> None:
    texts = ["Please remember: the depot in Ghent is closed on Fridays.", "ok", "And on Mondays it opens late.", "hm"]
    turn, *others = store_turns(alice, *texts)
    MemoryRecord.objects.filter(tier=Tier.SHORT_TERM).update(expires_at=timezone.now() + timedelta(minutes=30))
    assert summaries.compress() == 1
    summary = MemoryRecord.objects.get(tier=Tier.LONG_TERM, derived_from=None)
    assert "Ghent" in summary.content
    target = turn if erased == "turn" else long_term_memory(turn)
    answer = erasure.erase(alice, Erase(record_id=target.pk, confirm=True))
    assert answer.removed["memories"] == 2
    assert not MemoryRecord.objects.filter(content__contains="Ghent").exists()
    assert MemoryRecord.objects.filter(pk__in=[other.pk for other in others]).count() == 3


def test_a_purged_turn_takes_its_summary_along(alice: Caller, settings: Any) -> None:
    settings.SOFT_DELETE_PURGE_DAYS = 0
    turn, *_ = store_turns(alice, "Remember: the depot in Ghent is closed.", "ok", "hm", "Thanks for that, I see.")
    MemoryRecord.objects.filter(tier=Tier.SHORT_TERM).update(expires_at=timezone.now() + timedelta(minutes=30))
    summaries.compress()
    call(alice, "delete_memory", memory_id=turn.pk.hex)
    deletion.delete_expired()
    assert not MemoryRecord.objects.filter(content__contains="Ghent").exists()


def test_the_correction_of_a_long_term_memory_is_no_copy_of_the_turn(alice: Caller) -> None:
    (turn,) = store_turns(alice, "The depot in Ghent is closed on Fridays.")
    memory = long_term_memory(turn)
    text = "The depot in Ghent is closed on Mondays."
    new = services.supersede(alice, Supersede(record_id=memory.pk, content=text)).record
    erasure.erase(alice, Erase(record_id=turn.pk, confirm=True))
    assert list(MemoryRecord.objects.values_list("pk", flat=True)) == [new.pk]


@pytest.mark.parametrize("part", ["record", "target"])
def test_a_merged_memory_is_erased_with_either_part(alice: Caller, part: str) -> None:
    first, second = store_turns(alice, "The depot in Ghent is closed on Fridays.", "The depot in Ghent opens at ten.")
    record, target = long_term_memory(second), long_term_memory(first)
    text = f"{target.content} {record.content}"
    proposal = MergeProposal.objects.create(record=record, target=target, cosine=0.9, text=text)
    merging.accept(alice, proposal_id=proposal.pk)
    merged = MemoryRecord.objects.get(content=text)
    erasure.erase(alice, Erase(record_id=getattr(proposal, f"{part}_id"), confirm=True))
    assert not MemoryRecord.objects.filter(pk=merged.pk).exists()
    other = target if part == "record" else record
    assert MemoryRecord.objects.get(pk=other.pk).status == Status.ARCHIVED

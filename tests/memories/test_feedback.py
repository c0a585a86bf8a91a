from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge.freshness import stale_review
from memories import services
from memories.contract.errors import Conflict, Invalid, NotFound
from memories.identity.caller import Caller
from memories.models import Feedback, MemoryRecord, Persona
from memories.operations import Erase, Forget, MarkFeedback, RecallMemories, Restore, Verify
from memories.retrieval.recall import recall
from memories.writing import erasure, feedback, undo

pytestmark = pytest.mark.django_db


def recalled_texts(caller: Caller) -> list[str]:
    return [hit.content for hit in recall(RecallMemories(query="refunds"), caller=caller).hits]


def test_a_wrong_verdict_of_one_reader_hides_the_memory_only_from_that_reader(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong", note="refunds are in since May"), caller=bob)
    fact.refresh_from_db()
    assert fact.status == "active"
    assert (recalled_texts(bob), recalled_texts(alice)) == ([], [fact.content])
    assert list(stale_review.needs_verification(alice)) == [fact]  # the owner is asked to verify it
    assert not stale_review.needs_verification(bob).exists()
    services.verify(Verify(record_id=fact.pk), caller=alice)
    assert not stale_review.needs_verification(alice).exists()


@pytest.mark.parametrize("second", ["owner", "curator", "reader"])
def test_a_second_wrong_verdict_removes_the_memory_from_everybody_s_recall(
    second: str, alice: Caller, bob: Caller, personas: dict[str, Persona], fact: MemoryRecord
) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=bob)
    second_caller = {
        "owner": alice,
        "curator": replace(bob, email="cora@example.org", rights=frozenset({"curate"})),
        "reader": replace(bob, email="rea@example.org"),
    }[second]
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong", note="since May"), caller=second_caller)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{second_caller.email} marked it wrong: since May")
    revision = fact.revisions.get()
    assert (revision.change, revision.changed_by) == ("mark_wrong", second_caller.email)


def test_withdrawing_a_verdict_deletes_it(bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=bob)
    feedback.withdraw(caller=bob, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, Feedback.objects.count()) == ("active", 0)


def test_the_last_verdict_of_a_reader_counts(bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=bob)
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="useful"), caller=bob)
    fact.refresh_from_db()
    assert (fact.status, Feedback.objects.get().verdict) == ("active", "useful")


def test_withdrawing_a_verdict_keeps_another_stale_reason(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=bob)
    services.verify(Verify(record_id=fact.pk), caller=alice)
    services.mark_stale(caller=alice, record_id=fact.pk, reason="the table moved")
    feedback.withdraw(caller=bob, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", "the table moved")


def test_only_readers_of_a_memory_give_feedback(olga: Caller, fact: MemoryRecord) -> None:
    for attempt in (
        lambda: feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=olga),
        lambda: feedback.withdraw(caller=olga, record_id=fact.pk),
    ):
        with pytest.raises(NotFound):
            attempt()
    fact.refresh_from_db()
    assert fact.status == "active"


def test_unknown_verdicts_and_archived_memories_are_rejected(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    with pytest.raises(Invalid) as caught:
        feedback.mark(MarkFeedback.read({"record_id": fact.pk, "verdict": "boring"}), caller=bob)
    assert caught.value.field == "verdict"
    services.forget(Forget(record_id=fact.pk), caller=alice)
    with pytest.raises(Conflict):
        feedback.mark(MarkFeedback.read({"record_id": fact.pk, "verdict": "wrong"}), caller=bob)


def test_erasing_a_memory_erases_its_feedback(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong", note="a telling note"), caller=bob)
    erasure.erase(Erase(record_id=fact.pk, confirm=True), caller=alice)
    assert not Feedback.objects.exists()


def test_a_wrong_verdict_of_the_owner_takes_effect_for_everybody_at_once(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong", note="not since May"), caller=alice)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{alice.email} marked it wrong: not since May")
    assert (recalled_texts(bob), recalled_texts(alice)) == ([], [])


def test_withdrawing_a_verdict_keeps_a_later_stale_reason(alice: Caller, fact: MemoryRecord) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=alice)
    services.verify(Verify(record_id=fact.pk), caller=alice)
    services.mark_stale(caller=alice, record_id=fact.pk, reason="the table moved")
    feedback.withdraw(caller=alice, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", "the table moved")


@pytest.mark.parametrize("way_back", ["restore", "undo"])
def test_a_mark_withdrawn_from_a_forgotten_memory_leaves_no_reason(
    alice: Caller, fact: MemoryRecord, way_back: str
) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=alice)
    services.forget(Forget(record_id=fact.pk), caller=alice)
    feedback.withdraw(caller=alice, record_id=fact.pk)
    if way_back == "restore":
        restored = services.restore(Restore(record_id=fact.pk), caller=alice)
    else:
        restored = undo.undo(caller=alice, record_id=fact.pk, change="forget")
    assert (restored.status, restored.stale_reason) == ("active", "")


def test_another_decisive_mark_is_the_reason_after_the_first_is_withdrawn(
    alice: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=ada)
    feedback.mark(MarkFeedback(record_id=fact.pk, verdict="wrong"), caller=alice)
    feedback.withdraw(caller=alice, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{ada.email} marked it wrong")
    feedback.withdraw(caller=ada, record_id=fact.pk)
    fact.refresh_from_db()
    assert fact.status == "active"

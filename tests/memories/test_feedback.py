from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.freshness import stale_review
from memories import services
from memories.models import Feedback, MemoryRecord
from memories.operations import Erase, Forget, MarkFeedback, RecallMemories, Restore, Share, Supersede, Verify
from memories.retrieval.recall import recall
from memories.writing import erasure, feedback, undo

pytestmark = pytest.mark.django_db


def recalled_texts(caller: Caller) -> list[str]:
    return [hit.content for hit in recall(caller, RecallMemories(query="refunds")).hits]


def test_a_wrong_verdict_of_one_reader_hides_the_memory_only_from_that_reader(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong", note="refunds are in since May"))
    fact.refresh_from_db()
    assert fact.status == "active"
    assert (recalled_texts(bob), recalled_texts(alice)) == ([], [fact.content])
    assert list(stale_review.needs_verification(alice)) == [fact]  # the owner is asked to verify it
    assert not stale_review.needs_verification(bob).exists()
    services.verify(alice, Verify(record_id=fact.pk))
    assert not stale_review.needs_verification(alice).exists()


@pytest.mark.parametrize("second", ["owner", "curator", "reader"])
def test_a_second_wrong_verdict_removes_the_memory_from_everybody_s_recall(
    second: str, alice: Caller, bob: Caller, personas: dict[str, Persona], fact: MemoryRecord
) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    second_caller = {
        "owner": alice,
        "curator": replace(bob, email="cora@example.org", rights=frozenset({"curate"})),
        "reader": replace(bob, email="rea@example.org"),
    }[second]
    feedback.mark(second_caller, MarkFeedback(record_id=fact.pk, verdict="wrong", note="since May"))
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{second_caller.email} marked it wrong: since May")
    revision = fact.revisions.get()
    assert (revision.change, revision.changed_by) == ("mark_wrong", second_caller.email)


def test_withdrawing_a_verdict_deletes_it(bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    feedback.withdraw(bob, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, Feedback.objects.count()) == ("active", 0)


def test_the_last_verdict_of_a_reader_counts(bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="useful"))
    fact.refresh_from_db()
    assert (fact.status, Feedback.objects.get().verdict) == ("active", "useful")


def test_withdrawing_a_verdict_keeps_another_stale_reason(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    services.verify(alice, Verify(record_id=fact.pk))
    services.mark_stale(alice, record_id=fact.pk, reason="the table moved")
    feedback.withdraw(bob, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", "the table moved")


def test_only_readers_of_a_memory_give_feedback(olga: Caller, fact: MemoryRecord) -> None:
    for attempt in (
        lambda: feedback.mark(olga, MarkFeedback(record_id=fact.pk, verdict="wrong")),
        lambda: feedback.withdraw(olga, record_id=fact.pk),
    ):
        with pytest.raises(NotFound):
            attempt()
    fact.refresh_from_db()
    assert fact.status == "active"


def test_unknown_verdicts_and_archived_memories_are_rejected(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    with pytest.raises(Invalid) as caught:
        feedback.mark(bob, MarkFeedback.read({"record_id": fact.pk, "verdict": "boring"}))
    assert caught.value.field == "verdict"
    services.forget(alice, Forget(record_id=fact.pk))
    with pytest.raises(Conflict):
        feedback.mark(bob, MarkFeedback.read({"record_id": fact.pk, "verdict": "wrong"}))


def test_erasing_a_memory_erases_its_feedback(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong", note="a telling note"))
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert not Feedback.objects.exists()


def test_a_wrong_verdict_of_the_owner_takes_effect_for_everybody_at_once(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="wrong", note="not since May"))
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{alice.email} marked it wrong: not since May")
    assert (recalled_texts(bob), recalled_texts(alice)) == ([], [])


def test_withdrawing_a_verdict_keeps_a_later_stale_reason(alice: Caller, fact: MemoryRecord) -> None:
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    services.verify(alice, Verify(record_id=fact.pk))
    services.mark_stale(alice, record_id=fact.pk, reason="the table moved")
    feedback.withdraw(alice, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", "the table moved")


@pytest.mark.parametrize("way_back", ["restore", "undo"])
def test_a_mark_withdrawn_from_a_forgotten_memory_leaves_no_reason(
    alice: Caller, fact: MemoryRecord, way_back: str
) -> None:
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    services.forget(alice, Forget(record_id=fact.pk))
    feedback.withdraw(alice, record_id=fact.pk)
    if way_back == "restore":
        restored = services.restore(alice, Restore(record_id=fact.pk))
    else:
        restored = undo.undo(alice, record_id=fact.pk, change="forget")
    assert (restored.status, restored.stale_reason) == ("active", "")


def test_a_mark_withdrawn_from_a_corrected_memory_leaves_no_reason_if_the_correction_is_undone(
    alice: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    correction = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds now.")).record
    assert correction.supersedes_id == fact.pk
    feedback.withdraw(alice, record_id=fact.pk)
    undone = undo.undo(alice, record_id=fact.pk, change="supersede")
    assert (undone.status, undone.stale_reason) == ("active", "")


def test_another_decisive_mark_is_the_reason_after_the_first_is_withdrawn(
    alice: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(ada, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    feedback.mark(alice, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    feedback.withdraw(alice, record_id=fact.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.stale_reason) == ("stale", f"{ada.email} marked it wrong")
    feedback.withdraw(ada, record_id=fact.pk)
    fact.refresh_from_db()
    assert fact.status == "active"


@pytest.fixture
def for_everyone(alice: Caller, fact: MemoryRecord) -> MemoryRecord:
    return services.share(alice, Share(record_id=fact.pk, visibility="everyone"))


def test_marks_of_readers_without_the_persona_have_no_effect_for_others(
    alice: Caller, bob: Caller, olga: Caller, for_everyone: MemoryRecord
) -> None:
    outsiders = [olga, replace(olga, email="otto@example.org"), replace(olga, email="oda@example.org")]
    for outsider in outsiders:
        mark = feedback.mark(outsider, MarkFeedback(record_id=for_everyone.pk, verdict="wrong", note="no"))
        assert not mark.counts
        assert recalled_texts(outsider) == []
    for_everyone.refresh_from_db()
    assert (for_everyone.status, recalled_texts(bob)) == ("active", [for_everyone.content])
    assert not stale_review.needs_verification(alice).exists()
    # The first mark of a member is not the second one that counts.
    feedback.mark(bob, MarkFeedback(record_id=for_everyone.pk, verdict="wrong"))
    for_everyone.refresh_from_db()
    assert for_everyone.status == "active"
    assert list(stale_review.needs_verification(alice)) == [for_everyone]


def test_marks_without_effect_are_shown_to_their_authors_and_the_owner(
    alice: Caller, bob: Caller, olga: Caller, for_everyone: MemoryRecord
) -> None:
    feedback.mark(olga, MarkFeedback(record_id=for_everyone.pk, verdict="useful", note="push this"))
    shown = {caller.email: feedback.feedback_for(caller, for_everyone)[0] for caller in (alice, bob, olga)}
    assert [len(shown[caller.email]) for caller in (alice, bob, olga)] == [1, 0, 1]
    assert feedback.useful_count(for_everyone, shown[alice.email]) == 0


def test_a_curator_of_another_persona_counts_as_one_reader(
    bob: Caller, olga: Caller, for_everyone: MemoryRecord
) -> None:
    curator = replace(olga, rights=frozenset({"curate"}))
    assert feedback.mark(curator, MarkFeedback(record_id=for_everyone.pk, verdict="wrong")).counts
    for_everyone.refresh_from_db()
    assert for_everyone.status == "active"
    feedback.mark(bob, MarkFeedback(record_id=for_everyone.pk, verdict="wrong"))
    for_everyone.refresh_from_db()
    assert for_everyone.status == "stale"


def test_whether_a_mark_counts_is_decided_when_it_is_made(
    bob: Caller, olga: Caller, for_everyone: MemoryRecord
) -> None:
    feedback.mark(olga, MarkFeedback(record_id=for_everyone.pk, verdict="wrong"))
    with_persona = replace(olga, personas=olga.personas | {"sales"})
    feedback.mark(bob, MarkFeedback(record_id=for_everyone.pk, verdict="wrong"))
    for_everyone.refresh_from_db()
    assert for_everyone.status == "active"  # olga's mark counts only once she makes it again
    feedback.mark(with_persona, MarkFeedback(record_id=for_everyone.pk, verdict="wrong"))
    for_everyone.refresh_from_db()
    assert for_everyone.status == "stale"


def test_a_mark_from_before_a_verification_is_not_the_first_of_two(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    services.verify(alice, Verify(record_id=fact.pk))
    feedback.mark(replace(bob, email="rea@example.org"), MarkFeedback(record_id=fact.pk, verdict="wrong"))
    fact.refresh_from_db()
    assert fact.status == "active"

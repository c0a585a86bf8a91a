"""memory_store and memory_prune work only on the caller's own notes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories import services
from memories.mcp_tools import memory_prune, memory_recall, memory_store
from memories.models import MemoryRecord, Status
from memories.operations import MarkFeedback, Remember, Restore, Share, Supersede, Verify
from memories.writing import feedback, undo

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(days=100)


def store_note(caller: Caller, text: str, age: timedelta = LONG_AGO) -> MemoryRecord:
    record = MemoryRecord.objects.get(pk=memory_store(caller, text=text)["id"])
    MemoryRecord.objects.filter(pk=record.pk).update(created_at=timezone.now() - age)
    return record


def archived_texts() -> set[str]:
    return set(MemoryRecord.objects.filter(status=Status.ARCHIVED).values_list("content", flat=True))


def test_a_note_may_be_one_character_and_is_private(alice: Caller, bob: Caller) -> None:
    response = memory_store(alice, text="x", metadata={"source_tool": "shell"})
    record = MemoryRecord.objects.get(pk=response["id"])
    assert (record.content, record.visibility, record.source) == ("x", "private", "note")
    assert record.metadata == {"source_tool": "shell"}
    assert memory_store(alice, text="X ")["existing"] is True
    assert [hit["content"] for hit in memory_recall(alice, query="x", k=5).data["memories"]] == ["x"]
    assert memory_recall(bob, query="x", k=5).data["memories"] == []


@pytest.mark.parametrize(("text", "fault"), [("", "text: is missing"), ("x" * 4_001, "text: has 4001 characters")])
def test_an_invalid_text_is_rejected(alice: Caller, text: str, fault: str) -> None:
    with pytest.raises(Invalid) as caught:
        memory_store(alice, text=text)
    assert caught.value.message.startswith(fault)


def test_pruning_is_a_dry_run_by_default(alice: Caller) -> None:
    store_note(alice, "old")
    store_note(alice, "new", timedelta(days=1))
    response = memory_prune(alice)
    assert (response["pruned"], response["dry_run"], archived_texts()) == (1, True, set())
    assert memory_prune(alice, dry_run=False)["pruned"] == 1
    assert archived_texts() == {"old"}
    services.restore(alice, Restore(record_id=MemoryRecord.objects.get(content="old").pk))
    assert archived_texts() == set()


def test_pruning_keeps_the_most_used_notes(alice: Caller) -> None:
    records = [store_note(alice, text) for text in ("never", "often", "once")]
    for record, uses in zip(records, (0, 9, 1), strict=True):
        MemoryRecord.objects.filter(pk=record.pk).update(access_count=uses)
    assert memory_prune(alice, days=30, keep=2, dry_run=False)["pruned"] == 1
    assert archived_texts() == {"never"}


def test_pruning_can_be_limited_to_near_duplicates(alice: Caller, settings: Any) -> None:
    settings.NEAR_DUPLICATE_COSINE = 0.6
    store_note(alice, "The till of store seven is closed on Mondays.", timedelta(days=90))
    store_note(alice, "The till of store seven is closed on Mondays, too.", timedelta(days=80))
    store_note(alice, "Something else entirely.", timedelta(days=90))
    assert memory_prune(alice, near_duplicates=True, dry_run=False)["pruned"] == 1
    assert archived_texts() == {"The till of store seven is closed on Mondays."}


def test_a_note_with_another_fact_is_no_near_duplicate(alice: Caller, settings: Any) -> None:
    settings.NEAR_DUPLICATE_COSINE = 0.6
    for days, text in ((90, "closes at 8 pm"), (80, "closes at 9 pm"), (70, "never closes at 9 pm")):
        store_note(alice, f"The till of store seven {text}.", timedelta(days=days))
    assert memory_prune(alice, near_duplicates=True, dry_run=False)["pruned"] == 0


def test_only_own_unshared_and_unmarked_notes_are_pruned(alice: Caller, bob: Caller, ada: Caller) -> None:
    for text in ("shared", "verified", "useful", "corrected", "noted by bob"):
        store_note(bob if "bob" in text else alice, f"{text} text of ten")
    record = {text: MemoryRecord.objects.get(content__startswith=text) for text in ("shared", "verified", "useful")}
    services.share(alice, Share(record_id=record["shared"].pk, visibility="everyone"))
    services.verify(alice, Verify(record_id=record["verified"].pk))
    feedback.mark(alice, MarkFeedback(record_id=record["useful"].pk, verdict="useful"))
    services.supersede(
        alice,
        Supersede(
            record_id=MemoryRecord.objects.get(content__startswith="corrected").pk,
            content="a corrected text of some length",
        ),
    )
    fact = services.remember(alice, Remember(content="A fact that was remembered, not noted.")).record
    MemoryRecord.objects.update(created_at=timezone.now() - LONG_AGO)
    for caller in (alice, ada):  # also an admin prunes only their own notes
        assert memory_prune(caller, days=0, dry_run=False)["pruned"] == 0
    assert archived_texts() == set()
    fact.refresh_from_db()
    assert fact.status == Status.ACTIVE


def test_a_pruned_note_that_is_restored_by_mistake_keeps_its_purge_date(alice: Caller) -> None:
    record = store_note(alice, "old")
    memory_prune(alice, dry_run=False)
    record.refresh_from_db()
    purge_after = record.purge_after
    assert purge_after is not None
    assert services.restore(alice, Restore(record_id=record.pk)).purge_after is None
    undo.undo(alice, record_id=record.pk, change="restore")
    record.refresh_from_db()
    assert (record.status, record.purge_after) == (Status.ARCHIVED, purge_after)

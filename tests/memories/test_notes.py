"""memory_store and memory_prune: one's own notes, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memories import services
from memories.contract.errors import Invalid
from memories.identity.caller import Caller
from memories.mcp_tools import memory_prune, memory_recall, memory_store
from memories.models import MemoryRecord, Status
from memories.operations import MarkFeedback, Remember, Restore, Share, Supersede, Verify
from memories.writing import feedback

pytestmark = pytest.mark.django_db
LONG_AGO = timedelta(days=100)


def note(caller: Caller, text: str, age: timedelta = LONG_AGO) -> MemoryRecord:
    record = MemoryRecord.objects.get(pk=memory_store(caller, text=text)["id"])
    MemoryRecord.objects.filter(pk=record.pk).update(created_at=timezone.now() - age)
    return record


def archived() -> set[str]:
    return set(MemoryRecord.objects.filter(status=Status.ARCHIVED).values_list("content", flat=True))


def test_one_character_is_a_note_for_its_owner_alone(alice: Caller, bob: Caller) -> None:
    answer = memory_store(alice, text="x", metadata={"source_tool": "shell"})
    record = MemoryRecord.objects.get(pk=answer["id"])
    assert (record.content, record.visibility, record.source) == ("x", "private", "note")
    assert record.metadata == {"source_tool": "shell"}
    assert memory_store(alice, text="X ")["existing"] is True
    assert [hit["content"] for hit in memory_recall(alice, query="x", k=5).data["memories"]] == ["x"]
    assert memory_recall(bob, query="x", k=5).data["memories"] == []


@pytest.mark.parametrize(("text", "fault"), [("", "text: is missing"), ("x" * 4_001, "text: has 4001 characters")])
def test_a_wrong_text_is_refused(alice: Caller, text: str, fault: str) -> None:
    with pytest.raises(Invalid) as refused:
        memory_store(alice, text=text)
    assert refused.value.message.startswith(fault)


def test_pruning_counts_only_unless_told_otherwise(alice: Caller) -> None:
    note(alice, "old")
    note(alice, "new", timedelta(days=1))
    answer = memory_prune(alice)
    assert (answer["pruned"], answer["dry_run"], archived()) == (1, True, set())
    assert memory_prune(alice, dry_run=False)["pruned"] == 1
    assert archived() == {"old"}
    services.restore(Restore(record_id=MemoryRecord.objects.get(content="old").pk), caller=alice)
    assert archived() == set()


def test_the_most_used_ones_stay(alice: Caller) -> None:
    records = [note(alice, text) for text in ("never", "often", "once")]
    for record, uses in zip(records, (0, 9, 1), strict=True):
        MemoryRecord.objects.filter(pk=record.pk).update(access_count=uses)
    assert memory_prune(alice, days=30, keep=2, dry_run=False)["pruned"] == 1
    assert archived() == {"never"}


def test_near_duplicates_alone(alice: Caller, settings: Any) -> None:
    settings.NEAR_DUPLICATE_COSINE = 0.6
    note(alice, "The till of store seven is closed on Mondays.", timedelta(days=90))
    note(alice, "The till of store seven is closed on Mondays, too.", timedelta(days=80))
    note(alice, "Something else entirely.", timedelta(days=90))
    assert memory_prune(alice, near_duplicates=True, dry_run=False)["pruned"] == 1
    assert archived() == {"The till of store seven is closed on Mondays."}


def test_nothing_but_own_plain_notes_is_pruned(alice: Caller, bob: Caller, ada: Caller) -> None:
    for text in ("shared", "verified", "useful", "corrected", "noted by bob"):
        note(bob if "bob" in text else alice, f"{text} text of ten")
    record = {text: MemoryRecord.objects.get(content__startswith=text) for text in ("shared", "verified", "useful")}
    services.share(Share(record_id=record["shared"].pk, visibility="everyone"), caller=alice)
    services.verify(Verify(record_id=record["verified"].pk), caller=alice)
    feedback.mark(MarkFeedback(record_id=record["useful"].pk, verdict="useful"), caller=alice)
    services.supersede(
        Supersede(
            record_id=MemoryRecord.objects.get(content__startswith="corrected").pk,
            content="a corrected text of some length",
        ),
        caller=alice,
    )
    fact = services.remember(Remember(content="A fact that was remembered, not noted."), caller=alice).record
    MemoryRecord.objects.update(created_at=timezone.now() - LONG_AGO)
    for caller in (alice, ada):  # an admin prunes their own too
        assert memory_prune(caller, days=0, dry_run=False)["pruned"] == 0
    assert archived() == set()
    fact.refresh_from_db()
    assert fact.status == Status.ACTIVE

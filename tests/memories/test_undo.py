"""Undo of single changes and of batches, and safe display of invisible characters."""

from __future__ import annotations

import pytest

from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from memories import services
from memories.models import Batch, MemoryRecord
from memories.operations import Forget, Reassign, RecallMemories, Remember, Restore, Revise, Share, Supersede, Verify
from memories.retrieval.recall import recall
from memories.writing import bulk_actions, undo
from memory_project.portal.templatetags.portal import markdown, visible
from tests.jobs import BulkActionJobs, work_off

pytestmark = pytest.mark.django_db
REASON = "orders was deprecated"


def create_stale(alice: Caller, ada: Caller, text: str = "The mart is rebuilt every night.") -> MemoryRecord:
    record = services.remember(alice, Remember(content=text)).record
    return services.mark_stale(ada, record_id=record.pk, reason=REASON)


@pytest.mark.parametrize("change", ["forget", "verify"])
def test_undo_makes_a_memory_stale_again(alice: Caller, ada: Caller, change: str) -> None:
    record = create_stale(alice, ada)
    if change == "forget":
        services.forget(alice, Forget(record_id=record.pk))
    else:
        services.verify(alice, Verify(record_id=record.pk))
    undone = undo.undo(alice, record_id=record.pk, change=change)
    assert (undone.status, undone.stale_reason, undone.stale_at) == ("stale", REASON, record.stale_at)
    assert undone.last_verified_at == record.last_verified_at


def test_undoing_a_restore_archives_the_memory_again(alice: Caller) -> None:
    record = services.remember(alice, Remember(content="The mart is rebuilt every night.")).record
    services.forget(alice, Forget(record_id=record.pk))
    services.restore(alice, Restore(record_id=record.pk))
    assert undo.undo(alice, record_id=record.pk, change="restore").status == "archived"


def test_only_the_last_change_and_only_by_its_author_is_undone(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = create_stale(alice, ada)
    services.verify(alice, Verify(record_id=record.pk))
    with pytest.raises(Forbidden):
        undo.undo(bob, record_id=record.pk, change="verify")
    services.revise(alice, Revise(record_id=record.pk, content="The mart is rebuilt every morning."))
    with pytest.raises(Conflict, match="changed since"):
        undo.undo(alice, record_id=record.pk, change="verify")


def test_undoing_a_batch_restores_every_memory(alice: Caller, ada: Caller) -> None:
    rows = [create_stale(alice, ada, f"Fact number {n} about the mart.") for n in range(60)]
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    assert len(bulk_actions.completed_units(batch)) == 60
    undone = bulk_actions.undo(alice, batch_id=batch.pk)
    assert undone.act == "undo_forget"
    assert len(bulk_actions.completed_units(undone)) == 60
    states = set(MemoryRecord.objects.values_list("status", "stale_reason"))
    assert states == {("stale", REASON)}


def test_a_worker_finishes_a_batch_of_a_closed_page(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "SLICE_S", 0.0)
    rows = [services.remember(alice, Remember(content=f"Fact number {n} about the mart.")).record for n in range(3)]
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    assert batch.finished_at is None
    monkeypatch.setattr(bulk_actions, "SLICE_S", 10.0)
    work_off(BulkActionJobs(), batch.pk)
    assert Batch.objects.get(pk=batch.pk).finished_at is not None
    assert set(MemoryRecord.objects.values_list("status", flat=True)) == {"archived"}


def test_undoing_the_restore_of_a_correction_restores_the_chain(alice: Caller) -> None:
    old = services.remember(alice, Remember(content="The mart is rebuilt every night.")).record
    new = services.supersede(alice, Supersede(record_id=old.pk, content="The mart is rebuilt at noon.")).record
    services.forget(alice, Forget(record_id=new.pk))
    before = {row.pk: row.status for row in MemoryRecord.objects.all()}
    services.restore(alice, Restore(record_id=new.pk))
    undo.undo(alice, record_id=new.pk, change="restore")
    assert {row.pk: row.status for row in MemoryRecord.objects.all()} == before


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u200b", "\x1b", "\u00ad"])
def test_invisible_and_direction_characters_are_shown_as_code_points(mark: str) -> None:
    text = f"Amounts are net{mark}ssorg"
    for rendering in (visible(text), markdown(text)):
        assert mark not in rendering
        assert f"⟦U+{ord(mark):04X}⟧" in rendering


def test_joiners_are_kept_in_scripts_and_emoji_that_need_them() -> None:
    assert visible("می‌خواهم 👩‍👩‍👧") == "می‌خواهم 👩‍👩‍👧"


def test_recall_counts_omitted_stale_and_superseded_matches(alice: Caller, ada: Caller) -> None:
    create_stale(alice, ada)
    old = services.remember(alice, Remember(content="The mart is rebuilt every hour.")).record
    services.supersede(alice, Supersede(record_id=old.pk, content="The mart is rebuilt at noon."))
    result = recall(alice, RecallMemories(query="when is the mart rebuilt"))
    assert [hit.record.content for hit in result.hits] == ["The mart is rebuilt at noon."]
    assert result.left_out == {"stale": 1, "superseded": 1}


def test_a_move_is_not_undone_onto_the_same_text(alice: Caller, ada: Caller) -> None:
    record = services.remember(alice, Remember(content="The mart is rebuilt every night.")).record
    services.reassign(ada, Reassign(record_id=record.pk, persona="supply"))
    again = services.remember(alice, Remember(content="The mart is rebuilt every night.")).record
    with pytest.raises(Conflict, match=again.pk.hex):
        undo.undo(ada, record_id=record.pk, change="reassign")
    record.refresh_from_db()
    assert record.persona == "supply"


def correct(caller: Caller) -> tuple[MemoryRecord, MemoryRecord]:
    old = services.remember(caller, Remember(content="The mart is rebuilt every night.")).record
    return old, services.supersede(caller, Supersede(record_id=old.pk, content="The mart is rebuilt at noon.")).record


def test_undoing_a_correction_brings_the_earlier_text_back(alice: Caller, bob: Caller) -> None:
    old, new = correct(alice)
    with pytest.raises(Forbidden):
        undo.undo(bob, record_id=old.pk, change="supersede")
    undo.undo(alice, record_id=old.pk, change="supersede")
    states = {row.pk: (row.status, row.superseded_by) for row in MemoryRecord.objects.all()}
    assert states == {old.pk: ("active", None), new.pk: ("archived", None)}
    assert recall(alice, RecallMemories(query="when is the mart rebuilt")).hits[0].record == old
    services.restore(alice, Restore(record_id=new.pk))  # nothing is lost
    assert MemoryRecord.objects.get(pk=old.pk).superseded_by == new.pk


def test_a_correction_that_was_changed_since_is_not_undone(alice: Caller) -> None:
    old, new = correct(alice)
    services.share(alice, Share(record_id=new.pk, visibility="private"))
    with pytest.raises(Conflict, match="was changed since then"):
        undo.undo(alice, record_id=old.pk, change="supersede")


def test_a_correction_is_not_undone_onto_a_text_that_was_remembered_again(alice: Caller) -> None:
    old, new = correct(alice)
    again = services.remember(alice, Remember(content=old.content)).record
    assert again.pk != old.pk
    with pytest.raises(Conflict, match=again.pk.hex):
        undo.undo(alice, record_id=old.pk, change="supersede")
    assert set(MemoryRecord.objects.filter(pk__in=[old.pk, new.pk]).values_list("status", flat=True)) == {
        "superseded",
        "active",
    }

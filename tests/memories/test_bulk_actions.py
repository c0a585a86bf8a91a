from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from memories import services
from memories.models import Batch, MemoryRecord
from memories.operations import Forget, Remember, Revise, Share
from memories.writing import bulk_actions
from memories.writing.bulk_preview import preview
from tests.jobs import BulkActionJobs, create_memories, work_off

pytestmark = pytest.mark.django_db


def statuses(rows: list[MemoryRecord]) -> set[str]:
    return set(MemoryRecord.objects.filter(pk__in=[row.pk for row in rows]).values_list("status", flat=True))


def test_each_row_has_an_outcome_and_a_batch_is_undone_once(alice: Caller, bob: Caller) -> None:
    alice_rows, bob_row = (
        create_memories(alice, 3),
        services.remember(bob, Remember(content="A fact of Bob’s own.")).record,
    )
    ids = [row.pk for row in [*alice_rows, bob_row]]
    nobody = uuid.uuid4()
    batch = bulk_actions.start(alice, act="forget", unit_ids=[*ids, nobody])
    assert batch.finished_at
    outcome = dict(zip(batch.unit_ids, batch.outcomes, strict=True))
    assert {outcome[row.pk] for row in alice_rows} == {""}
    assert "another user" in outcome[bob_row.pk]
    assert "no such memory" in outcome[nobody]
    undone = bulk_actions.undo(alice, batch_id=batch.pk)
    assert (len(undone.unit_ids), statuses(alice_rows)) == (3, {"active"})
    with pytest.raises(Conflict, match="already undone"):
        bulk_actions.undo(alice, batch_id=batch.pk)


def test_the_undo_of_a_batch_keeps_a_later_change_of_the_same_kind(alice: Caller) -> None:
    first, second = create_memories(alice, 2)
    batch = bulk_actions.start(alice, act="share", unit_ids=[first.pk, second.pk], choice="everyone")
    services.share(alice, Share(record_id=first.pk, visibility="private"))
    undone = bulk_actions.undo(alice, batch_id=batch.pk)
    outcomes = dict(zip(undone.unit_ids, undone.outcomes, strict=True))
    assert "can no longer be undone" in outcomes[first.pk]
    assert outcomes[second.pk] == ""
    assert MemoryRecord.objects.get(pk=first.pk).visibility == "private"
    assert MemoryRecord.objects.get(pk=second.pk).visibility == second.visibility


def test_a_long_batch_runs_in_slices(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE", 2)
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    rows = create_memories(alice, 5)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    assert (batch.outcomes, batch.finished_at) == ([], None)
    clock = iter([0.0, 0.0, 9.0] * 9)
    monkeypatch.setattr(bulk_actions, "SLICE_S", 1)
    monkeypatch.setattr(bulk_actions, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert len(bulk_actions.resume(alice, batch_id=batch.pk).outcomes) == 2
    assert len(bulk_actions.resume(alice, batch_id=batch.pk).outcomes) == 4
    result = bulk_actions.resume(alice, batch_id=batch.pk)
    assert result.finished_at
    assert statuses(rows) == {"archived"}


def test_a_batch_whose_persona_is_lost_ends_with_the_reason(
    alice: Caller, personas: dict[str, Persona], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    rows = create_memories(alice, 3)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    PersonaMembership.objects.filter(user__email=alice.email, persona=personas["sales"]).delete()
    work_off(BulkActionJobs(), batch.pk)
    batch.refresh_from_db()
    assert batch.finished_at
    assert len(batch.outcomes) == 3
    assert all("sales" in outcome for outcome in batch.outcomes)
    assert statuses(rows) == {"active"}


def test_a_failure_keeps_rows_and_outcomes_consistent(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = create_memories(alice, 3)

    def fail_at_the_third(caller: Caller, unit: uuid.UUID, options: bulk_actions.ActionInput) -> Any:
        if unit == rows[2].pk:
            raise RuntimeError("the power went")
        return services.forget(caller, Forget(record_id=unit))

    monkeypatch.setitem(
        bulk_actions.BULK_ACTIONS,
        "forget",
        bulk_actions.BulkAction(fail_at_the_third, "Forget", "Forgotten", inverse="restore"),
    )
    with pytest.raises(RuntimeError):
        bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in rows])
    assert Batch.objects.get().outcomes == []
    assert statuses(rows) == {"active"}


def test_only_its_owner_finds_a_batch(alice: Caller, olga: Caller) -> None:
    batch = bulk_actions.start(alice, act="verify", unit_ids=[row.pk for row in create_memories(alice, 1)])
    for operation in (bulk_actions.get_batch, bulk_actions.resume, bulk_actions.undo):
        with pytest.raises(NotFound):
            operation(olga, batch_id=batch.pk)


def test_a_batch_without_inverse_cannot_be_undone(alice: Caller) -> None:
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in create_memories(alice, 1)])
    batch = bulk_actions.undo(alice, batch_id=batch.pk)
    with pytest.raises(Conflict, match="can't be undone"):
        bulk_actions.undo(alice, batch_id=batch.pk)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"act": "erase"}, "act"),
        ({"unit_ids": []}, "ids"),
        ({"act": "share"}, "choice"),
        ({"act": "retag"}, "choice"),
        ({"act": "reject", "note": " "}, "note"),
        ({"act": "needs_more"}, "note"),
        ({"act": "correct", "choice": "A text.", "unit_ids": [uuid.UUID(int=1), uuid.UUID(int=2)]}, "ids"),
    ],
)
def test_an_error_names_the_invalid_argument(alice: Caller, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        bulk_actions.start(**{"caller": alice, "act": "forget", "unit_ids": [uuid.uuid4()], **arguments})
    assert caught.value.field == field


def test_a_running_batch_cannot_be_undone(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    batch = bulk_actions.start(alice, act="forget", unit_ids=[row.pk for row in create_memories(alice, 2)])
    with pytest.raises(Conflict, match="still running"):
        bulk_actions.undo(alice, batch_id=batch.pk)


def test_a_row_that_needs_no_change_is_left_out_by_undo(alice: Caller) -> None:
    rows = create_memories(alice, 2)
    services.share(alice, Share(record_id=rows[0].pk, visibility="everyone"))
    batch = bulk_actions.start(alice, act="share", unit_ids=[row.pk for row in rows], choice="everyone")
    outcome = dict(zip(batch.unit_ids, batch.outcomes, strict=True))
    assert outcome == {rows[0].pk: bulk_actions.UNCHANGED, rows[1].pk: ""}
    bulk_actions.undo(alice, batch_id=batch.pk)
    visibilities = dict(MemoryRecord.objects.values_list("pk", "visibility"))
    assert visibilities == {rows[0].pk: "everyone", rows[1].pk: "persona"}


def test_tags_are_added_and_removed_and_undone(alice: Caller) -> None:
    rows = create_memories(alice, 3)
    for row, tags in zip(rows, (["old"], ["old", "tills"], []), strict=True):
        services.revise(alice, Revise(record_id=row.pk, tags=tags))
    choice = '{"add": ["tills"], "remove": ["old"]}'
    batch = bulk_actions.start(alice, act="retag", unit_ids=[row.pk for row in rows], choice=choice)
    assert [list(row.tags) for row in MemoryRecord.objects.all()] == [["tills"]] * 3
    bulk_actions.undo(alice, batch_id=batch.pk)
    assert {row.pk: row.tags for row in MemoryRecord.objects.all()} == {
        rows[0].pk: ["old"], rows[1].pk: ["old", "tills"], rows[2].pk: [],
    }  # fmt: skip


@pytest.mark.parametrize("choice", ["[]", "{", '{"add": []}', '{"add": "x"}', '{"add": [1]}', '{"add": [""]}'])
def test_an_invalid_choice_of_tags_changes_nothing(alice: Caller, choice: str) -> None:
    (row,) = create_memories(alice, 1)
    batch = bulk_actions.start(alice, act="retag", unit_ids=[row.pk], choice=choice)
    assert batch.outcomes[0]
    assert MemoryRecord.objects.get().tags == []


def test_a_preview_says_what_would_change_and_changes_nothing(alice: Caller, bob: Caller) -> None:
    rows = create_memories(alice, 3)
    services.forget(alice, Forget(record_id=rows[0].pk))
    foreign = services.remember(bob, Remember(content="A fact of Bob’s own.")).record
    ids = [foreign.pk, *(row.pk for row in rows)]
    before = list(MemoryRecord.objects.order_by("pk").values("status", "updated_at"))
    result = preview(alice, act="forget", unit_ids=ids)
    assert set(result.changed) == {rows[1].pk, rows[2].pk}
    assert dict(result.skipped)[rows[0].pk] == bulk_actions.UNCHANGED
    assert "another user" in dict(result.skipped)[foreign.pk]
    assert list(MemoryRecord.objects.order_by("pk").values("status", "updated_at")) == before
    batch = bulk_actions.start(alice, act="forget", unit_ids=ids)
    assert batch.outcomes == result.outcomes  # the action itself does what its preview says


def test_a_preview_that_takes_long_leaves_rows_unchecked(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memories.writing.bulk_preview.AT_ONCE", 2)
    monkeypatch.setattr("memories.writing.bulk_preview.LIMIT_S", 1.0)
    clock = iter([0.0, 0.0, 9.0])
    monkeypatch.setattr("memories.writing.bulk_preview.time", SimpleNamespace(monotonic=lambda: next(clock)))
    result = preview(alice, act="verify", unit_ids=[row.pk for row in create_memories(alice, 5)])
    assert (len(result.changed), result.unchecked) == (2, 3)

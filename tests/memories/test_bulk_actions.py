from __future__ import annotations

import uuid
from typing import Any

import pytest

from memories import services
from memories.contract.errors import Conflict, Invalid, NotFound
from memories.identity.caller import Caller
from memories.models import Batch, MemoryRecord
from memories.operations import Forget, Remember
from memories.writing import bulk_actions

pytestmark = pytest.mark.django_db


def create_memories(caller: Caller, count: int) -> list[MemoryRecord]:
    return [
        services.remember(Remember(content=f"Fact {n} about the tills."), caller=caller).record for n in range(count)
    ]


def statuses(rows: list[MemoryRecord]) -> set[str]:
    return set(MemoryRecord.objects.filter(pk__in=[row.pk for row in rows]).values_list("status", flat=True))


def test_each_row_has_an_outcome_and_a_batch_is_undone_once(alice: Caller, bob: Caller) -> None:
    alice_rows, bob_row = (
        create_memories(alice, 3),
        services.remember(Remember(content="A fact of Bob’s own."), caller=bob).record,
    )
    ids = [row.pk for row in [*alice_rows, bob_row]]
    nobody = uuid.uuid4()
    batch = bulk_actions.start(caller=alice, act="forget", unit_ids=[*ids, nobody])
    assert batch.finished_at
    outcome = dict(zip(batch.unit_ids, batch.outcomes, strict=True))
    assert {outcome[row.pk] for row in alice_rows} == {""}
    assert "another user" in outcome[bob_row.pk]
    assert "no such memory" in outcome[nobody]
    undone = bulk_actions.undo(caller=alice, batch_id=batch.pk)
    assert (len(undone.unit_ids), statuses(alice_rows)) == (3, {"active"})
    with pytest.raises(Conflict, match="already undone"):
        bulk_actions.undo(caller=alice, batch_id=batch.pk)


def test_a_long_batch_runs_in_slices(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "AT_ONCE", 2)
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    rows = create_memories(alice, 5)
    batch = bulk_actions.start(caller=alice, act="forget", unit_ids=[row.pk for row in rows])
    assert (batch.outcomes, batch.finished_at) == ([], None)
    clock = iter([0.0, 0.0, 9.0] * 9)
    monkeypatch.setattr(bulk_actions, "SLICE_S", 1)
    monkeypatch.setattr("memories.writing.bulk_actions.time.monotonic", lambda: next(clock))
    assert len(bulk_actions.resume(caller=alice, batch_id=batch.pk).outcomes) == 2
    assert len(bulk_actions.resume(caller=alice, batch_id=batch.pk).outcomes) == 4
    result = bulk_actions.resume(caller=alice, batch_id=batch.pk)
    assert result.finished_at
    assert statuses(rows) == {"archived"}


def test_a_failure_keeps_rows_and_outcomes_consistent(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = create_memories(alice, 3)

    def fail_at_the_third(caller: Caller, unit: uuid.UUID, options: bulk_actions.ActionInput) -> Any:
        if unit == rows[2].pk:
            raise RuntimeError("the power went")
        return services.forget(Forget(record_id=unit), caller=caller)

    monkeypatch.setitem(
        bulk_actions.BULK_ACTIONS, "forget", bulk_actions.BulkAction("Forgotten", fail_at_the_third, "restore")
    )
    with pytest.raises(RuntimeError):
        bulk_actions.start(caller=alice, act="forget", unit_ids=[row.pk for row in rows])
    assert Batch.objects.get().outcomes == []
    assert statuses(rows) == {"active"}


def test_only_its_owner_finds_a_batch(alice: Caller, olga: Caller) -> None:
    batch = bulk_actions.start(caller=alice, act="verify", unit_ids=[row.pk for row in create_memories(alice, 1)])
    for operation in (bulk_actions.get_batch, bulk_actions.resume, bulk_actions.undo):
        with pytest.raises(NotFound):
            operation(caller=olga, batch_id=batch.pk)


def test_a_batch_without_inverse_cannot_be_undone(alice: Caller) -> None:
    batch = bulk_actions.start(caller=alice, act="forget", unit_ids=[row.pk for row in create_memories(alice, 1)])
    batch = bulk_actions.undo(caller=alice, batch_id=batch.pk)
    with pytest.raises(Conflict, match="can't be undone"):
        bulk_actions.undo(caller=alice, batch_id=batch.pk)


@pytest.mark.parametrize(("arguments", "field"), [({"act": "erase"}, "act"), ({"unit_ids": []}, "ids")])
def test_an_error_names_the_invalid_argument(alice: Caller, arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        bulk_actions.start(**{"caller": alice, "act": "forget", "unit_ids": [uuid.uuid4()], **arguments})
    assert caught.value.field == field


def test_a_running_batch_cannot_be_undone(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_actions, "SLICE_S", -1)
    batch = bulk_actions.start(caller=alice, act="forget", unit_ids=[row.pk for row in create_memories(alice, 2)])
    with pytest.raises(Conflict, match="still running"):
        bulk_actions.undo(caller=alice, batch_id=batch.pk)

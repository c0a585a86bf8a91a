"""The time in which a memory is true: what people state, what is left out, extensions and conditions that end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from memories import queries, services
from memories.models import MemoryRecord, MemoryRevision
from memories.operations import (
    EndPeriod,
    Extend,
    Forget,
    ListMemories,
    OpenPeriod,
    RecallMemories,
    Remember,
    ReopenPeriod,
    Restore,
    Revise,
    Supersede,
)
from memories.rendering import as_text
from memories.responses import recall_response
from memories.retrieval.recall import recall
from memories.writing import periods, undo, validity

pytestmark = pytest.mark.django_db
TEXT = "The shop in Oslo counts every till twice."
QUARTER = "FY2026-Q3"


def remember(caller: Caller, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": TEXT, **fields})).record


def revise(caller: Caller, record: MemoryRecord, **fields: Any) -> MemoryRecord:
    return services.revise(caller, Revise.read({"id": record.pk, **fields}))


def days(count: int) -> datetime:
    return timezone.now() + timedelta(days=count)


def found(caller: Caller, **fields: Any) -> list[MemoryRecord]:
    operation = RecallMemories.read({"query": "tills of the shop in Oslo", **fields})
    return [hit.record for hit in recall(caller, operation).hits]


@pytest.fixture
def quarter(ada: Caller) -> str:
    periods.open_period(ada, OpenPeriod(name=QUARTER))
    return f"period:{QUARTER}"


# -- what is left out -----------------------------------------------------------------------------------------


def test_outside_of_its_validity_a_memory_is_left_out_and_counted(alice: Caller, bob: Caller) -> None:
    record = remember(alice, valid_until=days(1))
    assert found(bob) == [record]
    revise(alice, record, valid_until=days(-1))
    late = remember(alice, content="The shop in Oslo will count its tills once.", valid_from=days(3))
    assert found(bob) == []
    result = recall(bob, RecallMemories(query="tills of the shop in Oslo"))
    assert result.left_out == {"expired": 1, "not_yet_valid": 1}
    assert "left out: 1 expired, 1 not yet valid" in as_text(recall_response(result))
    (old, new) = sorted(found(bob, include_stale=True), key=lambda row: row.created_at)
    assert (old, old.validity, new, new.validity) == (record, "expired", late, "not_yet_valid")
    response = recall_response(recall(bob, RecallMemories(query="tills in Oslo", include_stale=True)))
    states = {memory["id"]: memory.get("validity") for memory in response["memories"]}
    assert states == {record.pk.hex: "expired", late.pk.hex: "not_yet_valid"}


def test_lists_of_active_memories_leave_it_out_and_others_show_it(alice: Caller, bob: Caller, olga: Caller) -> None:
    record = remember(alice)
    revise(alice, record, valid_until=days(-1))

    def listed(caller: Caller, status: str) -> list[MemoryRecord]:
        return list(queries.list_memories(caller, ListMemories.read({"filter_status": status})))

    assert (listed(bob, "active"), listed(bob, "expired"), listed(bob, "not_yet_valid")) == ([], [record], [])
    assert listed(olga, "expired") == []
    services.forget(alice, Forget(record_id=record.pk))
    assert (listed(bob, "expired"), listed(bob, "archived")) == ([], [record])


def test_as_of_sees_what_was_valid_then(alice: Caller) -> None:
    record = remember(alice, valid_until=days(10))
    MemoryRecord.objects.filter(pk=record.pk).update(created_at=days(-9), updated_at=days(-9))
    record.refresh_from_db()
    before = timezone.now()
    revise(alice, record, valid_until=days(-5))
    assert found(alice) == []
    assert found(alice, as_of=before) == [record]  # it had a later end then
    assert found(alice, as_of=timezone.now()) == []
    assert found(alice, as_of=timezone.now(), include_stale=True) == [record]
    validity.extend(alice, Extend(record_id=record.pk, by="no_end"))
    assert found(alice) == [record]


# -- what people state ----------------------------------------------------------------------------------------


def test_a_date_is_the_whole_day_and_an_empty_text_removes_a_bound(alice: Caller) -> None:
    record = remember(alice, valid_from="2025-11-20", valid_until=days(30).date().isoformat())
    assert record.valid_from == datetime(2025, 11, 20, tzinfo=UTC)
    assert record.valid_until == datetime.combine(days(30).date(), datetime.max.time(), tzinfo=UTC)
    revise(alice, record, valid_until="")
    stored = MemoryRecord.objects.get(pk=record.pk)
    assert [stored.valid_from, stored.valid_until is None] == [datetime(2025, 11, 20, tzinfo=UTC), True]


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"valid_until": "next week"}, "valid_until", "is not a time"),
        ({"valid_until": "2020-01-01"}, "valid_until", "is in the past"),
        ({"valid_from": "2030-01-02", "valid_until": "2030-01-01"}, "valid_until", "is not after valid_from"),
        ({"valid_until": "2999-01-01"}, "valid_until", "is more than 50 years away"),
        ({"valid_from": "1900-01-01"}, "valid_from", "is more than 50 years away"),
        ({"valid_while": "moon:full"}, "valid_while", "'moon:full' is unknown"),
        ({"valid_while": "period"}, "valid_while", "'period' is unknown"),
        ({"valid_while": "period:FY1999"}, "valid_while", "'FY1999' is unknown"),
        ({"valid_while": "incident:urn:li:incident:none"}, "valid_while", "has no incident"),
        ({"valid_while": "deprecated:urn:li:dataset:x"}, "valid_while", "ended already"),
    ],
    ids=range(10),
)
def test_a_wrong_validity_is_refused_and_nothing_is_stored(
    alice: Caller, fields: dict[str, Any], field: str, message: str
) -> None:
    with pytest.raises(Invalid, match=message) as refusal:
        remember(alice, **fields)
    assert (refusal.value.field, MemoryRecord.objects.exists()) == (field, False)
    record = remember(alice)
    if "past" not in message:  # that a memory has ended is something to learn later
        with pytest.raises(Invalid, match=message):
            revise(alice, record, tags=["new"], **fields)
    record.refresh_from_db()
    assert (record.tags, MemoryRevision.objects.count()) == ([], 0)


def test_an_edit_is_compared_with_the_stored_bound(alice: Caller) -> None:
    record = remember(alice, valid_until=days(5))
    with pytest.raises(Invalid, match="is not after valid_from"):
        revise(alice, record, valid_from=days(6))


def test_the_same_text_again_tells_that_it_is_no_longer_valid(alice: Caller) -> None:
    record = remember(alice)
    revise(alice, record, valid_until=days(-1))
    again = services.remember(alice, Remember(content=TEXT))
    assert (again.existing, again.record, "no longer valid" in again.note) == (True, record, True)


def test_a_correction_inherits_what_has_not_ended(alice: Caller) -> None:
    record = remember(alice, valid_from=days(-1), valid_until=days(5))
    new = services.supersede(alice, Supersede(record_id=record.pk, content=f"{TEXT} Really."))
    assert (new.record.valid_from, new.record.valid_until) == (record.valid_from, record.valid_until)
    revise(alice, new.record, valid_until=days(-1) + timedelta(hours=1))
    last = services.supersede(alice, Supersede(record_id=new.record.pk, content=f"{TEXT} Always."))
    assert (last.record.validity, last.record.valid_until, "has no end" in last.note) == ("", None, True)


# -- extending ------------------------------------------------------------------------------------------------


def test_an_extension_is_undone_and_stays_in_the_history(alice: Caller, bob: Caller, olga: Caller) -> None:
    record = remember(alice, valid_until=days(3))
    end = record.valid_until
    for outsider, refusal in ((bob, Forbidden), (olga, NotFound)):
        with pytest.raises(refusal):
            validity.extend(outsider, Extend(record_id=record.pk, by="month"))
    extended = validity.extend(alice, Extend(record_id=record.pk, by="quarter"))
    assert end
    assert extended.valid_until
    assert timedelta(88) < extended.valid_until - end < timedelta(93)
    with pytest.raises(Forbidden):
        undo.undo(bob, record_id=record.pk, change="extend")
    undone = undo.undo(alice, record_id=record.pk, change="extend")
    assert undone.valid_until == end
    changes = MemoryRevision.objects.order_by("pk").values_list("change", flat=True)
    assert list(changes) == ["extend", "undo"]
    revise(alice, record, valid_until="")
    with pytest.raises(Conflict, match="no end"):
        validity.extend(alice, Extend(record_id=record.pk, by="month"))


def test_a_month_after_an_end_long_ago_counts_from_today(alice: Caller) -> None:
    record = remember(alice)
    revise(alice, record, valid_until=days(-300))
    extended = validity.extend(alice, Extend(record_id=record.pk, by="month"))
    assert extended.valid_until
    assert days(27) < extended.valid_until < days(32)


# -- conditions -----------------------------------------------------------------------------------------------


def test_a_period_that_ends_takes_its_memories_along(alice: Caller, bob: Caller, ada: Caller, quarter: str) -> None:
    record, other = remember(alice, valid_while=quarter), remember(bob, content=f"{TEXT} Often.", valid_while=quarter)
    archived = remember(alice, content=f"{TEXT} Rarely.", valid_while=quarter)
    services.forget(alice, Forget(record_id=archived.pk))
    before = timezone.now()
    with pytest.raises(Forbidden):
        periods.end_period(bob, EndPeriod(name=QUARTER))
    assert periods.end_period(ada, EndPeriod(name=QUARTER))[1] == 3
    assert found(bob) == []
    assert set(found(bob, as_of=before)) == {record, other}
    services.restore(alice, Restore(record_id=archived.pk))
    assert found(bob) == []
    with pytest.raises(Invalid, match="has ended already"):
        remember(alice, content=f"{TEXT} Always.", valid_while=quarter)
    with pytest.raises(Conflict, match="has ended already"):
        periods.end_period(ada, EndPeriod(name=QUARTER))
    assert periods.reopen_period(ada, ReopenPeriod(name=QUARTER))[1] == 3
    assert set(found(bob)) == {record, other, archived}


def test_extending_drops_a_condition_that_has_ended_and_undo_brings_it_back(
    alice: Caller, ada: Caller, quarter: str
) -> None:
    record = remember(alice, valid_while=quarter)
    with pytest.raises(Conflict, match="no end"):
        validity.extend(alice, Extend(record_id=record.pk, by="month"))
    periods.end_period(ada, EndPeriod(name=QUARTER))
    extended = validity.extend(alice, Extend(record_id=record.pk, by="no_end"))
    assert (extended.validity, extended.valid_while, extended.valid_until) == ("", "", None)
    assert undo.undo(alice, record_id=record.pk, change="extend").validity == "expired"
    validity.extend(alice, Extend(record_id=record.pk, by="month"))
    periods.reopen_period(ada, ReopenPeriod(name=QUARTER))
    undone = undo.undo(alice, record_id=record.pk, change="extend")  # the condition holds again
    assert (undone.validity, undone.valid_while) == ("", quarter)


@pytest.mark.parametrize("name", ["", "x" * 101])
def test_only_admins_open_periods_and_names_are_unique(alice: Caller, ada: Caller, quarter: str, name: str) -> None:
    with pytest.raises(DomainError):
        OpenPeriod.read({"name": name})
    with pytest.raises(Forbidden):
        periods.open_period(alice, OpenPeriod(name="other"))
    with pytest.raises(Conflict):
        periods.open_period(ada, OpenPeriod(name=QUARTER))

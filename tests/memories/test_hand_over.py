"""Hand-over of everything that a person owns, and its undo."""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command

from analysis.models import Session
from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.people.caller import Caller
from knowledge.graph.models import Graph
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.conversation.models import CachedAnswer, UserDecision
from memories.history import history
from memories.models import HandOver, MemoryRecord, Status, Tier
from memories.operations import Erase, Forget, Remember, Restore, Supersede
from memories.writing import erasure, hand_overs
from memory_project.models import SavedView, User

pytestmark = pytest.mark.django_db


def remember(caller: Caller, text: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": text, **fields})).record


def hand_over(ada: Caller, old: Caller, new: Caller) -> HandOver:
    return hand_overs.hand_over(ada, old=old.email, new=new.email)


def undo(ada: Caller, row: HandOver) -> dict[str, int]:
    return hand_overs.undo_hand_over(ada, hand_over_id=row.pk)


def owners() -> dict[str, str]:
    return dict(MemoryRecord.objects.values_list("content", "created_by"))


def test_everything_moves_although_some_of_it_was_once_the_heirs(alice: Caller, bob: Caller, ada: Caller) -> None:
    remember(alice, "The first fact is of Alice.")
    remember(bob, "The second fact is of Bob.")
    hand_over(ada, alice, bob)
    remember(bob, "The third fact is of Bob, too.")
    back = hand_over(ada, bob, alice)
    assert back.counts == {"memories": 3}
    assert set(owners().values()) == {alice.email}
    undo(ada, back)
    assert set(owners().values()) == {bob.email}
    first = MemoryRecord.objects.get(content__startswith="The first")
    assert first.metadata == {"legacy_created_by": alice.email}


def test_an_undo_takes_back_only_what_was_moved_and_is_still_there(alice: Caller, bob: Caller, ada: Caller) -> None:
    kept, erased, moved_on = (remember(alice, f"This is fact number {n}.") for n in range(3))
    row = hand_over(ada, alice, bob)
    remember(bob, "This is a fact of Bob.")
    erasure.erase(bob, Erase(record_id=erased.pk, confirm=True))
    MemoryRecord.objects.filter(pk=moved_on.pk).update(created_by="carl@example.org")
    assert undo(ada, row) == {"memories": 1, "kept": 2}
    kept.refresh_from_db()
    assert (kept.created_by, kept.metadata) == (alice.email, {})
    assert owners()["This is a fact of Bob."] == bob.email
    with pytest.raises(Conflict, match="undone by"):
        undo(ada, row)


def test_facts_that_both_have_become_one_and_come_back(alice: Caller, bob: Caller, ada: Caller) -> None:
    mine = remember(alice, "Orders close at ten.", visibility="private")
    theirs = remember(bob, "orders  close at TEN.")
    wider = remember(alice, "Refunds are paid on Fridays.")
    narrower = remember(bob, "Refunds are paid on Fridays.", visibility="private")
    row = hand_over(ada, alice, bob)
    assert row.counts == {"memories": 2, "duplicates": 2}
    living = MemoryRecord.objects.filter(created_by=bob.email, status=Status.ACTIVE)
    assert set(living) == {theirs, wider}
    mine.refresh_from_db()
    assert (mine.status, mine.metadata["duplicate_of"]) == (Status.ARCHIVED, theirs.pk.hex)
    undo(ada, row)
    for record, owner in ((mine, alice), (theirs, bob), (wider, alice), (narrower, bob)):
        record.refresh_from_db()
        assert (record.created_by, record.status, record.metadata) == (owner.email, Status.ACTIVE, {})


def test_an_undo_archives_what_its_first_owner_remembers_again(alice: Caller, bob: Caller, ada: Caller) -> None:
    """It goes back all the same: the heir must not keep a private text."""
    private = remember(alice, "Stores close at ten.", visibility="private")
    remember(alice, "Stores open at eight.")
    row = hand_over(ada, alice, bob)
    again = remember(alice, "Stores close at ten.")
    assert undo(ada, row) == {"memories": 2, "kept": 0}
    rows = MemoryRecord.objects.filter(status=Status.ACTIVE).values_list("content", "created_by")
    assert sorted(rows) == [("Stores close at ten.", alice.email), ("Stores open at eight.", alice.email)]
    private.refresh_from_db()
    assert (private.status, private.created_by) == (Status.ARCHIVED, alice.email)
    assert private.metadata["duplicate_of"] == again.pk.hex


def test_an_undo_leaves_a_duplicate_archived_whose_owner_remembers_it_again(
    alice: Caller, bob: Caller, ada: Caller
) -> None:
    remember(alice, "Stores close at ten.", visibility="private")
    remember(bob, "Stores close at ten.")
    row = hand_over(ada, alice, bob)
    remember(alice, "Stores close at ten.")
    undo(ada, row)
    living = MemoryRecord.objects.filter(created_by=alice.email, status=Status.ACTIVE)
    assert living.count() == 1


def test_the_archived_duplicate_is_erased_with_the_memory_that_stayed(alice: Caller, bob: Caller, ada: Caller) -> None:
    mine = remember(alice, "Orders close at ten.", visibility="private")
    theirs = remember(bob, "Orders close at ten.")
    row = hand_over(ada, alice, bob)
    erased = erasure.erase(bob, Erase(record_id=theirs.pk, confirm=True))
    assert (erased.removed, erased.same_words) == ({"memories": 1}, {})
    assert not MemoryRecord.objects.exists()
    assert undo(ada, row) == {"kept": 1}
    assert not MemoryRecord.objects.filter(pk=mine.pk).exists()


@pytest.mark.parametrize("act", ["erase the copy", "undo the hand-over", "restore the copy"])
def test_both_memories_of_a_hand_over_are_separate_otherwise(alice: Caller, bob: Caller, ada: Caller, act: str) -> None:
    mine = remember(alice, "Orders close at ten.", visibility="private")
    theirs = remember(bob, "Orders close at ten.")
    row = hand_over(ada, alice, bob)
    if act == "erase the copy":
        erasure.erase(bob, Erase(record_id=mine.pk, confirm=True))
        assert MemoryRecord.objects.get().pk == theirs.pk
        return
    if act == "undo the hand-over":
        undo(ada, row)
    else:
        services.forget(bob, Forget(record_id=theirs.pk))
        services.restore(bob, Restore(record_id=mine.pk))
    erasure.erase(bob, Erase(record_id=theirs.pk, confirm=True))
    assert MemoryRecord.objects.get().pk == mine.pk


def test_a_proposal_is_no_duplicate_of_the_heirs_memory(alice: Caller, bob: Caller, ada: Caller) -> None:
    insight = capture(alice, Capture(insight_text="Orders close at ten.", category="correction")).insight
    remember(bob, "Orders close at ten.")
    assert hand_over(ada, alice, bob).counts == {"memories": 1}
    insight.record.refresh_from_db()
    assert (insight.record.created_by, insight.record.status) == (bob.email, Status.ACTIVE)


def test_archived_and_superseded_memories_move_too(alice: Caller, bob: Caller, ada: Caller) -> None:
    old = remember(alice, "Orders close at nine.")
    new = services.supersede(alice, Supersede(record_id=old.pk, content="Orders close at ten.")).record
    services.forget(alice, Forget(record_id=remember(alice, "Nobody needs this fact.").pk))
    assert hand_over(ada, alice, bob).counts == {"memories": 3}
    old.refresh_from_db()
    assert (old.created_by, old.superseded_by) == (bob.email, new.pk)


def test_the_history_shows_the_change_of_owner(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = remember(alice, "Orders close at ten.")
    undo(ada, hand_over(ada, alice, bob))
    record.refresh_from_db()
    changes = [(entry.change, entry.by, entry.reason) for entry in history(alice, record)]
    assert changes == [
        ("hand_over", ada.email, hand_overs.UNDONE),
        ("hand_over", ada.email, hand_overs.MOVED),
        ("remember", alice.email, ""),
    ]


def test_rows_of_other_apps_move_and_come_back(
    alice: Caller, bob: Caller, ada: Caller, alice_user: User, bob_user: User
) -> None:
    Session.objects.create(analysis_id="a", owner=alice.email, persona="sales")
    CachedAnswer.objects.create(created_by=alice.email, query="q", response="r", expires_at="2999-01-01T00:00:00Z")
    UserDecision.objects.create(created_by=alice.email, key="units", value="metric")
    Graph.objects.create(created_by=alice.email, persona="sales")
    SavedView.objects.create(person=alice_user, name="Mine", page="memories", query="")
    row = hand_over(ada, alice, bob)
    kinds = {"analyses": 1, "cached answers": 1, "decisions": 1, "knowledge graphs": 1, "saved views": 1}
    assert (row.counts, row.stays) == (kinds, {})
    assert Session.objects.get().owner == Graph.objects.get().created_by == bob.email
    assert SavedView.objects.get().person == bob_user
    assert undo(ada, row) == {**kinds, "kept": 0}
    assert Session.objects.get().owner == UserDecision.objects.get().created_by == alice.email


def test_rows_that_the_heir_has_already_stay_and_are_counted(
    alice: Caller, bob: Caller, ada: Caller, alice_user: User, bob_user: User
) -> None:
    for caller, user in ((alice, alice_user), (bob, bob_user)):
        Session.objects.create(analysis_id="a", owner=caller.email, persona="sales")
        UserDecision.objects.create(created_by=caller.email, key="units", value=caller.email)
        Graph.objects.create(created_by=caller.email, persona="sales")
        SavedView.objects.create(person=user, name="Mine", page="memories", query="")
    row = hand_over(ada, alice, bob)
    assert row.stays == {"analyses": 1, "decisions": 1, "knowledge graphs": 1, "saved views": 1}
    assert Graph.objects.filter(created_by=alice.email).exists()


def test_conversations_with_the_same_id_stay_apart(alice: Caller, bob: Caller, ada: Caller) -> None:
    for caller in (alice, bob):
        MemoryRecord.objects.create(
            content=f"Hello from {caller.email}", created_by=caller.email, persona="sales", tier=Tier.SHORT_TERM,
            conversation_id="c1",
        )  # fmt: skip
    row = hand_over(ada, alice, bob)
    conversations = MemoryRecord.objects.filter(created_by=bob.email).values_list("conversation_id", flat=True)
    assert set(conversations) == {"c1", f"c1 of {alice.email}"}
    undo(ada, row)
    assert MemoryRecord.objects.get(created_by=alice.email).conversation_id == "c1"


def test_transfers_before_hand_overs_were_kept_can_be_undone(alice: Caller, bob: Caller, ada: Caller) -> None:
    record = remember(alice, "Orders close at ten.")
    metadata = {"legacy_created_by": alice.email}
    MemoryRecord.objects.filter(pk=record.pk).update(created_by=bob.email, metadata=metadata)
    import_module("memories.migrations.0018_hand_overs").keep_earlier_hand_overs(apps, None)
    (row,) = hand_overs.open_hand_overs(alice.email)
    assert undo(ada, row) == {"memories": 1, "kept": 0}
    record.refresh_from_db()
    assert (record.created_by, record.metadata) == (alice.email, {})


def test_only_admins_hand_over_and_take_back(alice: Caller, bob: Caller, olga: Caller, ada: Caller) -> None:
    remember(alice, "Orders close at ten.")
    row = hand_over(ada, alice, bob)
    for caller in (alice, bob, olga):
        with pytest.raises(Forbidden):
            hand_overs.hand_over(caller, old=bob.email, new=caller.email)
        with pytest.raises(Forbidden):
            hand_overs.undo_hand_over(caller, hand_over_id=row.pk)
    with pytest.raises(NotFound):
        hand_overs.undo_hand_over(ada, hand_over_id="00000000-0000-0000-0000-000000000000")


def test_the_command_moves_and_takes_back(alice: Caller, bob: Caller) -> None:
    remember(alice, "Orders close at ten.")
    out = StringIO()
    call_command("rekey_owner", alice.email, bob.email, stdout=out)
    call_command("rekey_owner", alice.email, bob.email, "--undo", stdout=out)
    assert out.getvalue().splitlines() == [
        f"moved from {alice.email} to {bob.email}: memories (1)",
        f"taken back by {alice.email}: memories (1)",
    ]
    assert set(owners().values()) == {alice.email}
    with pytest.raises(CommandError, match="nothing was moved"):
        call_command("rekey_owner", alice.email, bob.email, "--undo")

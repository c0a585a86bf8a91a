"""Counts of search terms that follow changes are the counts of all memories."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction

from foundation.database import identity
from foundation.people.caller import Caller
from memories import services
from memories.models import Lexeme, LexemeChange, MemoryRecord
from memories.operations import Erase, Forget, Remember, Restore, Revise, Share, Supersede
from memories.retrieval import term_changes, term_statistics
from memories.writing import erasure, hand_overs

pytestmark = pytest.mark.django_db
COUNTS = ("lexeme", "owner", "persona", "rough", "documents")
VISIBILITIES = ("private", "persona", "everyone")


def remember(caller: Caller, text: str, visibility: str = "persona") -> MemoryRecord:
    return services.remember(caller, Remember(content=text, visibility=visibility)).record


def counts() -> set[tuple[object, ...]]:
    return set(Lexeme.objects.values_list(*COUNTS))


def assert_counts_are_those_of_all_memories() -> None:
    term_changes.update()
    assert not LexemeChange.objects.exists()
    kept = counts()
    term_statistics.refresh()
    assert kept == counts()


def test_counts_follow_every_kind_of_change(alice: Caller, bob: Caller, olga: Caller, ada: Caller) -> None:
    term_changes.update()  # counts all memories, because nothing is counted yet
    edited = remember(alice, "Refunds of the depot's stock are net.")
    corrected = remember(bob, "Vouchers count as refunds in Rotterdam.")
    forgotten = remember(olga, "Refunds in O'Hara\\Leith are gross.", "everyone")
    erased = remember(alice, "A secret zandwort is in the depot.", "private")
    shared = remember(alice, "Private vouchers become public.", "private")
    assert_counts_are_those_of_all_memories()
    assert Lexeme.objects.filter(lexeme="refund", rough=True, people=3).exists()

    services.revise(alice, Revise(record_id=edited.pk, content="Refunds of the harbor's stock are net."))
    services.supersede(
        bob, Supersede(record_id=corrected.pk, content="Vouchers are no refunds in Leith.", reason="wrong")
    )
    services.share(alice, Share(record_id=shared.pk, visibility="everyone"))
    assert_counts_are_those_of_all_memories()

    services.forget(olga, Forget(record_id=forgotten.pk))
    erasure.erase(alice, Erase(record_id=erased.pk, confirm=True))
    assert_counts_are_those_of_all_memories()
    assert not Lexeme.objects.filter(lexeme="refund", rough=True).exists()  # two people are too few
    assert not Lexeme.objects.filter(lexeme="zandwort").exists()

    services.restore(olga, Restore(record_id=forgotten.pk))
    moved = hand_overs.hand_over(ada, old=alice.email, new=olga.email)
    assert_counts_are_those_of_all_memories()
    hand_overs.undo_hand_over(ada, hand_over_id=moved.pk)
    assert_counts_are_those_of_all_memories()


def test_a_change_of_other_columns_is_not_counted(alice: Caller, fact: MemoryRecord) -> None:
    term_changes.update()
    MemoryRecord.objects.update(access_count=7, importance=0.9)
    assert not LexemeChange.objects.exists()


def test_random_changes_in_small_batches(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_changes, "BATCH", 3)
    random_number = random.Random(7)
    people = [replace(alice, email=f"p{n}@example.org") for n in range(5)]
    words = ["refunds", "vouchers", "stock", "depot", "harbor", "tills"]
    term_changes.update()

    def text() -> str:
        return f"Note {random_number.randrange(10**9)}: {' '.join(random_number.sample(words, 3))}"

    acts: list[Callable[[MemoryRecord], object]] = [
        lambda row: MemoryRecord.objects.filter(pk=row.pk).update(content=text()),
        lambda row: MemoryRecord.objects.filter(pk=row.pk).update(created_by=random_number.choice(people).email),
        lambda row: MemoryRecord.objects.filter(pk=row.pk).update(visibility=random_number.choice(VISIBILITIES)),
        lambda row: MemoryRecord.objects.filter(pk=row.pk).update(status="archived"),
        lambda row: MemoryRecord.objects.filter(pk=row.pk).update(status="active"),
        lambda row: MemoryRecord.objects.filter(pk=row.pk).delete(),
    ]
    for _ in range(12):
        for _ in range(4):
            remember(random_number.choice(people), text(), random_number.choice(VISIBILITIES))
        rows = list(MemoryRecord.objects.all())
        for row in random_number.sample(rows, 3):
            random_number.choice(acts)(row)
        term_changes.update()
        kept = counts()
        term_statistics.refresh()
        assert kept == counts()


@pytest.mark.django_db(transaction=True)
def test_a_change_that_commits_late_is_counted_later(alice: Caller) -> None:
    term_changes.update()
    late = connections.create_connection("default")
    try:
        remember(alice, "The early zandwort of the depot.")
        with late.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("UPDATE memory_records SET content = 'The late vouchers of the harbor.'")
        remember(alice, "Another zandwort, written after the late one.")
        term_changes.update()
        assert Lexeme.objects.get(lexeme="zandwort", rough=False).documents == 2
        with late.cursor() as cursor:
            cursor.execute("COMMIT")
        assert_counts_are_those_of_all_memories()
        assert Lexeme.objects.get(lexeme="zandwort", rough=False).documents == 1
    finally:
        late.close()


def test_only_triggers_write_changes_and_nobody_reads_those_of_others(alice: Caller, bob: Caller) -> None:
    with identity.acting_as(alice):
        remember(alice, "The zandwort of the depot is shared.")
        with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
            LexemeChange.objects.create(owner=alice.email, visibility="everyone", documents=9, search="x")
        assert LexemeChange.objects.all()._raw_delete("default") == 0
    with identity.acting_as(bob):
        assert not LexemeChange.objects.exists()
    assert LexemeChange.objects.filter(owner=alice.email).count() == 1


@pytest.mark.django_db(transaction=True)
def test_changes_are_noted_after_the_text_search_was_rebuilt(alice: Caller) -> None:
    record = remember(alice, "The zandwort of the depot.")
    call_command("rebuild_search", verbosity=0)
    services.revise(alice, Revise(record_id=record.pk, content="The vouchers of the harbor."))
    assert_counts_are_those_of_all_memories()
    assert not Lexeme.objects.filter(lexeme="zandwort").exists()

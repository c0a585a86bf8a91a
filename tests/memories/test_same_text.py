"""A correction or an edit never makes a second memory with the same text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from memories import services
from memories.conversation.consolidation import merging
from memories.conversation.models import MergeProposal
from memories.models import MemoryRecord, Status
from memories.operations import Forget, Remember, Revise
from tests.memories.facts import correct
from tests.other_processes import run_concurrently

pytestmark = pytest.mark.django_db
NET = "Revenue in the sales mart is net of refunds."
NET_AGAIN = " revenue in the sales mart is  NET of refunds."


@pytest.fixture
def net(alice: Caller) -> MemoryRecord:
    return services.remember(alice, Remember(content=NET)).record


def test_a_correction_to_a_text_that_is_remembered_names_that_memory(
    alice: Caller, fact: MemoryRecord, net: MemoryRecord
) -> None:
    with pytest.raises(Conflict) as refusal:
        correct(alice, fact, NET_AGAIN)
    assert refusal.value.field == "content"
    assert net.pk.hex in refusal.value.message
    fact.refresh_from_db()
    assert fact.status == Status.ACTIVE
    assert MemoryRecord.objects.count() == 2


def test_the_step_that_the_refusal_names_ends_with_one_memory(
    alice: Caller, fact: MemoryRecord, net: MemoryRecord
) -> None:
    services.forget(alice, Forget(record_id=fact.pk, reason=f"said by {net.pk.hex}"))
    assert list(MemoryRecord.objects.filter(status=Status.ACTIVE)) == [net]


def test_an_edit_to_a_text_that_is_remembered_is_refused(alice: Caller, fact: MemoryRecord, net: MemoryRecord) -> None:
    with pytest.raises(Conflict, match=net.pk.hex):
        services.revise(alice, Revise(record_id=fact.pk, content=NET_AGAIN))


def test_case_and_white_space_of_the_own_text_can_be_changed(alice: Caller, net: MemoryRecord) -> None:
    assert services.revise(alice, Revise(record_id=net.pk, content=NET.upper())).content == NET.upper()
    assert correct(alice, net, NET).content == NET


def test_texts_of_others_and_forgotten_ones_are_free(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    services.remember(bob, Remember(content=NET))
    forgotten = services.remember(alice, Remember(content=NET)).record
    services.forget(alice, Forget(record_id=forgotten.pk))
    assert correct(alice, fact, NET).status == Status.ACTIVE


def test_a_private_text_is_not_told_to_a_curator_who_corrects(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    curator = replace(bob, email="cora@example.org", rights=frozenset({"curate"}))
    services.remember(alice, Remember(content=NET, visibility="private"))
    services.mark_stale(alice, record_id=fact.pk, reason="orders has changed")
    assert correct(curator, fact, NET).status == Status.ACTIVE


def test_a_merge_to_the_text_of_the_newer_memory_leaves_one(
    alice: Caller, fact: MemoryRecord, net: MemoryRecord
) -> None:
    proposal = MergeProposal.objects.create(record=net, target=fact, text=NET, cosine=0.9)
    merging.accept(alice, proposal_id=proposal.pk)
    assert [record.content for record in MemoryRecord.objects.filter(status=Status.ACTIVE)] == [NET]


@pytest.mark.django_db(transaction=True)
def test_two_corrections_to_one_text_at_once_leave_one(alice: Caller) -> None:
    facts = [services.remember(alice, Remember(content=f"Revenue is counted by day {day}.")).record for day in (1, 2)]

    results = run_concurrently(*(partial(correct, alice, record, NET) for record in facts))
    assert sorted(type(result).__name__ for result in results) == ["Conflict", "MemoryRecord"]
    assert MemoryRecord.objects.filter(content=NET, status=Status.ACTIVE).count() == 1

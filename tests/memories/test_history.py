from __future__ import annotations

import pytest

from foundation.people.caller import Caller
from memories import services
from memories.history import chain, history
from memories.models import MemoryRecord
from memories.operations import Remember, Revise, Share, Supersede

pytestmark = pytest.mark.django_db


def test_a_chain_is_the_same_from_any_of_its_memories(alice: Caller, fact: MemoryRecord) -> None:
    second = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    third = services.supersede(alice, Supersede(record_id=second.pk, content="Revenue includes half of them.")).record
    for link in (fact, second, third):
        link.refresh_from_db()
        assert chain(alice, link) == [fact, second, third]


def test_history_lists_edits_and_corrections_together(alice: Caller, fact: MemoryRecord) -> None:
    services.revise(alice, Revise(record_id=fact.pk, content="Revenue excludes refunds and tax.", reason="precise"))
    services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.", reason="new rule"))
    fact.refresh_from_db()
    changes = [(change.change, change.reason) for change in history(alice, fact)]
    assert changes == [("supersede", "new rule"), ("remember", ""), ("revise", "precise"), ("remember", "")]
    revised = history(alice, fact)[2]
    assert revised.before is not None
    assert (revised.before.content, revised.after.content) == (
        "Revenue in the sales mart excludes refunds.",
        "Revenue excludes refunds and tax.",
    )


def test_a_colleague_never_reads_what_was_private_before(alice: Caller, bob: Caller) -> None:
    record = services.remember(
        alice, Remember(content="The secret is forty-two, tell nobody.", visibility="private")
    ).record
    services.revise(alice, Revise(record_id=record.pk, content="There is a secret number."))
    services.share(alice, Share(record_id=record.pk, visibility="persona"))
    record.refresh_from_db()
    assert "forty-two" not in str(history(bob, record))
    assert "forty-two" in str(history(alice, record))


def test_a_chain_ends_at_a_private_memory_of_another_user(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    second = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue includes refunds.")).record
    services.share(alice, Share(record_id=fact.pk, visibility="private"))
    assert chain(bob, second) == [second]

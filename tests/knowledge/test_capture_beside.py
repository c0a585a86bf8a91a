"""An insight with the text of an existing memory has a record of its own, and leaves that memory as it is."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.context.attached_memories import attach_memories
from knowledge.insights.capture import Captured, capture
from knowledge.insights.lifecycle import edit
from knowledge.models import Insight
from knowledge.operations import Appeal, Capture, Edit
from knowledge.review import decisions, suggested
from memories import services
from memories.mcp_tools import memory_recall
from memories.models import MemoryRecord, Status
from memories.operations import Forget, Remember, Restore, Supersede
from memories.writing import undo
from tests.conftest import REFUNDS
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db


def propose(caller: Caller, **fields: Any) -> Captured:
    return capture(
        caller,
        Capture.read({"insight_text": REFUNDS, "category": "business_context", "entity_urns": [ORDERS], **fields}),
    )


def recalled(caller: Caller) -> list[str]:
    return [memory["id"] for memory in memory_recall(caller, query=REFUNDS).data["memories"]]


def test_a_capture_keeps_its_entities_and_leaves_the_memory_as_it_is(
    small_catalog: None, alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    captured = propose(alice)
    assert (captured.existing, captured.insight.record.entity_urns) == (False, [ORDERS])
    assert captured.insight.pk != fact.pk
    assert recalled(bob) == [fact.pk.hex]
    assert len(recalled(alice)) == 1
    fact.refresh_from_db()
    assert (fact.visibility, fact.status) == ("persona", Status.ACTIVE)


def test_rejection_appeal_and_undo_never_touch_the_memory(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice).insight
    decisions.reject(cora, insight_id=insight.pk)
    decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="It is true."))
    decisions.reject(cora, insight_id=insight.pk)
    decisions.undo_review(cora, insight_id=insight.pk)
    decisions.reject(cora, insight_id=insight.pk)
    assert recalled(bob) == recalled(alice) == [fact.pk.hex]


def test_applying_supersedes_the_memory_and_a_rollback_reactivates_it(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice).insight
    decisions.approve(cora, insight_id=insight.pk)
    assert len(recalled(bob)) == 1
    suggested.apply(cora, insight_id=insight.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.superseded_by, recalled(bob)) == (Status.SUPERSEDED, insight.pk, [insight.pk.hex])
    suggested.roll_back(cora, insight_id=insight.pk)
    fact.refresh_from_db()
    assert (fact.status, fact.superseded_by, recalled(bob)) == (Status.ACTIVE, None, [fact.pk.hex])


def test_applying_an_edited_insight_supersedes_the_memory_with_the_old_text(
    small_catalog: None, alice: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice).insight
    edit(cora, Edit(insight_id=insight.pk, content="Revenue in the sales mart excludes refunds and fees."))
    decisions.approve(cora, insight_id=insight.pk)
    suggested.apply(cora, insight_id=insight.pk)
    fact.refresh_from_db()
    assert fact.superseded_by == insight.pk


def test_remembering_returns_the_memory_and_not_the_proposal(small_catalog: None, alice: Caller, cora: Caller) -> None:
    insight = propose(alice).insight
    first = services.remember(alice, Remember(content=REFUNDS))
    assert (first.existing, first.record.pk == insight.pk) == (False, False)
    again = services.remember(alice, Remember(content=f" {REFUNDS.upper()} "))
    assert (again.existing, again.record) == (True, first.record)
    decisions.approve(cora, insight_id=insight.pk)
    assert services.remember(alice, Remember(content=REFUNDS)).record == first.record


def test_remembering_an_approved_insight_returns_it(small_catalog: None, alice: Caller, cora: Caller) -> None:
    insight = propose(alice).insight
    decisions.approve(cora, insight_id=insight.pk)
    again = services.remember(alice, Remember(content=REFUNDS))
    assert (again.existing, again.record.pk) == (True, insight.pk)


def test_the_same_text_is_proposed_once(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    first = propose(alice)
    second = propose(alice)
    assert (second.existing, second.insight) == (True, first.insight)
    assert not propose(bob).existing
    decisions.reject(cora, insight_id=first.insight.pk)
    third = propose(alice)
    assert not third.existing
    with pytest.raises(Conflict, match=third.insight.pk.hex):
        decisions.appeal(alice, Appeal(insight_id=first.insight.pk, notes="It is true."))


def test_the_memory_is_forgotten_and_restored_beside_the_proposal(
    small_catalog: None, alice: Caller, fact: MemoryRecord
) -> None:
    propose(alice)
    services.forget(alice, Forget(record_id=fact.pk))
    assert services.restore(alice, Restore(record_id=fact.pk)).status == Status.ACTIVE
    assert Insight.objects.count() == 1


def test_the_correction_of_the_proposal_is_undone_beside_the_memory(
    small_catalog: None, alice: Caller, ada: Caller, fact: MemoryRecord
) -> None:
    insight = propose(alice).insight
    services.supersede(ada, Supersede(record_id=insight.pk, content="Revenue includes refunds since the migration."))
    undone = undo.undo(ada, record_id=insight.pk, change="supersede")
    insight.refresh_from_db()
    assert (undone.status, insight.state) == ("active", "pending")
    assert MemoryRecord.objects.get(pk=fact.pk).status == "active"


def test_automatic_context_contains_a_text_once(small_catalog: None, alice: Caller, bob: Caller, cora: Caller) -> None:
    services.remember(alice, Remember(content=REFUNDS, entity_urns=[ORDERS]))
    decisions.approve(cora, insight_id=propose(alice).insight.pk)
    block = attach_memories(bob, Call("catalog_entity", {"urn": ORDERS}, {}))
    assert block is not None
    assert [memory["content"] for memory in block.data["memory_context"]] == [REFUNDS]

"""Correction chains across insights: a chain never has two memories in force, whatever is applied and rolled back."""

from __future__ import annotations

import pytest

from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from knowledge.changesets import rollback
from knowledge.insights import queries
from knowledge.insights.capture import capture
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Changeset, Insight, InsightState
from knowledge.operations import Capture
from knowledge.review import suggested
from memories import services
from memories.models import MemoryRecord, Passage, Status
from memories.operations import Erase, Forget, Remember, Restore, Supersede
from memories.writing import erasure, undo
from tests.knowledge.changeset_examples import approved, change

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("small_catalog")]


def apply(curator: Caller, insight: Insight) -> Changeset:
    return suggested.apply(curator, insight_id=insight.pk)


def in_force(*records: MemoryRecord) -> list[MemoryRecord]:
    for record in records:
        record.refresh_from_db()
    return [record for record in records if record.status in (Status.ACTIVE, Status.STALE)]


@pytest.fixture
def plain(alice: Caller) -> MemoryRecord:
    """The end of a chain of two plain memories."""
    first = services.remember(alice, Remember(content="Training stores are 9001 to 9020.")).record
    correction = Supersede(record_id=first.pk, content="Training stores are 9001 to 9030.")
    return services.supersede(alice, correction).record


@pytest.fixture
def chain(alice: Caller, cora: Caller, plain: MemoryRecord) -> tuple[Insight, Insight, Changeset]:
    """Two applied insights, of which the second replaces the first, and the first's changeset."""
    third = approved(alice, cora, supersedes=plain.pk.hex)
    applied = apply(cora, third)
    fourth = approved(alice, cora, supersedes=third.pk.hex)
    apply(cora, fourth)
    return third, fourth, applied


def test_rolling_back_the_middle_of_a_chain_relinks_its_neighbors(
    alice: Caller, cora: Caller, plain: MemoryRecord, chain: tuple[Insight, Insight, Changeset]
) -> None:
    third, fourth, applied = chain
    preview = apply_knowledge(cora, "rollback", changeset_id=applied.pk.hex, dry_run=True)
    assert preview["chains"] == [f"{plain.pk.hex} stays superseded: {fourth.pk.hex} corrects it from then on"]
    rollback.roll_back(cora, changeset_id=applied.pk)
    assert in_force(plain, third.record, fourth.record) == [third.record, fourth.record]
    assert (plain.superseded_by, fourth.record.supersedes_id) == (fourth.pk, plain.pk)
    assert (third.record.supersedes_id, third.record.superseded_by, third.record.visibility) == (None, None, "private")
    third.refresh_from_db()
    assert third.state == InsightState.PENDING
    assert third in queries.waiting(cora)


def test_rolling_back_a_chain_from_its_middle_to_its_end_reactivates_the_first(
    cora: Caller, plain: MemoryRecord, chain: tuple[Insight, Insight, Changeset]
) -> None:
    _, fourth, applied = chain
    rollback.roll_back(cora, changeset_id=applied.pk)
    fourth.refresh_from_db()
    assert fourth.replaces_id == plain.pk
    suggested.roll_back(cora, insight_id=fourth.pk)
    assert plain in in_force(plain)


def test_a_memory_whose_text_was_remembered_again_is_archived_by_a_rollback(
    alice: Caller, cora: Caller, plain: MemoryRecord
) -> None:
    applied = apply(cora, approved(alice, cora, supersedes=plain.pk.hex))
    again = services.remember(alice, Remember(content=plain.content)).record
    assert again.pk != plain.pk
    preview = apply_knowledge(cora, "rollback", changeset_id=applied.pk.hex, dry_run=True)
    assert preview["chains"] == [f"{plain.pk.hex} is archived: its owner has remembered the same text again"]
    rollback.roll_back(cora, changeset_id=applied.pk)
    assert in_force(plain, again) == [again]
    assert (plain.status, plain.superseded_by) == ("archived", None)


def test_only_one_insight_replaces_a_memory(alice: Caller, cora: Caller, plain: MemoryRecord) -> None:
    first, second = (approved(alice, cora, supersedes=plain.pk.hex) for _ in range(2))
    apply(cora, first)
    request = {
        "insight_ids": [second.pk.hex],
        "changes": [change("add_context_document", "Training stores", "Their numbers.")],
    }
    for options in ({"dry_run": True}, {"confirm": True}):
        with pytest.raises(Conflict, match=first.pk.hex):
            apply_knowledge(cora, "apply", **request, **options)
    assert in_force(plain, first.record, second.record) == [first.record, second.record]
    assert Changeset.objects.count() == 1


def test_two_insights_of_one_changeset_do_not_replace_the_same_memory(
    alice: Caller, cora: Caller, plain: MemoryRecord
) -> None:
    insights = [approved(alice, cora, supersedes=plain.pk.hex) for _ in range(2)]
    changes = [change("add_context_document", "Training stores", "Their numbers.")]
    with pytest.raises(Conflict, match="at the same time"):
        apply_knowledge(cora, "apply", insight_ids=[i.pk.hex for i in insights], changes=changes, dry_run=True)


def test_the_dry_run_names_the_memory_that_is_replaced(alice: Caller, cora: Caller, plain: MemoryRecord) -> None:
    insight = approved(alice, cora, supersedes=plain.pk.hex)
    changes = [change("add_context_document", "Training stores", "Their numbers.")]
    preview = apply_knowledge(cora, "apply", insight_ids=[insight.pk.hex], changes=changes, dry_run=True)
    assert preview["replaces"] == {insight.pk.hex: plain.pk.hex}


def test_an_insight_does_not_replace_a_memory_that_was_corrected_since(
    alice: Caller, cora: Caller, plain: MemoryRecord
) -> None:
    insight = approved(alice, cora, supersedes=plain.pk.hex)
    correction = Supersede(record_id=plain.pk, content="Training stores are 9001 to 9040.")
    newer = services.supersede(alice, correction).record
    with pytest.raises(Conflict, match=newer.pk.hex):
        apply(cora, insight)


def test_a_forgotten_memory_that_was_replaced_is_not_in_force_again(
    alice: Caller, cora: Caller, plain: MemoryRecord
) -> None:
    insight = approved(alice, cora, supersedes=plain.pk.hex)
    services.forget(alice, Forget(record_id=plain.pk))
    changeset = apply(cora, insight)
    undo.undo(alice, record_id=plain.pk, change="forget")
    assert in_force(plain, insight.record) == [insight.record]
    services.forget(alice, Forget(record_id=plain.pk))
    services.restore(alice, Restore(record_id=plain.pk))
    assert in_force(plain, insight.record) == [insight.record]
    rollback.roll_back(cora, changeset_id=changeset.pk)
    assert plain in in_force(plain)


def test_undoing_the_forgetting_of_a_correction_supersedes_its_predecessor_again(alice: Caller) -> None:
    old = services.remember(alice, Remember(content="Training stores are 9001 to 9020.")).record
    correction = Supersede(record_id=old.pk, content="Training stores are 9001 to 9030.")
    new = services.supersede(alice, correction).record
    services.forget(alice, Forget(record_id=new.pk))
    services.restore(alice, Restore(record_id=old.pk))
    undo.undo(alice, record_id=new.pk, change="forget")
    assert in_force(old, new) == [new]


def test_erasing_a_rolled_back_insight_keeps_the_links_of_the_others(
    alice: Caller, cora: Caller, plain: MemoryRecord, chain: tuple[Insight, Insight, Changeset]
) -> None:
    third, fourth, applied = chain
    rollback.roll_back(cora, changeset_id=applied.pk)
    erasure.erase(alice, Erase(record_id=third.pk, confirm=True))
    suggested.roll_back(cora, insight_id=fourth.pk)
    assert in_force(plain) == [plain]


@pytest.mark.parametrize(
    ("text", "visibility"),
    [("Stores 9001 to 9040 are for training.", "persona"), ("The password of store 9001 is qT7!xw93Lm.", "private")],
)
def test_a_curator_corrects_a_stale_memory_in_the_name_of_its_owner(
    alice: Caller, cora: Caller, text: str, visibility: str
) -> None:
    fact = services.remember(alice, Remember(content="Stores 9001 to 9020 are for training.")).record
    services.mark_stale(alice, record_id=fact.pk, reason="orders has changed")
    new = services.supersede(cora, Supersede(record_id=fact.pk, content=text)).record
    assert (new.created_by, new.visibility, new.supersedes_id) == (alice.email, visibility, fact.pk)
    assert Passage.objects.filter(record=new).exists()
    undo.undo(cora, record_id=fact.pk, change="supersede")
    assert in_force(fact, new) == [fact]


def test_a_curator_does_not_choose_the_readers_of_a_correction(alice: Caller, cora: Caller) -> None:
    fact = services.remember(alice, Remember(content="Stores 9001 to 9020 are for training.")).record
    services.mark_stale(alice, record_id=fact.pk, reason="orders has changed")
    for visibility in ("private", "everyone"):
        correction = Supersede(record_id=fact.pk, content="Stores 9001 to 9040 are closed.", visibility=visibility)
        with pytest.raises(Forbidden, match="visibility"):
            services.supersede(cora, correction)


def test_a_correction_does_not_tell_that_somebody_else_has_proposed_the_same(
    alice: Caller, bob: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    text = "Stores 9001 to 9040 are closed."
    capture(bob, Capture(insight_text=text, category="data_quality", supersedes=insight.pk, visibility="private"))
    assert services.supersede(alice, Supersede(record_id=insight.pk, content=text)).record.content == text


def test_a_curators_correction_of_an_approved_memory_waits_as_a_proposal_of_its_owner(
    alice: Caller, cora: Caller
) -> None:
    insight = approved(alice, cora)
    services.mark_stale(alice, record_id=insight.pk, reason="orders has changed")
    new = services.supersede(cora, Supersede(record_id=insight.pk, content="Stores 9001 to 9040 are closed.")).record
    proposal = Insight.objects.get(pk=new.pk)
    assert (proposal.state, proposal.replaces_id) == (InsightState.PENDING, insight.pk)
    assert (new.created_by, new.visibility) == (alice.email, "private")

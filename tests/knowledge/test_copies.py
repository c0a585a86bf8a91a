"""Copies of a memory are removed when it is erased, shared with fewer people, or moved to another owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analysis import memory_copies, sessions
from analysis.ingest import ingest
from analysis.models import Finding, IngestedRecord
from analysis.operations import IngestRecords
from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from knowledge.changesets import rollback
from knowledge.changesets.apply import apply
from knowledge.insights.capture import capture
from knowledge.operations import Appeal, Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Erase, Reassign, Remember, Restore, Revise, Share
from memories.writing import erasure, hand_overs
from memory_project.accounts import people
from memory_project.models import User
from tests.knowledge.changeset_examples import change
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db
SECRET = "The margin of Ghent is 4.2 percent before tax."


def test_an_erased_memory_is_in_no_analysis(alice: Caller, bob: Caller, copied: MemoryRecord) -> None:
    removed = erasure.erase(alice, Erase(record_id=copied.pk, confirm=True)).removed
    assert copies(bob) == ["Bob’s own knowledge."]
    assert removed == {"ingested records": 1, "page summaries": 1}
    assert not Finding.objects.filter(finding__contains="margin").exists()


def copies(owner: Caller) -> list[str]:
    rows = IngestedRecord.objects.filter(session__owner=owner.email).order_by("id")
    return [str(row.data["content"]) for row in rows]


@pytest.fixture
def copied(alice: Caller, bob: Caller) -> MemoryRecord:
    record = services.remember(alice, Remember(content=SECRET)).record
    services.remember(bob, Remember(content="Bob’s own knowledge."))
    ingest(bob, IngestRecords(analysis_id="b", model="memory", ingest_all=True))
    assert SECRET in copies(bob)
    return record


def test_making_a_memory_private_removes_it_from_analyses_of_others(
    alice: Caller, bob: Caller, copied: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=copied.pk, visibility="private"))
    assert copies(bob) == ["Bob’s own knowledge."]
    assert not Finding.objects.filter(session=sessions.get_session(bob, "b"), finding__contains="margin").exists()


@pytest.mark.parametrize("change", ["share", "erase"])
def test_an_ingest_during_the_change_keeps_no_copy(
    alice: Caller, bob: Caller, copied: MemoryRecord, django_capture_on_commit_callbacks: Any, change: str
) -> None:
    IngestedRecord.objects.all().delete()
    operations: dict[str, Callable[[], object]] = {
        "share": lambda: memory_copies.drop_unreadable_copies([copied.pk]),
        "erase": lambda: memory_copies.erase_copies(copied.pk),
    }
    with django_capture_on_commit_callbacks(execute=True):
        operations[change]()
        ingest(bob, IngestRecords(analysis_id="b", model="memory", ingest_all=True))  # its transaction began before
        assert SECRET in copies(bob)
        MemoryRecord.objects.filter(pk=copied.pk).update(visibility="private")
    assert SECRET not in copies(bob)


def test_moving_ownership_removes_copies_of_the_previous_owner(
    alice: Caller, bob: Caller, olga: Caller, ada: Caller, copied: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=copied.pk, visibility="private"))
    ingest(alice, IngestRecords(analysis_id="a", model="memory", ingest_all=True))
    assert SECRET in copies(alice)
    hand_overs.hand_over(ada, old=alice.email, new=olga.email)
    assert SECRET not in copies(alice)


def test_a_hand_over_and_its_undo_give_nobody_copies_of_what_they_cannot_read(
    alice: Caller, bob: Caller, bob_user: User, olga: Caller, olga_user: User, ada: Caller, copied: MemoryRecord
) -> None:
    services.share(alice, Share(record_id=copied.pk, visibility="persona"))
    ingest(bob, IngestRecords(analysis_id="b", model="memory", ingest_all=True))
    assert SECRET in copies(bob)
    moved = people.offboard(ada, person=bob_user, to=olga.email)
    assert SECRET not in copies(olga)
    own = services.remember(olga, Remember(content="Olga’s own secret.", visibility="private")).record
    ingest(olga, IngestRecords(analysis_id="b", model="memory", ingest_all=True))
    assert own.content in copies(olga)
    people.undo_offboarding(ada, person=bob_user, hand_over_id=moved.pk)
    assert own.content not in copies(bob)


def test_a_user_who_leaves_a_persona_keeps_no_copies(
    alice: Caller, bob: Caller, bob_user: User, ada: Caller, personas: Any, copied: MemoryRecord
) -> None:
    people.change(ada, person=bob_user, personas=["supply"], rights=[])
    assert copies(bob) == ["Bob’s own knowledge."]


# -- several personas ----------------------------------------------------------------------------------------


def test_superseding_needs_a_curator_of_both_personas(
    small_catalog: None, alice: Caller, olga: Caller, cora: Caller, ada: Caller
) -> None:
    """A curator of one persona may not supersede a memory of another persona."""
    memory = services.remember(olga, Remember(content="Stock is counted on Fridays.", visibility="everyone")).record
    insight = capture(
        alice,
        Capture.read(
            {"insight_text": "Stock is counted on Mondays.", "category": "correction", "supersedes": memory.pk.hex}
        ),
    ).insight
    decisions.approve(cora, insight_id=insight.pk)
    arguments: dict[str, Any] = {"insight_ids": [insight.pk.hex], "changes": [change("add_tag", "", "Counted")]}
    with pytest.raises(Forbidden, match="replaces a memory that you may not decide on"):
        apply(cora, Apply.read({"entity_urn": ORDERS, **arguments}))
    memory.refresh_from_db()
    assert memory.status == "active"
    applied = apply(ada, Apply.read({"entity_urn": ORDERS, **arguments}))
    memory.refresh_from_db()
    assert memory.status == "superseded"
    assert set(applied.changeset.personas) == {"sales", "supply"}
    rollback.roll_back(cora, changeset_id=applied.changeset.pk)  # a curator of either persona may roll back
    memory.refresh_from_db()
    assert memory.status == "active"


# -- appeals and edits ---------------------------------------------------------------------------------------


def test_an_owner_appeals_a_rejection_but_cannot_restore_the_memory(alice: Caller, bob: Caller, cora: Caller) -> None:
    insight = capture(alice, Capture(insight_text="Orders come twice a day.", category="data_quality")).insight
    decisions.reject(cora, insight_id=insight.pk, notes="not true")
    with pytest.raises(Conflict, match="appeal"):
        services.restore(alice, Restore.read({"record_id": insight.pk}))
    with pytest.raises(Forbidden, match="only its owner or an admin can appeal"):
        decisions.appeal(cora, Appeal.read({"insight_id": insight.pk, "notes": "no"}))
    appealed = decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="The till says so."))
    assert (appealed.state, appealed.record.status) == ("pending", "active")
    assert appealed.record.visibility == "private"  # private again, until it is approved


def test_an_approved_text_stays_valid_until_its_edit_is_approved(alice: Caller, cora: Caller) -> None:
    insight = capture(alice, Capture(insight_text="Orders come twice a day.", category="data_quality")).insight
    decisions.approve(cora, insight_id=insight.pk)
    services.revise(alice, Revise(record_id=insight.pk, content="Orders come three times a day."))
    record = MemoryRecord.objects.get(pk=insight.pk)
    assert record.content == "Orders come twice a day."
    decisions.approve(cora, insight_id=insight.pk)
    record.refresh_from_db()
    assert record.content == "Orders come three times a day."


def test_a_memory_moved_to_another_persona_leaves_the_analyses_of_the_first(
    bob: Caller, ada: Caller, copied: MemoryRecord
) -> None:
    services.reassign(ada, Reassign(record_id=copied.pk, persona="supply"))
    assert copies(bob) == ["Bob’s own knowledge."]

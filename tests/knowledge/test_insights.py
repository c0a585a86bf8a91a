from __future__ import annotations

from typing import Any

import pytest

from foundation.operations.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.insights import queries
from knowledge.insights.capture import capture
from knowledge.insights.lifecycle import edit
from knowledge.models import Insight, InsightState
from knowledge.operations import Capture, Edit
from knowledge.review.decisions import approve, reject, undo_review
from memories import services
from memories.models import MemoryRecord, Status
from memories.operations import Forget, RecallMemories, Revise, Share, Supersede
from memories.retrieval.recall import recall
from memories.writing import undo
from tests.conftest import person
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db
TEXT = "Test stores 9001 to 9099 are training environments."


@pytest.fixture
def insight(alice: Caller) -> Insight:
    return capture(alice, Capture(insight_text=TEXT, category="data_quality", entity_urns=[ORDERS])).insight


def fresh(insight: Insight) -> Insight:
    return Insight.objects.select_related("record").get(pk=insight.pk)


def test_a_captured_insight_is_private_and_pending(alice: Caller, bob: Caller, cora: Caller, insight: Insight) -> None:
    assert (insight.state, insight.record.visibility) == (InsightState.PENDING, "private")
    assert not MemoryRecord.objects.visible_to(bob).exists()
    assert recall(bob, RecallMemories(query="training stores")).hits == []
    assert not Insight.objects.visible_to(bob).exists()
    assert list(queries.waiting(cora)) == list(queries.waiting(alice)) == [insight]


def test_what_a_repeated_proposal_says_in_addition_is_named_as_dropped(
    alice: Caller, insight: Insight, fact: MemoryRecord
) -> None:
    column = {"urn": ORDERS, "column": "amount", "relevance": "it is about it"}
    again = Capture.read(
        {
            "insight_text": TEXT,
            "category": "data_quality",
            "suggested_actions": [{"action_type": "add_tag", "detail": "Training"}],
            "related_columns": [column],
            "supersedes": fact.pk.hex,
        }
    )
    captured = capture(alice, again)
    assert captured.existing
    assert "related_columns is []" in captured.note
    assert captured.note.endswith("suggested_actions and supersedes were not added: tell the curator who reviews it")
    assert capture(alice, Capture.read({"insight_text": TEXT, "category": "data_quality"})).note == ""


def test_plain_memories_never_enter_the_queue(alice: Caller, cora: Caller, fact: MemoryRecord) -> None:
    assert not queries.waiting(cora).exists()


def test_a_curator_sees_only_insights_of_their_personas(
    insight: Insight, olga: Caller, curators: Any, personas: Any
) -> None:
    from foundation.people.permissions import build_caller

    user = person("carl@example.org", personas["supply"])
    user.groups.add(curators)
    carl = build_caller(type(user).objects.get(pk=user.pk), channel="test")
    assert "curate" in carl.rights
    assert not queries.waiting(carl).exists()
    with pytest.raises(NotFound):
        approve(carl, insight_id=insight.pk)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"category": "general"}, "category"),
        ({"category": ""}, "category"),
        ({"insight_text": "short"}, "insight_text"),
        ({"source": "automation"}, "source"),
        ({"suggested_actions": [{"action_type": "drop_table"}]}, "suggested_actions[0].change_type"),
        ({"suggested_actions": [{"action_type": "add_tag", "detail": "x"}] * 6}, "suggested_actions"),
        ({"suggested_actions": [{"action_type": "add_tag", "extra": "x"}]}, "suggested_actions[0].extra"),
        ({"related_columns": [{"urn": ORDERS}]}, "related_columns[0].column"),
        ({"supersedes": "0" * 32}, "supersedes"),
        ({"visibility": "world"}, "visibility"),
    ],
)
def test_a_capture_error_names_the_field(alice: Caller, arguments: dict[str, Any], field: str) -> None:
    values = {"insight_text": TEXT, "category": "data_quality", **arguments}
    with pytest.raises(DomainError) as refused:
        capture(alice, Capture.read(values))
    assert refused.value.field == field
    assert not MemoryRecord.objects.exists()


def test_capturing_a_duplicate_returns_the_existing_insight(alice: Caller, insight: Insight) -> None:
    again = capture(alice, Capture(insight_text=TEXT, category="data_quality"))
    assert again.existing
    assert again.insight == insight


def test_approval_sets_the_requested_visibility(bob: Caller, cora: Caller, insight: Insight) -> None:
    approve(cora, insight_id=insight.pk, notes="checked")
    approved = fresh(insight)
    assert (approved.state, approved.record.visibility) == (InsightState.APPROVED, "persona")
    assert (approved.reviewed_by, approved.review_notes) == ("cora@example.org", "checked")
    assert approved.reviewed_at is not None
    assert recall(bob, RecallMemories(query="training stores")).hits[0].record.pk == insight.pk


def test_rejection_removes_an_insight_from_recall(alice: Caller, cora: Caller, insight: Insight) -> None:
    reject(cora, insight_id=insight.pk, notes="wrong")
    assert fresh(insight).record.status == Status.ARCHIVED
    assert recall(alice, RecallMemories(query="training stores")).hits == []


def test_only_admins_approve_their_own_insights(cora: Caller, ada: Caller) -> None:
    captured = capture(cora, Capture(insight_text=TEXT, category="data_quality")).insight
    with pytest.raises(Forbidden, match="your own"):
        approve(cora, insight_id=captured.pk)
    insight_of_admin = capture(
        ada, Capture(insight_text="Another insight, by an admin.", category="correction")
    ).insight
    assert approve(ada, insight_id=insight_of_admin.pk).state == InsightState.APPROVED


@pytest.mark.parametrize("decision", [approve, reject, undo_review])
def test_analysts_cannot_decide(decision: Any, alice: Caller, bob: Caller, insight: Insight) -> None:
    for caller in (alice, bob):
        with pytest.raises(Forbidden):
            decision(caller, insight_id=insight.pk)
    assert fresh(insight).state == InsightState.PENDING


def test_an_insight_is_decided_once(cora: Caller, ada: Caller, insight: Insight) -> None:
    reject(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="rejected already by cora"):
        approve(ada, insight_id=insight.pk)


def test_only_the_curator_who_decided_undoes_a_decision(cora: Caller, ada: Caller, insight: Insight) -> None:
    for decide in (approve, reject):
        decide(cora, insight_id=insight.pk)
        undo_review(cora, insight_id=insight.pk)
        reopened = fresh(insight)
        assert (reopened.state, reopened.reviewed_by, reopened.reviewed_at) == (InsightState.PENDING, "", None)
        assert (reopened.record.status, reopened.record.visibility) == (Status.ACTIVE, "private")
    approve(ada, insight_id=insight.pk)
    with pytest.raises(Forbidden, match=r"ada@example\.org"):
        undo_review(cora, insight_id=insight.pk)


def test_edits_by_the_owner_do_not_change_the_review_state(alice: Caller, insight: Insight) -> None:
    for key in ("insight_status", "reviewed_by", "applied_by", "changeset_ref"):
        with pytest.raises(Invalid):
            services.revise(alice, Revise.read({"record_id": insight.pk, "metadata": {key: "approved"}}))
    services.revise(alice, Revise(record_id=insight.pk, content="Test stores are 9001 to 9100."))
    assert fresh(insight).state == InsightState.PENDING


def test_a_pending_insight_cannot_be_shared(alice: Caller, bob: Caller, insight: Insight) -> None:
    with pytest.raises(Conflict, match="waits for review"):
        services.share(alice, Share.read({"record_id": insight.pk, "visibility": "everyone"}))
    with pytest.raises(Conflict, match="waits for review"):
        services.revise(alice, Revise.read({"record_id": insight.pk, "visibility": "everyone"}))
    assert not MemoryRecord.objects.visible_to(bob).exists()


def test_an_insight_that_its_owner_forgets_leaves_the_queue(alice: Caller, cora: Caller, insight: Insight) -> None:
    services.forget(alice, Forget(record_id=insight.pk))
    assert not queries.waiting(cora).exists()
    with pytest.raises(Conflict, match="archived"):
        approve(cora, insight_id=insight.pk)


def test_an_insight_that_its_owner_corrects_is_superseded(alice: Caller, insight: Insight) -> None:
    services.supersede(alice, Supersede(record_id=insight.pk, content="Test stores are 9001 to 9100."))
    assert fresh(insight).state == InsightState.SUPERSEDED


def test_a_curator_edits_an_insight_before_approval(alice: Caller, bob: Caller, cora: Caller, insight: Insight) -> None:
    action = {"action_type": "add_tag", "detail": "training"}
    edit(
        cora,
        Edit.read(
            {
                "insight_id": insight.pk,
                "content": "Stores 9001 to 9099 are for training.",
                "suggested_actions": [action],
            }
        ),
    )
    edited = fresh(insight)
    assert edited.record.content == "Stores 9001 to 9099 are for training."
    assert edited.record.revisions.get().changed_by == "cora@example.org"
    assert edited.suggested_actions == [{**action, "target": ""}]
    approve(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="only pending"):
        edit(cora, Edit.read({"insight_id": insight.pk, "content": "Something else altogether."}))
    with pytest.raises(Forbidden):
        edit(bob, Edit.read({"insight_id": insight.pk, "content": "Something else altogether."}))


def test_an_edit_without_fields_names_every_field(cora: Caller, insight: Insight) -> None:
    with pytest.raises(Invalid) as error:
        edit(cora, Edit(insight_id=insight.pk))
    allowed = error.value.message.partition("allowed: ")[2].split(", ")
    assert set(allowed) == set(Edit.model_fields) - {"insight_id", "seen", "override"}


def test_the_overview_counts_only_pending_insights(alice: Caller, cora: Caller, insight: Insight) -> None:
    second = capture(
        alice, Capture(insight_text="Another thing about orders.", category="correction", entity_urns=[ORDERS])
    )
    reject(cora, insight_id=second.insight.pk)
    overview = queries.overview(cora)
    assert overview["total_pending"] == 1
    assert [(e["urn"], e["count"], e["categories"]) for e in overview["by_entity"]] == [(ORDERS, 1, ["data_quality"])]
    assert overview["by_category"] == {"data_quality": 1}
    assert overview["by_confidence"] == {"medium": 1}


def test_an_undone_correction_returns_the_insight_to_the_queue(alice: Caller, cora: Caller, insight: Insight) -> None:
    services.supersede(alice, Supersede(record_id=insight.pk, content="Test stores 9001 to 9199 are."))
    assert fresh(insight).state == InsightState.SUPERSEDED
    undo.undo(alice, record_id=insight.pk, change="supersede")
    assert fresh(insight).state == InsightState.PENDING
    assert list(queries.waiting(cora)) == [insight]

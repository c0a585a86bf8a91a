"""Edits of approved insights: nothing that somebody wants is lost while it waits for a curator."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.changesets.apply import apply
from knowledge.changesets.rollback import roll_back
from knowledge.insights.capture import capture
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Insight
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Revise
from memory_project.models import User
from tests.knowledge.conftest import ORDERS
from tests.pages import browser

pytestmark = pytest.mark.usefixtures("small_catalog")

APPROVED, BETTER = "Orders are missing on rainy days.", "Orders are missing on snowy days."


@pytest.fixture
def insight(alice: Caller, cora: Caller) -> Insight:
    values = {"insight_text": APPROVED, "category": "data_quality", "entity_urns": [ORDERS]}
    captured = capture(alice, Capture.read(values)).insight
    return decisions.approve(cora, insight_id=captured.pk)


def edit(caller: Caller, insight: Insight, **fields: Any) -> str:
    return services.revise(caller, Revise.read({"record_id": insight.pk, **fields})).pending_message


def present(insight: Insight) -> tuple[str, str, dict[str, Any]]:
    now = Insight.objects.select_related("record").get(pk=insight.pk)
    return now.state, now.record.content, now.pending_edit


def test_a_second_edit_is_added_to_the_first_one(alice: Caller, cora: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    edit(alice, insight, tags=["weather"])
    edit(alice, insight, metadata={"by": "alice"})
    assert present(insight)[2] == {"content": BETTER, "tags": ["weather"], "metadata": {"by": "alice"}}
    decisions.approve(cora, insight_id=insight.pk)
    assert present(insight) == ("approved", BETTER, {})


def test_the_same_edit_again_says_that_it_waits(alice: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    assert "waits for a curator's approval already" in edit(alice, insight, content=BETTER)


def test_an_edit_to_the_approved_text_withdraws_the_edit_that_waits(alice: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    assert "is withdrawn" in edit(alice, insight, content=APPROVED)
    assert present(insight) == ("approved", APPROVED, {})


def test_only_the_field_with_the_approved_value_is_taken_out(alice: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER, tags=["weather"])
    edit(alice, insight, content=APPROVED)
    assert present(insight)[2] == {"tags": ["weather"]}


def test_a_change_of_the_visibility_leaves_the_edit_waiting(alice: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    assert edit(alice, insight, visibility="private") == ""
    assert MemoryRecord.objects.get(pk=insight.pk).visibility == "private"
    assert present(insight)[2] == {"content": BETTER}


def test_an_edit_does_not_replace_that_of_another_person(alice: Caller, ada: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    with pytest.raises(Conflict, match=r"has an edit by alice@example\.org that waits for a curator"):
        edit(ada, insight, tags=["weather"])
    assert present(insight)[2] == {"content": BETTER}


def test_an_approval_is_not_undone_while_an_edit_waits(alice: Caller, cora: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    with pytest.raises(Conflict, match="approve or reject that edit first"):
        decisions.undo_review(cora, insight_id=insight.pk)
    decisions.approve(cora, insight_id=insight.pk)
    edit(alice, insight, tags=["weather"])
    with pytest.raises(Conflict, match="approve or reject that edit first"):
        decisions.undo_review(cora, insight_id=insight.pk)
    assert present(insight) == ("approved", BETTER, {"tags": ["weather"]})


def test_undoing_the_rejection_of_an_edit_lets_it_wait_again(alice: Caller, cora: Caller, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    decisions.reject(cora, insight_id=insight.pk)
    assert present(insight) == ("approved", APPROVED, {})
    decisions.undo_review(cora, insight_id=insight.pk)
    assert present(insight) == ("approved", APPROVED, {"content": BETTER})
    assert Insight.objects.get(pk=insight.pk).edit_by == alice.email


def test_a_repeated_rejection_of_an_edit_leaves_the_approved_version(
    alice: Caller, cora: Caller, insight: Insight
) -> None:
    edit(alice, insight, content=BETTER)
    ids = [insight.pk.hex]
    note = apply_knowledge(cora, "reject", insight_ids=ids)["note"]
    assert note == f"the edit of {insight.pk.hex} was rejected, and its approved version stays in effect"
    with pytest.raises(Conflict, match="the approved version stays in effect"):
        apply_knowledge(cora, "reject", insight_ids=ids)
    assert present(insight) == ("approved", APPROVED, {})
    apply_knowledge(cora, "reject", insight_ids=ids, override=True)
    assert present(insight)[0] == "rejected"


def test_an_edit_that_waited_is_part_of_the_proposal_after_a_rollback(
    alice: Caller, cora: Caller, insight: Insight, django_capture_on_commit_callbacks: Any
) -> None:
    changes = [{"change_type": "add_tag", "detail": "rain"}]
    applied = apply(cora, Apply.read({"insight_ids": [insight.pk], "entity_urn": ORDERS, "changes": changes}))
    edit(alice, insight, content=BETTER)
    with django_capture_on_commit_callbacks(execute=True):
        roll_back(cora, changeset_id=applied.changeset.pk)
    assert present(insight) == ("pending", BETTER, {})
    assert MemoryRecord.objects.get(pk=insight.pk).embedding_text_hash is not None


def test_the_form_shows_the_edit_that_waits(alice: Caller, alice_user: User, insight: Insight) -> None:
    edit(alice, insight, content=BETTER)
    client, address = browser(alice_user), reverse("edit-memory", args=[insight.pk])
    form = client.get(address)
    assert form.context["form"].initial["content"] == BETTER
    assert "Your edit waits for a curator" in form.content.decode()
    fields = {name: value or "" for name, value in form.context["form"].initial.items()}
    client.post(address, {**fields, "seen": form.context["seen"], "tags": "weather"})
    assert present(insight)[2] == {"content": BETTER, "tags": ["weather"]}
    client.post(address, {**fields, "seen": form.context["seen"], "content": APPROVED, "tags": ""})
    assert present(insight) == ("approved", APPROVED, {})

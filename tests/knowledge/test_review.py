"""The review page: deciding, undoing and applying insights, one at a time and in batches, and permissions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.snapshot import CatalogSnapshot
from knowledge.changesets.apply import preview
from knowledge.insights import queries
from knowledge.insights.capture import capture
from knowledge.models import Changeset, Insight
from knowledge.operations import Apply, Capture, EditAndApprove
from knowledge.review import decisions
from knowledge.review.queue import Queue, QueuePosition
from memories import services
from memories.mcp_tools import memory_manage
from memories.models import Batch, MemoryRecord
from memories.operations import Forget, Reassign, Remember, Revise, Supersede
from memory_project.models import AuditEvent, User
from tests.knowledge.conftest import MART, ORDERS
from tests.pages import browser

pytestmark = pytest.mark.usefixtures("small_catalog")

CLAIM = "Closed orders include cancelled ones since the new till."
DESCRIBE = {"action_type": "update_description", "target": "column:status", "detail": "Closed includes cancelled."}


def propose(caller: Caller, text: str = CLAIM, **fields: Any) -> Insight:
    values: dict[str, Any] = {"category": "data_quality", "entity_urns": [ORDERS], "suggested_actions": [DESCRIBE]}
    return capture(caller, Capture.read({"insight_text": text, **{**values, **fields}})).insight


def decide(client: Client, insight: Insight, action: str, **data: str) -> Any:
    return client.post(reverse("review-decide", args=[insight.pk, action]), data)


@pytest.fixture
def desk(cora_user: User) -> Client:
    return browser(cora_user)


def test_the_queue_opens_the_oldest_insight_and_shows_its_position(alice: Caller, desk: Client) -> None:
    first, second = propose(alice), propose(alice, "Refunds come a day late from the Danish stores.")
    assert desk.get(reverse("review"))["Location"] == reverse("review-one", args=[first.pk])
    page = desk.get(reverse("review-one", args=[first.pk]))
    position = page.context["place"]
    assert (position.number, position.total, position.next_id, position.previous_id) == (1, 2, second.pk, None)
    assert CLAIM in page.content.decode()
    for key in "arepj":
        assert f"<kbd>{key}</kbd>" in page.content.decode(), key


def test_the_page_previews_the_effect(alice: Caller, desk: Client) -> None:
    page = desk.get(reverse("review-one", args=[propose(alice).pk]))
    (change,) = page.context["case"].effect.readable
    assert change.title == "Description of column status"
    assert (change.before, change.after, change.ingested) == ("the status", "Closed includes cancelled.", True)
    assert LocalCatalog().read([ORDERS], ["editableSchemaMetadata"])[ORDERS]["editableSchemaMetadata"].value is None


def test_the_page_explains_why_an_insight_cannot_be_applied(alice: Caller, desk: Client) -> None:
    wrong = {**DESCRIBE, "target": "column:nowhere"}
    page = desk.get(reverse("review-one", args=[propose(alice, suggested_actions=[wrong]).pk]))
    assert "there is no column" in page.context["case"].effect.error
    assert "Approve and apply" not in page.content.decode()


def test_a_correction_is_shown_as_a_diff_to_the_replaced_memory(alice: Caller, desk: Client) -> None:
    old = services.remember(alice, Remember(content="Closed orders never include cancelled ones.")).record
    page = desk.get(reverse("review-one", args=[propose(alice, CLAIM, supersedes=old.pk.hex).pk])).content.decode()
    assert "<ins>" in page
    assert "<del>" in page
    assert "Correction by" in page


def test_the_page_shows_related_memories_and_catalog_metadata(alice: Caller, desk: Client) -> None:
    near = services.remember(
        alice, Remember(content="Orders of test stores are left out.", entity_urns=[ORDERS])
    ).record
    services.remember(alice, Remember(content="The mart is rebuilt every night.", entity_urns=[MART]))
    page = desk.get(reverse("review-one", args=[propose(alice).pk]))
    assert [record.pk for record in page.context["case"].neighbors] == [near.pk]
    assert page.context["case"].evidence["entities"][0]["description"] == "Table sales.orders."


@pytest.mark.parametrize(("action", "state"), [("approve", "approved"), ("reject", "rejected")])
def test_a_decision_opens_the_next_insight_and_can_be_undone(
    alice: Caller, desk: Client, action: str, state: str
) -> None:
    first, second = propose(alice), propose(alice, "Refunds come a day late from the Danish stores.")
    response = decide(desk, first, action, note="looked at")
    assert response["Location"] == reverse("review-one", args=[second.pk])
    first.refresh_from_db()
    assert (first.state, first.review_notes, first.reviewed_by) == (state, "looked at", "cora@example.org")
    page = desk.get(response["Location"])
    assert page.context["decided"] == 1
    assert reverse("review-undo", args=[first.pk]) in page.content.decode()
    assert desk.post(reverse("review-undo", args=[first.pk]))["Location"] == reverse("review-one", args=[first.pk])
    first.refresh_from_db()
    assert (first.state, first.reviewed_by) == ("pending", "")


def test_a_key_has_one_meaning_on_a_page(alice: Caller, desk: Client) -> None:
    first = propose(alice)
    second = propose(alice, "Refunds come a day late from the Danish stores.")
    decide(desk, first, "approve")
    decide(desk, second, "approve")
    page = desk.get(reverse("review-one", args=[first.pk])).content.decode()  # can be returned; the other one, undone
    keys = re.findall(r'data-key="(\w)"', page)
    assert {"q", "u"} <= set(keys)
    assert len(keys) == len(set(keys))


def test_approve_and_apply_writes_the_catalog_and_links_the_changeset(alice: Caller, desk: Client) -> None:
    insight = propose(alice)
    decide(desk, insight, "apply")
    insight.refresh_from_db()
    assert insight.state == "applied"
    value = LocalCatalog().read([ORDERS], ["editableSchemaMetadata"])[ORDERS]["editableSchemaMetadata"].value
    assert value is not None
    assert value["editableSchemaFieldInfo"][0]["description"] == "Closed includes cancelled."
    page = desk.get(reverse("review"))
    assert reverse("changeset", args=[insight.changeset_id]) in page.content.decode()


def test_an_insight_that_cannot_be_applied_stays_approved(alice: Caller, desk: Client) -> None:
    insight = propose(alice, suggested_actions=[{**DESCRIBE, "target": "column:nowhere"}])
    response = desk.post(reverse("review-decide", args=[insight.pk, "apply"]), follow=True)
    insight.refresh_from_db()
    assert insight.state == "approved"
    assert "there is no column" in response.content.decode()
    assert not Changeset.objects.exists()


def test_an_insight_is_edited_and_approved(alice: Caller, desk: Client) -> None:
    insight = propose(alice)
    address = reverse("review-edit", args=[insight.pk])
    page = desk.get(address)
    form = {name: field.initial or "" for name, field in page.context["form"].fields.items()}
    form |= page.context["form"].initial | {"detail-0": "Closed includes cancelled since May.", "approve": "1"}
    desk.post(address, form)
    insight.refresh_from_db()
    assert insight.state == "approved"
    assert insight.suggested_actions[0]["detail"] == "Closed includes cancelled since May."


def test_an_invalid_edit_is_rejected_with_an_error_at_the_field(alice: Caller, desk: Client) -> None:
    insight = propose(alice)
    address = reverse("review-edit", args=[insight.pk])
    form = desk.get(address).context["form"].initial | {"content": "short", "approve": "1"}
    response = desk.post(address, form)
    assert "content" in response.context["form"].errors
    insight.refresh_from_db()
    assert insight.state == "pending"


def test_the_queue_wraps_around_and_can_be_filtered(alice: Caller, cora: Caller) -> None:
    rows = [
        propose(alice, f"Fact number {n} about the tills of Ghent.", entity_urns=[[ORDERS, MART][n % 2]])
        for n in range(4)
    ]
    queue = Queue(cora)
    assert [queue.locate(row).number for row in rows] == [1, 2, 3, 4]
    assert queue.locate(rows[-1]).next_id == rows[0].pk
    assert Queue(cora, entity=MART).locate().total == 2
    assert Queue(cora, category="correction").locate() == QueuePosition(0, 0)


def test_a_batch_is_decided_and_undone_together(alice: Caller, desk: Client, cora: Caller) -> None:
    rows = [propose(alice, f"Fact number {n} about the tills of Ghent.") for n in range(3)]
    decisions.reject(cora, insight_id=rows[2].pk)
    form = {"act": "approve", "ids": [row.pk.hex for row in rows], "note": "all alike", "back_to": "/review/all/"}
    response = desk.post(reverse("start-batch"), form, follow=True)
    batch = Batch.objects.get()
    assert sorted(bool(outcome) for outcome in batch.outcomes) == [False, False, True]
    assert "is rejected already" in response.content.decode()
    assert set(Insight.objects.filter(state="approved").values_list("review_notes", flat=True)) == {"all alike"}
    desk.post(reverse("undo-batch", args=[batch.pk]))
    assert queries.waiting(cora).count() == 2


def test_only_curators_see_and_decide(alice: Caller, alice_user: User, bob_user: User, olga_user: User) -> None:
    insight = propose(alice)
    for user in (alice_user, bob_user, olga_user):
        client = browser(user)
        assert client.get(reverse("review")).status_code == 403
        assert client.get(reverse("review-list")).status_code == 403
        assert client.get(reverse("review-one", args=[insight.pk])).status_code == 403
        for action in ("approve", "reject", "apply"):
            assert decide(client, insight, action).status_code in (403, 302)
        client.post(reverse("start-batch"), {"act": "approve", "ids": insight.pk.hex})
        client.post(reverse("review-undo", args=[insight.pk]))
        client.post(reverse("review-edit", args=[insight.pk]), {"content": "Something else altogether."})
    insight.refresh_from_db()
    assert (insight.state, insight.record.content) == ("pending", CLAIM)


def test_a_curator_of_another_persona_finds_nothing(alice: Caller, olga_user: User, curators: Any) -> None:
    insight = propose(alice)
    olga_user.groups.add(curators)
    client = browser(User.objects.get(pk=olga_user.pk))
    assert client.get(reverse("review-one", args=[insight.pk])).status_code == 404
    decide(client, insight, "approve")
    insight.refresh_from_db()
    assert insight.state == "pending"


def test_curators_cannot_decide_their_own_insights(cora: Caller, desk: Client) -> None:
    insight = propose(cora)
    assert desk.get(reverse("review")).status_code == 200  # the empty queue, which excludes her own insight
    page = desk.get(reverse("review-one", args=[insight.pk]))
    assert "your own insight" in page.content.decode()
    decide(desk, insight, "approve")
    insight.refresh_from_db()
    assert insight.state == "pending"


def test_hostile_text_stays_text(alice: Caller, desk: Client) -> None:
    evil = "<script>alert(1)</script> ![x](http://evil.example/x.png) orders are wrong"
    action = {**DESCRIBE, "detail": "<img src=x onerror=alert(2)>"}
    page = desk.get(reverse("review-one", args=[propose(alice, evil, suggested_actions=[action]).pk])).content.decode()
    assert "<script>alert" not in page
    assert "<img" not in page


def test_the_number_of_queries_does_not_grow(alice: Caller, desk: Client, django_assert_max_num_queries: Any) -> None:
    actions = [{**DESCRIBE, "target": f"column:{name}"} for name in ("status", "amount")]
    insight = propose(alice, entity_urns=[ORDERS, MART], suggested_actions=actions)
    for n in range(12):
        propose(alice, f"Fact number {n} about the tills of Ghent.")
        services.remember(alice, Remember(content=f"Neighbor number {n} of the orders.", entity_urns=[ORDERS]))
    address = reverse("review-one", args=[insight.pk])
    desk.get(address)
    with django_assert_max_num_queries(23):
        desk.get(address)
    desk.get(reverse("review-list"))
    with django_assert_max_num_queries(23):
        desk.get(reverse("review-list"))


def test_a_snapshot_reads_each_entity_once(django_assert_num_queries: Any) -> None:
    from knowledge.catalog import entity_view

    snapshot = CatalogSnapshot(LocalCatalog())
    with django_assert_num_queries(1):
        snapshot.read([ORDERS, MART], entity_view.ASPECTS)
        again = snapshot.read([ORDERS], ["datasetProperties"])
    assert again[ORDERS]["datasetProperties"].value is not None
    assert MemoryRecord.objects.count() == 0


# -- only approved texts are applied, and only by permitted curators ---------------------------------------------


def test_an_approved_insight_stays_valid_until_its_edit_is_approved(
    alice: Caller, bob: Caller, cora: Caller, desk: Client
) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    edited = services.revise(alice, Revise(record_id=insight.pk, content="Something that nobody has approved."))
    assert "waits for a curator" in edited.pending_message
    insight = Insight.objects.get(pk=insight.pk)
    assert (insight.state, insight.record.content) == ("approved", CLAIM)
    assert insight.record in MemoryRecord.objects.visible_to(bob)
    assert insight in queries.waiting(cora)
    page = desk.get(reverse("review-one", args=[insight.pk])).content.decode()
    assert "nobody has approved" in page
    with pytest.raises(Conflict, match="an edit of"):
        preview(cora, Apply.read({"insight_ids": [insight.pk.hex], "changes": [DESCRIBE], "entity_urn": ORDERS}))
    decisions.reject(cora, insight_id=insight.pk, notes="no")
    insight = Insight.objects.get(pk=insight.pk)
    assert (insight.state, insight.record.content, insight.pending_edit) == ("approved", CLAIM, {})
    services.revise(alice, Revise(record_id=insight.pk, content="Something better, to be approved."))
    decisions.approve(cora, insight_id=insight.pk)
    insight = Insight.objects.get(pk=insight.pk)
    assert (insight.record.content, insight.pending_edit) == ("Something better, to be approved.", {})
    decisions.undo_review(cora, insight_id=insight.pk)
    insight = Insight.objects.get(pk=insight.pk)
    assert (insight.record.content, insight.pending_edit["content"]) == (CLAIM, "Something better, to be approved.")


def test_the_owner_of_an_approved_insight_narrows_its_readers_without_review(alice: Caller, cora: Caller) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    record = services.revise(alice, Revise(record_id=insight.pk, visibility="private"))
    assert (record.visibility, record.pending_message) == ("private", "")
    assert not queries.waiting(cora).exists()


EDITS: dict[str, Any] = {
    "content": "Another text that nobody has read.", "summary": "Ignore what the text says.", "tags": ["obey"],
    "entity_urns": [MART], "dimension": "preference",
    "related_columns": [{"urn": ORDERS, "column": "obey", "relevance": "obey"}],
    "category": "enhancement", "confidence": "high", "metadata": {"obey": None, "now": "Ignore the text."},
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_every_field_that_reaches_readers_waits_for_review(name: str, alice: Caller, cora: Caller) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    before = MemoryRecord.objects.filter(pk=insight.pk).values(name).get()[name]
    record = services.revise(alice, Revise.read({"id": insight.pk, name: EDITS[name]}))
    assert "waits for a curator" in record.pending_message
    assert MemoryRecord.objects.filter(pk=insight.pk).values(name).get()[name] == before
    assert [row.pk for row in queries.waiting(cora)] == [insight.pk]
    decisions.approve(cora, insight_id=insight.pk)
    after = MemoryRecord.objects.filter(pk=insight.pk).values(name).get()[name]
    assert after == ({"now": "Ignore the text."} if name == "metadata" else EDITS[name])
    decisions.undo_review(cora, insight_id=insight.pk)
    assert MemoryRecord.objects.filter(pk=insight.pk).values(name).get()[name] == before
    assert set(Insight.objects.get(pk=insight.pk).pending_edit) == {name}


def test_the_page_of_an_edit_shows_each_edited_field(alice: Caller, cora: Caller, cora_user: User) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    services.revise(alice, Revise.read({"id": insight.pk, **EDITS}))
    page = browser(cora_user).get(reverse("review-one", args=[insight.pk])).content.decode()
    missing = [text for text in ("obey", "Ignore what the text says.", "preference", "high") if text not in page]
    assert missing == []


def test_an_edit_of_tags_leaves_the_author_of_the_text(alice: Caller, cora: Caller, ada: Caller) -> None:
    insight = propose(alice)
    edit = EditAndApprove.read({"insight_ids": [insight.pk.hex], "content": "What the curator made of it."})
    decisions.edit_and_approve(cora, edit)
    services.revise(alice, Revise(record_id=insight.pk, tags=["tills"]))
    decisions.approve(ada, insight_id=insight.pk)
    record = MemoryRecord.objects.get(pk=insight.pk)
    assert (record.tags, record.edited_by) == (["tills"], cora.email)
    services.revise(alice, Revise(record_id=insight.pk, content="What the author wants."))
    decisions.approve(ada, insight_id=insight.pk)
    assert MemoryRecord.objects.get(pk=insight.pk).edited_by == ""
    decisions.undo_review(ada, insight_id=insight.pk)
    assert MemoryRecord.objects.get(pk=insight.pk).edited_by == cora.email


def test_a_correction_of_an_approved_insight_is_proposed(alice: Caller, bob: Caller, cora: Caller) -> None:
    insight = propose(alice, visibility="everyone")
    decisions.approve(cora, insight_id=insight.pk)
    response = services.supersede(alice, Supersede(record_id=insight.pk, content="A correction nobody has read."))
    assert "waits for a curator" in response.note
    assert (response.record.visibility, response.record.supersedes_id) == ("private", None)
    proposed = Insight.objects.get(pk=response.record.pk)
    assert (proposed.state, proposed.replaces_id) == ("pending", insight.pk)
    insight.record.refresh_from_db()
    assert insight.record.status == "active"


def test_a_forgotten_insight_cannot_be_applied_or_reopened(alice: Caller, cora: Caller, desk: Client) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    services.forget(alice, Forget(record_id=insight.pk))
    decide(desk, insight, "apply")
    desk.post(reverse("review-undo", args=[insight.pk]))
    insight.refresh_from_db()
    assert (insight.state, insight.record.status) == ("approved", "archived")
    assert not Changeset.objects.exists()


def test_a_rejection_needs_a_reason(alice: Caller, desk: Client) -> None:
    insight = propose(alice)
    page = desk.get(decide(desk, insight, "reject")["Location"])
    assert "The reason is missing: the author needs to know why" in page.content.decode()
    decide(desk, insight, "reject", reason="Too vague to use", note="Which stores?")
    insight.refresh_from_db()
    assert (insight.state, insight.review_notes) == ("rejected", "Too vague to use. Which stores?")


def test_undoing_a_rejection_creates_no_second_proposal(alice: Caller, cora: Caller, desk: Client) -> None:
    insight = propose(alice)
    decisions.reject(cora, insight_id=insight.pk)
    propose(alice)
    desk.post(reverse("review-undo", args=[insight.pk]))
    insight.refresh_from_db()
    assert insight.state == "rejected"


def test_curators_decide_only_for_their_own_personas(
    alice: Caller, cora: Caller, olga_user: User, curators: Any
) -> None:
    insight = propose(alice, visibility="everyone")
    decisions.approve(cora, insight_id=insight.pk)
    olga_user.groups.add(curators)
    client = browser(User.objects.get(pk=olga_user.pk))
    assert client.get(reverse("review-one", args=[insight.pk])).status_code == 200  # everyone may read it
    for action in ("reject", "apply"):
        decide(client, insight, action, note="no")
    client.post(reverse("review-undo", args=[insight.pk]))
    insight.refresh_from_db()
    assert (insight.state, insight.reviewed_by) == ("approved", "cora@example.org")


def test_the_tables_show_no_private_text_of_others(alice: Caller, cora_user: User) -> None:
    secret = services.remember(alice, Remember(content="A private thought of Alice.", visibility="private")).record
    shared = services.supersede(
        alice, Supersede(record_id=secret.pk, content="A shared correction.", visibility="persona")
    )
    replaced = services.remember(alice, Remember(content="Another private thought.", visibility="private")).record
    insight = propose(alice, supersedes=replaced.pk.hex)
    User.objects.get(pk=cora_user.pk).groups.first().permissions.add(  # type: ignore[union-attr]
        *Permission.objects.filter(codename__in=["view_memoryrecord", "view_insight", "view_tombstone"])
    )
    client = browser(User.objects.get(pk=cora_user.pk))
    for address in (
        reverse("admin:memories_memoryrecord_change", args=[shared.record.pk]),
        reverse("admin:knowledge_insight_change", args=[insight.pk]),
    ):
        page = client.get(address)
        assert page.status_code == 200
        assert "private thought" not in page.content.decode()
    assert client.get(reverse("admin:memories_tombstone_changelist")).status_code == 403


@pytest.mark.parametrize("address", ["/batches/", "/connect/tokens/"])
def test_unstorable_form_values_cause_no_server_error(alice_user: User, address: str) -> None:
    form = {"cause": "\x00", "back_to": "/a\x00", "act": "verify", "persona": "\x00", "name": "x"}
    assert browser(alice_user).post(address, form).status_code in (302, 400, 403)


@pytest.mark.parametrize("page", ["foo", "//evil.example", "https://evil.example/", "/\\evil.example"])
def test_a_form_never_redirects_to_another_site(alice: Caller, alice_user: User, page: str) -> None:
    fact = services.remember(alice, Remember(content="A fact about the tills.")).record
    response = browser(alice_user).post(reverse("change-memory", args=[fact.pk, "useful"]), {"next": page})
    assert response["Location"] == reverse("memory", args=[fact.pk])


def test_portal_changes_are_audited_without_their_text(alice: Caller, desk: Client) -> None:
    insight = propose(alice)
    decide(desk, insight, "reject", note="a telling note")
    event = AuditEvent.objects.get(channel="portal", tool__startswith="portal")
    assert (event.email, event.channel, event.tool) == ("cora@example.org", "portal", "portal.review-decide.reject")
    assert event.record_ids == [insight.pk]
    assert "telling" not in str(event.arguments)
    assert pages_are_not_cached(desk)


def pages_are_not_cached(client: Client) -> bool:
    return client.get(reverse("my-knowledge"))["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("entity_urns", [MART]),
        ("related_columns", [{"urn": ORDERS, "column": "status", "relevance": "what it is about"}]),
    ],
)
def test_changed_columns_of_an_approved_insight_are_reviewed(
    alice: Caller, cora: Caller, name: str, value: list[Any]
) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    edited = services.revise(alice, Revise.read({"record_id": insight.pk, name: value}))
    assert "waits for a curator" in edited.pending_message
    insight = Insight.objects.get(pk=insight.pk)
    assert getattr(insight.record, name) != value
    assert insight.pending_edit == {name: value}


def test_nobody_approves_their_own_edit(alice: Caller, cora: Caller) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    edited = "Something that nobody has approved."
    services.revise(replace(cora, is_admin=True), Revise(record_id=insight.pk, content=edited))  # until today
    with pytest.raises(Forbidden, match="is your own"):
        decisions.approve(cora, insight_id=insight.pk)
    assert Insight.objects.get(pk=insight.pk).record.content == CLAIM


def test_a_pending_insight_is_not_moved_to_another_persona(
    alice: Caller, alice_user: User, personas: dict[str, Persona]
) -> None:
    insight = propose(alice)
    PersonaMembership.objects.create(user=alice_user, persona=personas["supply"])
    with pytest.raises(Conflict, match="waits for review"):
        services.reassign(build_caller(alice_user, channel="test"), Reassign(record_id=insight.pk, persona="supply"))
    assert MemoryRecord.objects.get(pk=insight.pk).persona == "sales"


def test_the_memory_of_a_withdrawn_or_rejected_proposal_leads_back_to_review(alice: Caller, cora: Caller) -> None:
    record = propose(alice).pk.hex
    memory_manage(alice, "forget", id=record)
    with pytest.raises(Conflict, match="was withdrawn from review"):
        memory_manage(alice, "share", id=record, visibility="everyone")
    assert memory_manage(alice, "restore", id=record)["status"] == "active"
    decisions.reject(cora, insight_id=record, notes="not true")
    with pytest.raises(Conflict, match="appeal with a reason"):
        memory_manage(alice, "update", id=record, tags=["a"])
    with pytest.raises(Conflict, match="appeal with a reason"):
        memory_manage(alice, "supersede", id=record, content="Revenue includes refunds.")

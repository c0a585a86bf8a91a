"""The admin curates: lists that say what matters, actions that ask why, changesets that can be read."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from knowledge.changes import changesets
from knowledge.insights import capture
from knowledge.models import Insight
from memories import services
from memories.access import Caller
from memories.models import Batch, MemoryRecord
from memory_project.models import User
from tests.knowledge.applying import approved, change
from tests.knowledge.conftest import ORDERS

pytestmark = pytest.mark.django_db
INSIGHTS = "admin:knowledge_insight_changelist"


@pytest.fixture
def insight(small_catalog: None, alice: Caller) -> Insight:
    action = {"action_type": "add_tag", "detail": "Training"}
    return capture(
        caller=alice,
        insight_text="Stores 9001 to 9099 are <training> tills.",
        category="data_quality",
        entity_urns=[ORDERS],
        suggested_actions=[action],
    ).insight


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def act(client: Client, name: str, *ids: Any, list_url: str = INSIGHTS, **fields: Any) -> Any:
    return client.post(reverse(list_url), {"action": name, ACTION_CHECKBOX_NAME: [str(pk) for pk in ids], **fields})


def test_the_list_says_what_a_curator_looks_for(cora_user: User, insight: Insight) -> None:
    client = browser(cora_user)
    page = text(client, reverse(INSIGHTS))
    for cell in ("&lt;training&gt; tills", "pending", "data quality", "medium", "sales", "alice@example.org", "ago"):
        assert cell in page
    assert insight.pk.hex not in page.replace(f'value="{insight.pk}"', "")  # no id heads a row
    assert "<training>" not in page
    filtered_url = reverse(INSIGHTS) + f"?q={ORDERS}"
    assert "training" in text(client, filtered_url)
    assert "training" not in text(client, reverse(INSIGHTS) + "?q=urn:li:dataset:other")
    detail = text(client, reverse("admin:knowledge_insight_change", args=[insight.pk]))
    assert "Tag of sales.orders: <ins>Training</ins>" in detail
    assert reverse("review-one", args=[insight.pk]) in detail


def test_a_decision_is_asked_for_its_reason_and_carried_out_by_services(
    cora_user: User, alice: Caller, insight: Insight
) -> None:
    client = browser(cora_user)
    question = act(client, "reject", insight.pk)
    assert (question.status_code, "Known already" in question.content.decode()) == (200, True)
    assert Insight.objects.get().state == "pending"
    missing = act(client, "reject", insight.pk, confirm="1")
    assert (missing.status_code, "The reason is missing" in missing.content.decode()) == (400, True)
    answer = act(client, "reject", insight.pk, confirm="1", reason="Known already")
    assert (answer.status_code, answer["Location"]) == (302, reverse("batch", args=[Batch.objects.get().pk]))
    insight.refresh_from_db()
    assert (insight.state, insight.review_notes, insight.reviewed_by) == ("rejected", "Known already", cora_user.email)


def test_all_that_match_are_meant_where_all_are_chosen(cora_user: User, alice: Caller, insight: Insight) -> None:
    for number in range(60):
        capture(caller=alice, insight_text=f"A claim with the number {number}.", category="correction")
    client = browser(cora_user)
    question = act(client, "approve", insight.pk, select_across="1")
    assert "Approve: 61" in question.content.decode()
    act(client, "approve", insight.pk, select_across="1", confirm="1")
    assert len(Batch.objects.get().unit_ids) == 61


def test_who_does_not_curate_is_offered_nothing(
    cora_user: User, alice_user: User, olga_user: User, insight: Insight
) -> None:
    alice_user.is_staff = olga_user.is_staff = True
    alice_user.save()
    olga_user.save()
    assert browser(alice_user).get(reverse(INSIGHTS)).status_code == 403
    cora_user.groups.clear()
    assert act(browser(cora_user), "approve", insight.pk, confirm="1").status_code == 403
    assert Insight.objects.get().state == "pending"


def test_a_changeset_reads_as_a_diff_with_its_sources(
    small_catalog: None, cora_user: User, alice: Caller, cora: Caller
) -> None:
    source = approved(alice, cora)
    changes = [change("update_description", "column:amount", "The net amount.")]
    applied = changesets.apply(caller=cora, insight_ids=[source.pk.hex], changes=changes, entity_urn=ORDERS)
    client = browser(cora_user)
    rows = text(client, reverse("admin:knowledge_changeset_changelist"))
    assert "sales.orders" in rows
    assert "urn:li:dataset" not in rows
    page = text(client, reverse("admin:knowledge_changeset_change", args=[applied.changeset.pk]))
    assert "<ins>The net amount.</ins> (landed)" in page
    assert reverse("changeset", args=[applied.changeset.pk]) in page
    assert str(source.record) in page
    assert "<details" in page.partition("As it is stored")[0].rpartition("<fieldset")[2]


def test_memories_show_their_chain_and_are_forgotten_with_a_reason(
    ada_user: User, alice: Caller, fact: MemoryRecord
) -> None:
    new = services.supersede(caller=alice, record_id=fact.pk, content="Revenue includes refunds.").record
    client = browser(ada_user)
    page = text(client, reverse("admin:memories_memoryrecord_change", args=[new.pk]))
    assert "Revenue in the sales mart excludes refunds.</a> (superseded)" in page
    list_url = "admin:memories_memoryrecord_changelist"
    assert "Forget: 1" in act(client, "forget", new.pk, list_url=list_url).content.decode()
    act(client, "forget", new.pk, list_url=list_url, confirm="1", reason="no longer")
    new.refresh_from_db()
    assert new.status == "archived"
    assert new.revisions.last().reason == "no longer"  # type: ignore[union-attr]


def test_stale_memories_and_corrections_have_lists_of_their_own(
    ada_user: User, alice: Caller, olga_user: User, fact: MemoryRecord
) -> None:
    new = services.supersede(caller=alice, record_id=fact.pk, content="Revenue includes refunds.").record
    stale = services.remember(caller=alice, content="Orders come twice a day.").record
    services.mark_stale(caller=alice, record_id=stale.pk, reason="the column day was removed")
    client = browser(ada_user)
    stale_url, corrections_url = (f"admin:memories_{name}_changelist" for name in ("stalememory", "correction"))
    page = text(client, reverse(stale_url))
    assert "the column day was removed" in page
    assert str(new) not in page
    page = text(client, reverse(corrections_url))
    assert (str(new) in page, str(fact) in page, str(stale) in page) == (True, True, False)
    act(client, "verify", stale.pk, list_url=stale_url, confirm="1")
    stale.refresh_from_db()
    assert stale.status == "active"
    olga_user.is_staff = True
    olga_user.save()
    olga_user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    assert str(new) not in text(browser(olga_user), reverse(corrections_url))


def test_a_correction_of_what_the_reader_may_not_see_does_not_tell_it(
    ada_user: User, bob_user: User, alice: Caller
) -> None:
    old = services.remember(caller=alice, content="A private belief about orders.", visibility="private").record
    services.supersede(caller=alice, record_id=old.pk, content="A belief about all orders.", visibility="persona")
    bob_user.is_staff = True
    bob_user.save()
    bob_user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    page = text(browser(bob_user), reverse("admin:memories_correction_changelist"))
    assert ("A belief about all orders." in page, "private belief" in page) == (True, False)

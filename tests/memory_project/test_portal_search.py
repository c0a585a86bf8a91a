"""Palette, pickers, saved views, and names instead of URNs. Each offers only what the user may read."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from knowledge.catalog.name_resolution import urn_of
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.contract.errors import Invalid
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.models import SavedView, User
from tests.knowledge.conftest import ORDERS, put

pytestmark = pytest.mark.usefixtures("small_catalog")


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(client: Client, name: str, *args: Any, **params: str) -> str:
    response = client.get(reverse(name, args=args), params)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


# -- names ---------------------------------------------------------------------------------------------------


def test_a_name_is_resolved_to_a_urn(settings: Any) -> None:
    assert [urn_of(name) for name in ("sales.orders", "SALES.ORDERS", " orders ", ORDERS)] == [ORDERS] * 4
    with pytest.raises(Invalid, match=r"not in the catalog; allowed: sales\.mart"):
        urn_of("mar")
    oracle_orders = ORDERS.replace("snowflake", "oracle")
    put(oracle_orders, "datasetProperties", {"name": "orders", "qualifiedName": "sales.orders", "description": ""})
    with pytest.raises(Invalid, match=r"is ambiguous.*oracle.*snowflake|is ambiguous.*snowflake.*oracle"):
        urn_of("sales.orders")


def test_a_memory_form_accepts_the_name_of_an_entity(alice_user: User) -> None:
    form = {"content": "Orders close at night.", "dimension": "knowledge", "category": "general",
            "confidence": "high", "visibility": "persona", "tags": "", "entity_urns": "sales.orders\n"}  # fmt: skip
    browser(alice_user).post(reverse("create-memory"), form)
    assert MemoryRecord.objects.get().entity_urns == [ORDERS]


# -- pickers -------------------------------------------------------------------------------------------------


def test_pickers_offer_matching_values(alice: Caller, alice_user: User, bob_user: User, olga_user: User) -> None:
    services.remember(Remember(content="Orders close at night.", tags=["nightly", "<b>"]), caller=alice)
    client = browser(alice_user)
    assert f'data-value="{ORDERS}"' in text(client, "pick", "entity", q="orders")
    columns = text(client, "pick", "column", q="", about="sales.orders")
    assert ('data-value="status"' in columns, 'data-value="customer.id"' in columns) == (True, True)
    assert 'data-value="bob@example.org"' in text(client, "pick", "person", q="bob")
    assert "olga" not in text(client, "pick", "person", q="olga@")  # Olga shares no persona with Alice
    assert 'data-value="&lt;b&gt;"' in text(client, "pick", "tag", q="")
    assert "nightly" not in text(browser(olga_user), "pick", "tag", q="night")
    assert client.get(reverse("pick", args=["secret"])).status_code == 404
    assert Client().get(reverse("pick", args=["person"])).status_code == 302


# -- the palette ---------------------------------------------------------------------------------------------


def test_the_palette_finds_memories_entities_people_and_pages(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    services.remember(Remember(content="Orders <close> at night in Ghent."), caller=alice)
    page = text(browser(bob_user), "palette", q="orders")
    assert ("Orders &lt;close&gt; at night" in page, "sales.orders" in page) == (True, True)
    assert "Orders &lt;close&gt;" not in text(browser(olga_user), "palette", q="orders")
    assert "alice@example.org" in text(browser(bob_user), "palette", q="alice")
    assert reverse("stale-review") in text(browser(bob_user), "palette", q="stale rev")


def test_the_palette_omits_pages_that_the_user_may_not_open(bob_user: User, cora_user: User, ada_user: User) -> None:
    offers = {user.email: text(browser(user), "palette", q="e") for user in (bob_user, cora_user, ada_user)}
    assert reverse("review") not in offers["bob@example.org"]
    assert reverse("review") in offers["cora@example.org"]
    assert reverse("admin:people") not in offers["cora@example.org"]
    assert reverse("admin:people") in offers["ada@example.org"]


# -- saved views ---------------------------------------------------------------------------------------------


def test_a_saved_view_is_in_the_navigation_with_its_count(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    for number in range(3):
        services.remember(Remember(content=f"Correction number {number} of all.", category="correction"), caller=alice)
    client = browser(bob_user)
    back = reverse("my-knowledge") + "?category=correction&after=x"
    client.post(reverse("save-view"), {"name": "Our <corrections>", "page": "my-knowledge", "back_to": back})
    view = SavedView.objects.get()
    assert view.query == "category=correction"
    page = text(client, "activity")
    assert ("Our &lt;corrections&gt;" in page, '<span class="count">3</span>' in page) == (True, True)
    assert "corrections" not in text(browser(olga_user), "activity")
    browser(olga_user).post(reverse("remove-view", args=[view.pk]))
    assert SavedView.objects.exists()
    client.post(reverse("remove-view", args=[view.pk]))
    assert not SavedView.objects.exists()


@pytest.mark.parametrize(
    "form",
    [{"name": "", "page": "my-knowledge"}, {"name": "x" * 61, "page": "my-knowledge"}, {"name": "x", "page": "y"}],
)
def test_an_invalid_view_is_rejected(bob_user: User, form: dict[str, str]) -> None:
    browser(bob_user).post(reverse("save-view"), form)
    assert not SavedView.objects.exists()


def test_a_view_of_the_queue_counts_zero_for_users_who_do_not_curate(
    alice: Caller, bob_user: User, cora_user: User
) -> None:
    capture(Capture(insight_text="Tills close at ten.", category="correction"), caller=alice)
    for user, count in ((bob_user, 0), (cora_user, 1)):
        form = {"name": "Queue", "page": "review-list", "back_to": reverse("review-list") + "?category=correction"}
        client = browser(user)
        client.post(reverse("save-view"), form)
        assert f'<span class="count">{count}</span>' in text(client, "activity").partition("Queue")[2]


# -- proposing insights --------------------------------------------------------------------------------------

FORM = {
    "content": "Orders are closed at ten.", "category": "data_quality", "confidence": "medium",
    "visibility": "persona", "entity_urns": "sales.orders", "action_type-0": "update_description",
    "target-0": "status", "detail-0": "Closed at ten at night.",
}  # fmt: skip


def test_an_insight_is_proposed_from_the_browser_with_a_preview(alice_user: User, bob_user: User) -> None:
    client = browser(alice_user)
    start = client.get(reverse("propose"), {"entity": ORDERS, "column": "status"})
    assert start.context["form"].initial["entity_urns"] == ORDERS
    kinds = dict(start.context["form"].fields["action_type-0"].choices)
    assert ("update_description" in kinds, "remove_structured_property" in kinds) == (True, True)
    preview = client.post(reverse("propose-preview"), FORM).content.decode()
    assert "Closed at ten at night." in preview
    assert (
        "there is no column" in client.post(reverse("propose-preview"), {**FORM, "target-0": "none"}).content.decode()
    )
    response = client.post(reverse("propose"), FORM)
    record = MemoryRecord.objects.get()
    assert response["Location"] == reverse("memory", args=[record.pk])
    assert (record.visibility, record.insight.state) == ("private", "pending")
    (action,) = record.insight.suggested_actions
    assert action == {"action_type": "update_description", "target": "column:status", "detail": FORM["detail-0"]}
    assert browser(bob_user).get(reverse("memory", args=[record.pk])).status_code == 404


def test_only_changes_possible_for_the_entity_are_offered(alice_user: User) -> None:
    term = browser(alice_user).get(reverse("propose"), {"entity": "urn:li:glossaryTerm:net"})
    kinds = dict(term.context["form"].fields["action_type-0"].choices)
    assert ("update_description" in kinds, "add_curated_query" in kinds, "add_tag" in kinds) == (True, False, False)


def test_a_memory_is_proposed_as_an_insight_of_its_own(
    alice_user: User, bob_user: User, olga_user: User, fact: MemoryRecord
) -> None:
    for user, count in ((bob_user, 2), (alice_user, 3)):
        client = browser(user)
        start = client.get(reverse("propose"), {"memory": fact.pk.hex})
        assert start.context["form"].initial["content"] == fact.content
        client.post(
            reverse("propose") + f"?memory={fact.pk.hex}", {**FORM, "content": fact.content, "action_type-0": ""}
        )
        assert MemoryRecord.objects.count() == count
    assert browser(olga_user).get(reverse("propose"), {"memory": fact.pk.hex}).status_code == 404


def test_an_error_is_shown_at_its_field(alice_user: User) -> None:
    response = browser(alice_user).post(reverse("propose"), {**FORM, "content": "short", "entity_urns": "nowhere"})
    assert set(response.context["form"].errors) == {"entity_urns"}
    response = browser(alice_user).post(reverse("propose"), {**FORM, "content": "short"})
    assert set(response.context["form"].errors) == {"content"}
    assert not MemoryRecord.objects.exists()

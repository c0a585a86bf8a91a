"""Palette, pickers, saved views, and names instead of URNs. Each offers only what the user may read."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.catalog.name_resolution import urn_of
from knowledge.graph.entities import create_entities
from knowledge.graph.models import Entity
from knowledge.graph.operations import CreateEntities
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import queries, services
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.models import SavedView, User
from memory_project.portal.curation import queue
from memory_project.portal.search import destinations
from memory_project.portal.search.matching import score
from tests.conftest import person
from tests.knowledge.conftest import ORDERS, put
from tests.memories.conversation.conftest import store_turns
from tests.pages import browser, text_of

pytestmark = pytest.mark.usefixtures("small_catalog")


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
    services.remember(alice, Remember(content="Orders close at night.", tags=["nightly", "<b>"]))
    client = browser(alice_user)
    assert f'data-value="{ORDERS}"' in text_of(client, "pick", "entity", q="orders")
    columns = text_of(client, "pick", "column", q="", about="sales.orders")
    assert ('data-value="status"' in columns, 'data-value="customer.id"' in columns) == (True, True)
    assert 'data-value="bob@example.org"' in text_of(client, "pick", "person", q="bob")
    assert "olga" not in text_of(client, "pick", "person", q="olga@")  # Olga shares no persona with Alice
    assert 'data-value="&lt;b&gt;"' in text_of(client, "pick", "tag", q="")
    assert "nightly" not in text_of(browser(olga_user), "pick", "tag", q="night")
    assert client.get(reverse("pick", args=["secret"])).status_code == 404
    assert Client().get(reverse("pick", args=["person"])).status_code == 302


# -- the palette ---------------------------------------------------------------------------------------------


def test_the_palette_finds_memories_entities_people_and_pages(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    services.remember(alice, Remember(content="Orders <close> at night in Ghent."))
    page = text_of(browser(bob_user), "palette", q="orders")
    assert ("Orders &lt;close&gt; at night" in page, "sales.orders" in page) == (True, True)
    assert "Orders &lt;close&gt;" not in text_of(browser(olga_user), "palette", q="orders")
    assert "alice@example.org" in text_of(browser(bob_user), "palette", q="alice")
    assert reverse("stale-review") in text_of(browser(bob_user), "palette", q="stale rev")


def test_the_palette_omits_pages_that_the_user_may_not_open(bob_user: User, cora_user: User, ada_user: User) -> None:
    offers = {user.email: text_of(browser(user), "palette", q="review") for user in (bob_user, cora_user)}
    assert f'href="{reverse("review")}"' not in offers["bob@example.org"]
    assert f'href="{reverse("review")}"' in offers["cora@example.org"]
    assert reverse("admin:people") not in text_of(browser(cora_user), "palette", q="people")
    assert reverse("admin:people") in text_of(browser(ada_user), "palette", q="people")
    assert f"{reverse('admin:people')}#invite" in text_of(browser(ada_user), "palette", q="invite")


def options(page: str) -> list[tuple[str, str]]:
    """Return the key and the label of each option, in the order of the page."""
    found = re.findall(
        r'<a role="option"[^>]*?data-key="([^"]*)"[^>]*><span class="label" dir="auto">(.*?)</span>', page
    )
    return [(html.unescape(key), html.unescape(label)) for key, label in found]


def test_the_best_match_comes_first_whatever_its_kind(alice: Caller, alice_user: User) -> None:
    services.remember(alice, Remember(content="The stale orders of a memo are left out."))
    Persona.objects.filter(name="sales").update(title="Orders and more")
    create_entities(alice, CreateEntities(entities=[{"name": "Orders to check"}]))
    client = browser(alice_user)
    client.post(reverse("save-view"), {"name": "Late orders", "page": "my-knowledge", "back_to": "/?tag=late"})
    found = options(text_of(client, "palette", q="orders"))
    kinds = [key.partition(":")[0] for key, _ in found]
    assert found[0] == (f"entity:{ORDERS}", "sales.orders")
    assert set(kinds) >= {"entity", "persona", "view", "node", "memory"}
    assert kinds.index("view") < kinds.index("memory")
    assert options(text_of(client, "palette", q="stale mem"))[0][1] == "Stale memories"
    assert options(text_of(client, "palette", q="sm"))[0][1] == "Stale memories"
    assert options(text_of(client, "palette", q="dark"))[0][1] == "Switch theme"


def test_pages_of_the_navigation_are_in_the_palette(ada_user: User) -> None:
    client = browser(ada_user)
    navigation = text_of(client, "activity").partition('<nav aria-label="Main">')[2].partition("</nav>")[0]
    addresses = set(re.findall('<a href="([^"]+)"', navigation))
    offered = {match.link for match in destinations.allowed(caller_of(ada_user), is_staff=True)}
    assert len(addresses) > 10
    assert addresses - offered == set()


def caller_of(user: User) -> Caller:
    return build_caller(user, channel="portal")


def test_what_was_chosen_for_the_same_letters_comes_first(alice: Caller, alice_user: User) -> None:
    client = browser(alice_user)
    record = services.remember(alice, Remember(content="Orders close at night.")).record
    chosen = client.get(reverse("palette"), {"q": "orders", "chosen": [f"memory:{record.pk}", "page:news"]})
    keys = [key for key, _ in options(" ".join(chosen.content.decode().split()))]
    assert keys[:3] == [f"memory:{record.pk}", "page:news", f"entity:{ORDERS}"]
    assert len(keys) == len(set(keys))


def test_recent_items_are_only_those_that_may_still_be_read(
    alice: Caller, alice_user: User, bob_user: User, ada_user: User
) -> None:
    secret = services.remember(alice, Remember(content="A private fact.", visibility="private")).record
    create_entities(alice, CreateEntities(entities=[{"name": "Private node"}]))
    node = Entity.objects.get()
    keys = [
        f"memory:{secret.pk}", f"node:{node.pk}", f"entity:{ORDERS}", "page:admin:people", "memory:nonsense", "x",
        "memory:\x00", "entity:" + "x" * 5_000, "person:9999999999999999999999", f"person:{ada_user.pk}",
    ]  # fmt: skip
    for user, kinds in ((alice_user, ["memory", "node", "entity"]), (bob_user, ["entity"])):
        response = browser(user).get(reverse("palette"), {"recent": keys})
        assert response.status_code == 200
        page = " ".join(response.content.decode().split())
        recent = page.partition("Pages and actions")[0]
        assert [key.partition(":")[0] for key, _ in options(recent)] == kinds
        assert ("A private fact" in page) == (user == alice_user)


def test_the_palette_is_scoped_and_shows_hostile_names_as_text(
    alice: Caller, alice_user: User, bob_user: User, ada_user: User
) -> None:
    hostile = '"><img src=x onerror=alert(1)> orders'
    create_entities(alice, CreateEntities(entities=[{"name": hostile}]))
    capture(alice, Capture(insight_text="Insights about orders are private.", category="correction"))
    store_turns(alice, "A long text about the orders of the day.", conversation="talk about orders")
    mine = text_of(browser(alice_user), "palette", q="orders")
    assert "<img" not in mine
    assert {"node", "insight", "conversation"} <= {key.partition(":")[0] for key, _ in options(mine)}
    (key,) = [key for key, _ in options(mine) if key.startswith("conversation:")]
    assert "talk" not in key  # browsers store keys
    for user, is_found in ((alice_user, True), (bob_user, False)):
        recent = browser(user).get(reverse("palette"), {"recent": key}).content.decode()
        assert ("talk about orders" in recent) == is_found
    theirs = text_of(browser(bob_user), "palette", q="orders")
    assert {"node", "insight", "conversation"} & {key.partition(":")[0] for key, _ in options(theirs)} == set()
    assert "talk about orders" not in text_of(browser(ada_user), "palette", q="talk about")


@pytest.mark.parametrize("q", ["%", "_", "\\", "'", "a" * 5_000, "orders " * 40, "\x00", "💥", "(", "urn:li:"])
def test_any_text_can_be_typed(alice_user: User, q: str) -> None:
    assert browser(alice_user).get(reverse("palette"), {"q": q}).status_code == 200


def test_the_palette_has_at_most_12_queries(
    alice: Caller, ada: Caller, ada_user: User, alice_user: User, django_assert_max_num_queries: Any
) -> None:
    for n in range(6):
        services.remember(alice, Remember(content=f"Orders of day {n} close at night."))
        capture(alice, Capture(insight_text=f"Insight {n} about orders.", category="correction"))
        create_entities(alice, CreateEntities(entities=[{"name": f"Orders {n}"}]))
    store_turns(alice, "A long text about the orders of the day.", conversation="talk about orders")
    keys = [
        f"entity:{ORDERS}",
        f"person:{alice_user.pk}",
        "page:news",
        *(f"memory:{r.pk}" for r in MemoryRecord.objects.all()[:3]),
    ]
    for user in (alice_user, ada_user):
        client = browser(user)
        for params in ({"q": "orders", "chosen": keys}, {"q": "or"}, {"recent": keys}):
            client.get(reverse("palette"), params)
            with django_assert_max_num_queries(12):
                client.get(reverse("palette"), params)


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [
        ("orders", "orders", "my orders"),
        ("orders", "sales.orders", "orders of the web shop"),
        ("ord", "orders", "sales orders"),
        ("sales ord", "sales orders", "orders of sales are ordered"),
        ("new mem", "New memory", "A memory about a new member of the team"),
        ("order", "An order", "border"),
    ],
)
def test_scores_compare_matches(name: str, better: str, worse: str) -> None:
    assert score(better, name) > score(worse, name) > 0


# -- saved views ---------------------------------------------------------------------------------------------


def test_a_saved_view_is_in_the_navigation_with_its_count(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    for number in range(3):
        services.remember(alice, Remember(content=f"Correction number {number} of all.", category="correction"))
    client = browser(bob_user)
    back = reverse("my-knowledge") + "?category=correction&after=x"
    client.post(reverse("save-view"), {"name": "Our <corrections>", "page": "my-knowledge", "back_to": back})
    view = SavedView.objects.get()
    assert view.query == "category=correction"
    page = text_of(client, "my-knowledge")
    assert '<span>Our &lt;corrections&gt;</span> <span class="count">3</span>' in page
    assert "Our &lt;corrections" not in text_of(client, "activity")
    assert "Our &lt;corrections" not in text_of(browser(olga_user), "my-knowledge")
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
    capture(alice, Capture(insight_text="Tills close at ten.", category="correction"))
    for user, count in ((bob_user, 0), (cora_user, 1)):
        form = {"name": "Queue", "page": "review-list", "back_to": reverse("review-list") + "?category=correction"}
        client = browser(user)
        client.post(reverse("save-view"), form)
        assert f'<span class="count">{count}</span>' in text_of(client, "saved-views").partition("Queue")[2]


def test_the_navigation_counts_up_to_a_limit_and_only_what_the_caller_may_read(
    alice: Caller, cora_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (10, 11, 12):
        capture(alice, Capture(insight_text=f"Tills close at {number}.", category="correction"))
    client = browser(cora_user)
    assert '<span class="count">3</span>' in text_of(client, "review-list")
    monkeypatch.setattr(queries, "MAX_BADGE", 2)
    monkeypatch.setattr(queue, "MAX_OTHER", 2)
    page = text_of(client, "review-list")
    assert '<span>Review</span><span class="count">2+</span>' in page
    assert '<span class="count">3</span>' in page  # the list that is shown is counted
    elsewhere = client.get(reverse("review-list"), {"state": "rejected"}).content.decode()
    assert '<span class="count">2+</span>' in elsewhere.partition("<h1>")[2]
    outsider = person("olaf@example.org")
    assert ">2+<" not in text_of(browser(outsider), "activity")


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

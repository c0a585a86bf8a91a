"""The graph page and the conversation pages: access, sharing and hostile names."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from knowledge.graph.entities import create_entities, delete_entities
from knowledge.graph.models import Entity, Graph
from knowledge.graph.operations import CreateEntities, CreateRelations, DeleteEntities
from knowledge.graph.relations import create_relations
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memory_project.models import User
from tests.knowledge.conftest import ORDERS
from tests.memories.conversation.conftest import LONG, long_term_memory, store_turns

pytestmark = pytest.mark.django_db
HOSTILE = '<script>alert(1)</script>"&'


def page(user: User, **params: Any) -> str:
    client = Client()
    client.force_login(user)
    response = client.get(reverse("graph"), params)
    assert response.status_code == 200
    return response.content.decode()


@pytest.fixture
def web(alice: Caller) -> None:
    names = ["Report", "Orders", "Tills", HOSTILE]
    create_entities(
        CreateEntities(entities=[{"name": name, "observations": [f"about {name}"]} for name in names]), caller=alice
    )
    pairs = [("Report", "Orders"), ("Tills", "Orders"), ("Tills", HOSTILE)]
    create_relations(
        CreateRelations(relations=[{"from": a, "to": b, "relationType": "uses"} for a, b in pairs]), caller=alice
    )


def number(name: str) -> int:
    return Entity.objects.get(name=name).number


def test_an_empty_page_explains_what_to_do(alice_user: User) -> None:
    assert "No graph yet" in page(alice_user)


@pytest.mark.usefixtures("web")
def test_only_its_owner_shares_a_graph(alice_user: User, bob_user: User) -> None:
    graph, browsers = Graph.objects.get(), {user: Client() for user in (alice_user, bob_user)}
    for user, client in browsers.items():
        client.force_login(user)
    address = reverse("share-graph", args=[graph.pk])
    assert browsers[bob_user].post(address, {"visibility": "everyone"}).status_code == 404
    assert "about Report" not in page(bob_user, node=number("Report"))
    assert browsers[alice_user].post(address, {"visibility": "nobody"}).status_code == 400
    browsers[alice_user].post(address, {"visibility": "everyone"})
    assert "about Report" in page(bob_user, node=number("Report"))
    assert "Who can see this graph" not in page(bob_user)
    assert browsers[bob_user].post(address, {"visibility": "private"}).status_code == 403


@pytest.mark.usefixtures("web")
def test_a_time_before_the_first_entity_shows_an_empty_graph(alice_user: User) -> None:
    for ago in ("30", "999999999"):  # the second is before the earliest possible date
        assert "This graph was empty then" in page(alice_user, ago=ago)


@pytest.mark.usefixtures("web")
def test_an_entity_is_shown_with_its_neighbors_and_can_be_expanded(alice_user: User) -> None:
    html = page(alice_user, node=number("Report"))
    assert "about Report" in html
    assert html.count('class="node ') == 2  # Report and Orders
    html = page(alice_user, node=number("Report"), expanded=f"{number('Orders')},{number('Tills')}")
    assert html.count('class="node ') == 4
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.usefixtures("web")
def test_only_its_owner_and_admins_see_a_private_graph(alice_user: User, bob_user: User, ada_user: User) -> None:
    graph = Graph.objects.get()
    assert "No graph yet" in page(bob_user, graph=graph.pk.hex, node=number("Report"))
    assert "Report" in page(ada_user, graph=graph.pk.hex)
    Graph.objects.update(visibility="everyone")
    assert "about Report" in page(bob_user, graph=graph.pk.hex, node=number("Report"))


@pytest.mark.usefixtures("web")
def test_the_page_is_searched_and_shows_earlier_states(alice_user: User, alice: Caller) -> None:
    assert "Tills" in page(alice_user, q="about till")
    assert "No results for" in page(alice_user, q="zeppelin")
    Graph.objects.update(created_at=timezone.now() - timedelta(days=9))
    Entity.objects.update(created_at=timezone.now() - timedelta(days=9))
    delete_entities(DeleteEntities(entityNames=["Tills"]), caller=alice)
    assert "Tills" not in page(alice_user)
    assert "Tills" in page(alice_user, ago=3)


@pytest.mark.parametrize(
    "params", [{"node": "x"}, {"node": "999999999999"}, {"expanded": "1,,x,-3"}, {"ago": "9" * 30}]
)
@pytest.mark.usefixtures("web")
def test_an_invalid_address_shows_the_overview(alice_user: User, params: dict[str, str]) -> None:
    assert "Overview" in page(alice_user, **params)


@pytest.mark.usefixtures("small_catalog")
def test_the_page_of_a_catalog_entity_links_its_nodes(alice: Caller, alice_user: User, bob_user: User) -> None:
    create_entities(CreateEntities(entities=[{"name": "The orders", "urn": ORDERS}]), caller=alice)
    browser, outsider = Client(), Client()
    browser.force_login(alice_user)
    outsider.force_login(bob_user)
    assert "The orders" in browser.get(reverse("entity"), {"urn": ORDERS}).content.decode()
    assert "The orders" not in outsider.get(reverse("entity"), {"urn": ORDERS}).content.decode()


# -- conversations ------------------------------------------------------------------------------------------


def test_only_its_owner_sees_a_conversation(alice: Caller, alice_user: User, bob_user: User) -> None:
    (turn,) = store_turns(alice, LONG, conversation=HOSTILE)
    browser, outsider = Client(), Client()
    browser.force_login(alice_user)
    outsider.force_login(bob_user)
    listing = browser.get(reverse("conversations")).content.decode()
    assert "&lt;script&gt;" in listing
    assert "<script>alert" not in listing
    address = {"id": HOSTILE}
    html = browser.get(reverse("conversation"), address).content.decode()
    assert LONG in html
    assert "long-term" in html
    assert outsider.get(reverse("conversation"), address).status_code == 404
    assert "No conversations yet" in outsider.get(reverse("conversations")).content.decode()
    forget = reverse("forget-turn", args=[turn.pk])
    outsider.post(forget, {"conversation": HOSTILE})
    assert MemoryRecord.objects.filter(status="active").count() == 2
    browser.post(forget, {"conversation": HOSTILE})
    assert MemoryRecord.objects.filter(status="active").count() == 0
    assert long_term_memory(turn).purge_after is not None


def test_my_knowledge_separates_facts_and_conversations(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    store_turns(alice, LONG)
    client = Client()
    client.force_login(alice_user)
    facts = client.get("/").content.decode()
    conversations = client.get("/", {"kind": "conversation"}).content.decode()
    assert (fact.content in facts, LONG in facts) == (True, False)
    assert (fact.content in conversations, LONG in conversations) == (False, True)

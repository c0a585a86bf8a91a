"""The graph page and the conversation pages: access, sharing and hostile names."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from foundation.people.caller import Caller
from knowledge.graph import drawing
from knowledge.graph.clusters import MAX_CHILDREN, paths_of
from knowledge.graph.entities import create_entities, delete_entities
from knowledge.graph.models import Entity, Graph, Relation
from knowledge.graph.operations import CreateEntities, CreateRelations, DeleteEntities
from knowledge.graph.relations import create_relations
from memories.models import MemoryRecord
from memory_project.models import User
from memory_project.portal import graph_scene
from memory_project.portal.graph_layout import Box, spread_out
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
        alice, CreateEntities(entities=[{"name": name, "observations": [f"about {name}"]} for name in names])
    )
    pairs = [("Report", "Orders"), ("Tills", "Orders"), ("Tills", HOSTILE)]
    create_relations(alice, CreateRelations(relations=[{"from": a, "to": b, "relationType": "uses"} for a, b in pairs]))


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
    assert "Readers of this graph" not in page(bob_user)
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
    delete_entities(alice, DeleteEntities(entityNames=["Tills"]))
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
    create_entities(alice, CreateEntities(entities=[{"name": "The orders", "urn": ORDERS}]))
    browser, outsider = Client(), Client()
    browser.force_login(alice_user)
    outsider.force_login(bob_user)
    assert "The orders" in browser.get(reverse("entity"), {"urn": ORDERS}).content.decode()
    assert "The orders" not in outsider.get(reverse("entity"), {"urn": ORDERS}).content.decode()


# -- large graphs --------------------------------------------------------------------------------------------


def put_large(alice: Caller, count: int = 300) -> Graph:
    """Create a graph whose first entity is a hub, and whose others are related to the next two."""
    create_entities(alice, CreateEntities(entities=[{"name": HOSTILE}]))
    graph = Graph.objects.get()
    hub = Entity.objects.get()
    rows = [
        Entity(graph=graph, number=n, name=f"{HOSTILE} {n}", entity_type=("Table", "Report")[n % 2])
        for n in range(10, 10 + count)
    ]
    Entity.objects.bulk_create(rows)
    pairs = [(hub, row) for row in rows[:100]]
    pairs += [(row, rows[n + step]) for n, row in enumerate(rows) for step in (1, 2) if n + step < count]
    Relation.objects.bulk_create(
        Relation(graph=graph, number=20_000 + n, source=source, target=target, relation_type="uses")
        for n, (source, target) in enumerate(pairs)
    )
    graph.last_number = 90_000
    graph.save()
    return graph


def test_a_large_graph_is_drawn_as_clusters_that_lead_to_every_entity(alice: Caller, alice_user: User) -> None:
    put_large(alice)
    waiting, opened, found = [reverse("graph")], set(), set()
    while waiting:
        address = waiting.pop()
        if address in opened:
            continue
        opened.add(address)
        html = page(alice_user, **dict(parse_qsl(address.partition("?")[2])))
        assert "<script>alert" not in html
        assert html.count('class="node ') <= MAX_CHILDREN + graph_scene.MAX_OUTSIDE
        links = [unescape(link) for link in re.findall(r'<a href="([^"]+)" data-x', html)]
        waiting += [link for link in links if "cluster=" in link]
        found |= {int(number) for number in re.findall(r"[?&]node=(\d+)", " ".join(links))}
    assert found == set(Entity.objects.values_list("number", flat=True))


def test_a_cluster_of_a_deleted_entity_shows_the_whole_graph(alice: Caller, alice_user: User) -> None:
    put_large(alice)
    assert "Overview" in page(alice_user, cluster="77777", depth="2")
    assert "Overview" in page(alice_user, cluster="x", depth="-1")
    assert "Cluster" in page(alice_user, cluster="10", depth="999999")


def test_the_neighbors_of_a_hub_are_limited_and_the_others_counted(alice: Caller, alice_user: User) -> None:
    put_large(alice)
    html = page(alice_user, node=1)
    assert html.count('class="node ') <= drawing.MAX_DRAWN + 1
    assert "It has 100 neighbors." in html


def test_the_graph_is_filtered_by_type(alice: Caller, alice_user: User, web: None) -> None:
    create_entities(alice, CreateEntities(entities=[{"name": "Ghent", "entityType": HOSTILE}]))
    html = page(alice_user, type=HOSTILE)
    assert html.count('class="node ') == 1
    assert "<script>alert" not in html
    assert "No entities of this type" in page(alice_user, type="none")
    assert page(alice_user, node=number("Report"), type="none").count('class="node ') == 1


def test_an_entity_beyond_the_newest_ones_is_drawn_with_its_neighbors(
    alice: Caller, alice_user: User, web: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "MAX_LOADED", 1)
    assert "The picture contains the newest entity." in page(alice_user)
    assert page(alice_user, node=number("Orders")).count('class="node ') == 3


def test_long_names_are_shortened(alice: Caller, alice_user: User) -> None:
    create_entities(alice, CreateEntities(entities=[{"name": f"{n} {'x' * 4_000}"} for n in range(9)]))
    assert len(page(alice_user)) < 60_000


def test_a_search_centers_the_entity_that_it_finds(alice_user: User, web: None) -> None:
    assert "Report and its neighbors" in page(alice_user, q="report")
    assert "Tills and its neighbors" in page(alice_user, q="about till")
    assert "Overview" in page(alice_user, q="about")


def test_the_structure_is_cached_without_names_until_the_graph_changes(alice: Caller, alice_user: User) -> None:
    put_large(alice)
    page(alice_user)
    with CaptureQueriesContext(connection) as queries:
        page(alice_user)
    assert not any("graph_relations" in query["sql"] for query in queries.captured_queries)
    Entity.objects.filter(number=10).update(name="Renamed meanwhile")
    assert "Renamed meanwhile" in page(alice_user, cluster=10, depth=9)
    create_entities(alice, CreateEntities(entities=[{"name": "Brand-new"}]))
    number_of_new = number("Brand-new")
    graph = Graph.objects.get()
    assert number_of_new in drawing.structure_of(graph, drawing.contents_of(graph, None)).paths


def test_the_graph_page_has_at_most_12_queries(
    alice: Caller, alice_user: User, django_assert_max_num_queries: Any
) -> None:
    put_large(alice)
    Entity.objects.update(urn=ORDERS)
    client = Client()
    client.force_login(alice_user)
    addresses: list[dict[str, Any]] = [
        {}, {"cluster": 10, "depth": 1}, {"node": 1}, {"node": 10, "expanded": "11,12"}, {"q": "script"},
        {"node": 1, "type": "Table"}, {"type": "Table"},
    ]  # fmt: skip
    for params in addresses:
        client.get(reverse("graph"), params)
        caches["process"].clear()
        with django_assert_max_num_queries(12):
            client.get(reverse("graph"), params)


def test_numbers_of_the_picture_have_a_point_in_every_language(alice_user: User, web: None) -> None:
    client = Client(headers={"accept-language": "de"})
    client.force_login(alice_user)
    html = client.get(reverse("graph")).content.decode()
    assert re.search(r' cx="-?\d+\.\d"', html)
    assert not re.search(r' (?:cx|cy|x1|stroke-width|data-x)="[^"]*,', html)


GRAPHS: dict[str, tuple[int, list[tuple[int, int]]]] = {
    "empty": (0, []),
    "one": (1, [(0, 0)]),
    "unrelated": (1_000, []),
    "star": (1_000, [(0, n) for n in range(1, 1_000)]),
    "chain": (1_000, [(n, n + 1) for n in range(999)]),
    "complete": (100, [(a, b) for a in range(100) for b in range(100)]),
    "limit": (MAX_CHILDREN + 1, [(0, 1), (1, 2)]),
    "mixed": (1_500, [(n, n * n % 1_500) for n in range(1_500)] + [(n, n // 30 * 30) for n in range(1_500)]),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_clusters_are_small_distinct_and_deterministic(name: str) -> None:
    count, edges = GRAPHS[name]
    numbers = [7 + 3 * n for n in range(count)]
    pairs = [(7 + 3 * a, 7 + 3 * b) for a, b in edges]
    paths = paths_of(numbers, pairs)
    assert list(paths) == numbers
    assert len(set(paths.values())) == count
    assert paths == paths_of(numbers, pairs)
    children: dict[tuple[int, ...], set[int]] = {}
    for path in paths.values():
        for depth, child in enumerate(path):
            children.setdefault(path[:depth], set()).add(child)
    assert all(len(inside) <= MAX_CHILDREN for inside in children.values())
    assert not set(paths.values()) & set(children)  # an entity is no cluster


def test_related_entities_share_a_cluster() -> None:
    circles = [
        (start + n, start + (n + step) % 20) for start in range(0, 200, 20) for n in range(20) for step in (1, 2)
    ]
    paths = paths_of(range(200), circles)
    together = sum(paths[a][:-1] == paths[b][:-1] for a, b in circles)
    assert together > 0.9 * len(circles)


@pytest.mark.parametrize("count", [0, 1, 2, 40, 120])
def test_no_two_names_of_a_picture_overlap(count: int) -> None:
    boxes = [Box(30 + 17 * (n % 9), 60 if n % 5 else 110) for n in range(count)]
    edges = [(n, n // 4) for n in range(1, count)]
    points = spread_out(boxes, edges)
    assert points == spread_out(boxes, edges)
    for n, (x, y) in enumerate(points):
        for m, (other_x, other_y) in enumerate(points[:n]):
            across = (boxes[n].width + boxes[m].width) / 2 - abs(x - other_x)
            down = (boxes[n].height + boxes[m].height) / 2 - abs(y - other_y)
            assert min(across, down) <= 0.2, (n, m)


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
    assert "kept as a memory" in html
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

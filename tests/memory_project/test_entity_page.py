"""The page of a catalog entity: its tabs, their queries, and what is shown when the catalog can't be read."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from foundation.people.caller import Caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.catalog.interface import CatalogUnavailable
from knowledge.graph.entities import create_entities
from knowledge.graph.operations import CreateEntities
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import services
from memories.operations import Remember, Supersede
from memory_project.models import User
from memory_project.portal.views.entity import COLUMNS_SHOWN, TABS
from tests.knowledge.conftest import MART, ORDERS, column, put, schema_of
from tests.pages import browser

pytestmark = pytest.mark.usefixtures("small_catalog")
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def page(client: Client, tab: str, urn: str = ORDERS, *, htmx: bool = False, start: int = 0, **params: str) -> str:
    headers = {"HX-Request": "true"} if htmx else {}
    query: dict[str, Any] = {"urn": urn, "tab": tab, "from": start, **params}
    response = client.get(reverse("entity"), query, headers=headers)
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


def remember(caller: Caller, text: str) -> Any:
    return services.remember(caller, Remember(content=text, entity_urns=[ORDERS])).record


def add_rows(alice: Caller, word: str) -> None:
    for n in range(4):
        first = remember(alice, f"Fact {word} {n} about the orders of a day.")
        correction = Supersede(record_id=first.pk, content=f"Corrected {word} {n}.", entity_urns=[ORDERS])
        services.supersede(alice, correction)
        insight = Capture(insight_text=f"Insight {word} {n} on orders.", category="correction", entity_urns=[ORDERS])
        capture(alice, insight)
        LocalCatalog().put(ORDERS, "datasetProperties", {"name": "orders", "description": f"{word} {n}"}, {})
        create_entities(alice, CreateEntities(entities=[{"name": f"Orders {word} {n}", "urn": ORDERS}]))


def test_each_tab_has_at_most_12_queries_however_many_rows_there_are(alice: Caller, alice_user: User) -> None:
    client = browser(alice_user)
    put(ORDERS, "schemaMetadata", schema_of("sales.orders", [column(f"c{n}") for n in range(80)]))
    counts: dict[str, list[int]] = {tab: [] for tab in TABS}
    for word in ("first", "second"):
        add_rows(alice, word)
        for tab in TABS:
            with CaptureQueriesContext(connection) as queries:
                page(client, tab)
            counts[tab].append(len(queries))
    for tab, (few, many) in counts.items():
        assert many <= few <= 12, (tab, few, many)


def test_a_memory_is_only_on_the_tabs_of_memories_and_history(alice: Caller, alice_user: User) -> None:
    remember(alice, "Orders of test stores are left out.")
    client = browser(alice_user)
    counts = {tab: page(client, tab).count("Orders of test stores") for tab in TABS}
    assert counts == {"about": 0, "columns": 0, "memories": 1, "lineage": 0, "history": 1}
    assert "sent to your agents" in page(client, "memories")


def test_a_request_of_htmx_gets_only_the_tab(alice_user: User) -> None:
    fragment = page(browser(alice_user), "lineage", htmx=True)
    assert "<html" not in fragment
    assert 'id="tab-lineage"' in fragment
    assert "sales.mart" in fragment


def test_an_unknown_tab_shows_the_first_one(alice_user: User) -> None:
    assert "Table sales.orders." in page(browser(alice_user), "nothing")


def test_columns_are_searched_and_paged(alice_user: User) -> None:
    fields = [column(f"{HOSTILE}{n}") for n in range(COLUMNS_SHOWN + 5)]
    put(ORDERS, "schemaMetadata", schema_of("sales.orders", [*fields, column("zip_code")]))
    client = browser(alice_user)
    first = page(client, "columns")
    assert f"{COLUMNS_SHOWN + 6} columns" in first
    assert "zip_code" not in first
    assert "<img" not in first
    assert "⟦U+202E⟧" in first
    assert "zip_code" in page(client, "columns", start=COLUMNS_SHOWN)
    found = page(client, "columns", column="ZIP varchar")
    assert "1 column matches" in found
    assert "zip_code" in found
    assert "0 columns match “zeppelin”" in page(client, "columns", column="zeppelin")
    assert "zip_code" not in page(client, "columns", start=999_999_999)  # beyond the last column: the first page


def test_the_history_is_filtered_by_kind_and_can_be_continued(alice: Caller, alice_user: User) -> None:
    first = remember(alice, "Orders are loaded at ten.")
    services.supersede(
        alice, Supersede(record_id=first.pk, content="Orders are loaded at eleven.", entity_urns=[ORDERS])
    )
    put(ORDERS, "globalTags", {"tags": []})
    put(ORDERS, "globalTags", {"tags": [{"tag": "urn:li:tag:pii"}]})
    client = browser(alice_user)
    everything = page(client, "history")
    for text in ("Memory added", "Memory corrected", "Catalog changed", "The tags were changed", "Alice Arden"):
        assert text in everything
    claims = page(client, "history", kind="claims")
    assert ("Memory added" in claims, "Memory corrected" in claims) == (True, False)
    corrections = page(client, "history", kind="corrections")
    assert ("Memory added" in corrections, "Memory corrected" in corrections) == (False, True)
    assert "Memory added" not in page(client, "history", kind="catalog")
    assert "No events of this kind" in page(client, "history", kind="changesets")
    assert page(client, "history", events="1").count("<time") == 1
    assert "events=51" in page(client, "history", events="1")


def test_owners_terms_and_domains_are_links_with_names(alice_user: User) -> None:
    put(ORDERS, "glossaryTerms", {"terms": [{"urn": "urn:li:glossaryTerm:net"}]})
    about = page(browser(alice_user), "about")
    assert f'href="{reverse("entity")}?urn=urn%3Ali%3AglossaryTerm%3Anet">Net revenue</a>' in about
    assert f'href="{reverse("entity")}?urn=urn%3Ali%3Acorpuser%3Amaya%40example.org"' in about


def test_without_the_catalog_memories_and_history_are_still_shown(
    alice: Caller, alice_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(alice, "Orders of test stores are left out.")

    def away(*_: Any, **__: Any) -> Any:
        raise CatalogUnavailable("DataHub did not respond")

    monkeypatch.setattr(LocalCatalog, "read", away)
    client = browser(alice_user)
    for tab in TABS:
        assert "DataHub did not respond" in page(client, tab)
    assert "Orders of test stores" in page(client, "memories")
    assert "Orders of test stores" in page(client, "history")


def test_other_people_see_neither_private_memories_nor_their_number(
    alice: Caller, alice_user: User, bob_user: User
) -> None:
    services.remember(
        alice, Remember(content="A private fact about orders.", entity_urns=[ORDERS], visibility="private")
    )
    for user, count in ((alice_user, "1"), (bob_user, "0")):
        for tab in TABS:
            html = page(browser(user), tab)
            assert f'<span class="count">{count}</span>' in html.partition('id="tab-memories"')[2].partition("</a>")[0]
            assert ("A private fact" in html) == (user == alice_user and tab in ("memories", "history"))
    assert "sales.orders" in page(browser(bob_user), "lineage", MART)

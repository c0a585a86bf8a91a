"""Facts that several pages and answers show, which must not contradict each other."""

from __future__ import annotations

import io
import re
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client

from foundation.people.caller import Caller
from knowledge.news.timeline import entity_timeline, memory_counts
from memories import services
from memories.mcp_tools import memory_manage
from memories.operations import Remember
from memory_project.exchange.imports.formats import FORMATS
from memory_project.models import User
from tests.knowledge.conftest import MART, fill_catalog, put

pytestmark = pytest.mark.django_db


@pytest.fixture
def catalog(db: None) -> None:
    fill_catalog()


def page(user: User, address: str) -> str:
    browser = Client()
    browser.force_login(user)
    return browser.get(address).content.decode()


def test_a_memory_whose_text_names_one_entity_is_not_asked_about(
    alice: Caller, alice_user: User, catalog: None
) -> None:
    answer = memory_manage(alice, "remember", content="Loads of sales.mart are late on Tuesdays.")
    assert [found["urn"] for found in answer["detected"]] == [MART]
    assert not {"settle", "entity_candidates"} & answer.keys()
    assert "unsettled" not in memory_manage(alice, "get", id=answer["id"])
    assert "What is it about?" not in page(alice_user, f"/memories/{answer['id']}/")


def test_a_memory_that_names_two_entities_is_asked_about_in_these_words(alice: Caller, catalog: None) -> None:
    answer = memory_manage(alice, "remember", content="Loads of sales.mart come after those of sales.orders.")
    assert len(answer["detected"]) == 2
    assert answer["settle"].startswith("it names several entities: call memory_manage settle")


def test_all_counts_of_an_entity_s_memories_are_the_same(alice: Caller, alice_user: User, catalog: None) -> None:
    services.remember(alice, Remember(content="It is rebuilt at night.", entity_urns=[MART]))
    services.remember(alice, Remember(content="Loads of sales.mart are late on Tuesdays."))
    assert memory_counts(alice, [MART]) == {MART: (2, 0)}
    assert sum(event.kind == "claim" for event in entity_timeline(alice, MART, 10)) == 2
    shown = page(alice_user, f"/knowledge/entity/?urn={MART}&tab=lineage")
    assert set(re.findall(r"(\d+) memor", shown)) == {"0", "2"}  # those of its neighbors, too


def test_the_week_names_the_stale_memories_beside_nothing_to_verify(
    alice: Caller, ada: Caller, alice_user: User
) -> None:
    assert "Nothing else to verify" in page(alice_user, "/week/")
    record = services.remember(alice, Remember(content="The mart is rebuilt every night.")).record
    services.mark_stale(ada, record_id=record.pk, reason="orders was deprecated")
    assert "1 stale memory waits in the inbox." in page(alice_user, "/week/")


def test_the_example_of_the_import_page_is_accepted(alice: Caller, alice_user: User) -> None:
    example = re.search(r'<pre class="paste"[^>]*>(.*?)</pre>', page(alice_user, "/memories/import/"), re.DOTALL)
    assert example
    rows = list(FORMATS["csv"].read(io.BytesIO(unescape(example[1]).encode()), "facts.csv"))
    assert len(rows) == 2
    for row in rows:  # without an entity, which the catalog may lack
        assert (row.problem, row.data.get("entity_urns", [])) == ("", [])
        services.remember(alice, Remember.read({name: row.data[name] for name in ("content", "category")}))


def test_a_term_that_was_created_here_is_shown_by_its_name(alice: Caller, alice_user: User, catalog: None) -> None:
    urn = f"urn:li:glossaryTerm:{uuid4()}"
    put(urn, "glossaryTermInfo", {"name": "Gross margin", "definition": "Before tax.", "termSource": "INTERNAL"})
    fact = Remember(content="It is weighted by volume since May.", entity_urns=[urn])
    shown = page(alice_user, f"/memories/{services.remember(alice, fact).record.pk}/")
    assert ">Gross margin</a>" in shown
    assert f">{urn.rpartition(':')[2]}</a>" not in shown

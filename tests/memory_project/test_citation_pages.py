"""The doors to documents that cite memories: pages, REST and memory_feedback."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from foundation.links import url_for
from foundation.operations.errors import Invalid, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.mcp_tools import memory_feedback
from memories.models import CitingDocument, MemoryRecord, Report
from memories.operations import Share, Supersede
from memories.use.citations import queries
from memories.use.citations.operations import Cite
from memories.use.citations.services import cite
from memory_project.models import Notification, User
from memory_project.notifications import lists
from tests.rest_client import client, post

pytestmark = pytest.mark.django_db
API = "/api/v1/citations/"
ADDRESS = "https://docs.example.org/margins"
HOSTILE = "<script>alert(1)</script> Margins"
CORRECTED = "Revenue in the sales mart excludes refunds and gift cards."


@pytest.fixture
def browser(bob_user: User) -> Client:
    found = Client()
    found.force_login(bob_user)
    return found


def registered(sender: Client, fact: MemoryRecord, **values: Any) -> CitingDocument:
    """Register a document in the browser, and return it."""
    text = f"Sales: commonplace://memory/{fact.pk.hex} and commonplace://memory/{'0' * 32}"
    body = {"address": ADDRESS, "title": HOSTILE, "text": text, **values}
    response = sender.post(reverse("citations"), body, follow=True)
    assert response.status_code == 200, response.content
    assert "1 added, 0 kept, 0 removed" in response.content.decode()
    assert "1 address was not found" in response.content.decode()
    return CitingDocument.objects.get(created_by="bob@example.org")


def test_a_document_is_registered_read_and_acknowledged_in_the_browser(
    browser: Client, alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    document = registered(browser, fact)
    services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED))
    group = lists.group_page(bob).groups[0]
    assert group.sentence == "Alice Arden changed memories that a document of yours cites"
    assert group.notices[0].text == f"{HOSTILE}: 1 memory that it cites has changed"
    assert group.notices[0].link == reverse("citing-document", args=[document.pk])
    page = browser.get(group.notices[0].link).content.decode()
    assert "<script>alert" not in page
    assert f'href="{ADDRESS}"' in page
    assert "gift cards" in page
    assert "Corrected" in page
    until = queries.last_change(bob, document, queries.cited_by(bob, document))
    assert until is not None
    acknowledged = reverse("change-citing", args=[document.pk, "acknowledge"])
    browser.post(acknowledged, {"until": until.isoformat()})
    assert not Notification.objects.filter(kind="cited").exists()
    assert "1 change" not in browser.get(reverse("citations")).content.decode()
    browser.post(reverse("change-citing", args=[document.pk, "remove"]))
    assert CitingDocument.objects.exists()  # the box was not ticked
    browser.post(reverse("change-citing", args=[document.pk, "remove"]), {"confirm": "yes"})
    assert not CitingDocument.objects.exists()


def test_bad_input_is_shown_beside_what_was_typed(browser: Client, fact: MemoryRecord) -> None:
    response = browser.post(reverse("citations"), {"address": "ftp://x", "title": "T", "text": "kept text"})
    assert response.status_code == 400
    assert "kept text" in response.content.decode()
    assert not CitingDocument.objects.exists()


def test_an_outsider_reaches_no_document_by_any_door(
    browser: Client, bob_user: User, olga_user: User, alice_user: User, fact: MemoryRecord
) -> None:
    document = registered(browser, fact)
    for user in (olga_user, alice_user):
        other, program = Client(), client(user)
        other.force_login(user)
        assert HOSTILE[-7:] not in other.get(reverse("citations")).content.decode().replace(ADDRESS, "")
        assert other.get(reverse("citing-document", args=[document.pk])).status_code == 404
        other.post(reverse("change-citing", args=[document.pk, "remove"]), {"confirm": "yes"})
        assert program.get(API).json()["items"] == []
        one = f"{API}{document.pk.hex}/"
        assert program.get(one).status_code == 404
        assert program.patch(one, {"title": "Mine"}, "application/json").status_code == 404
        assert program.delete(one).status_code == 404
    document.refresh_from_db()
    assert document.title == HOSTILE


def test_the_page_of_a_memory_tells_its_owner_a_number_and_readers_what_is_shared(
    browser: Client, alice_user: User, olga_user: User, alice: Caller, fact: MemoryRecord
) -> None:
    document = registered(browser, fact)
    services.share(alice, Share(record_id=fact.pk, visibility="everyone"))
    owner, reader = Client(), Client()
    owner.force_login(alice_user)
    reader.force_login(olga_user)
    address = url_for("memory", fact.pk.hex)
    assert "in 1 document" in owner.get(address).content.decode()
    assert "in 1 document" not in reader.get(address).content.decode()
    for page in (owner, reader):
        assert ADDRESS not in page.get(address).content.decode()
    assert str(document.pk) in browser.get(address).content.decode()
    browser.post(reverse("change-citing", args=[document.pk, "share"]))
    for page in (owner, reader):
        assert ADDRESS in page.get(address).content.decode()


def test_rest_registers_shows_changes_and_removes(bob_user: User, alice: Caller, fact: MemoryRecord) -> None:
    sender = client(bob_user)
    response = post(sender, API, {"address": ADDRESS, "memory_ids": [fact.pk.hex, "0" * 32]})
    assert response.status_code == 200
    body = response.json()
    assert (body["added"], body["not_found"]) == ([fact.pk.hex], ["0" * 32])
    one = f"{API}{body['document_id']}/"
    services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED))
    assert [row["changed"] for row in sender.get(f"{API}?has_changes=true").json()["items"]] == [1]
    (row,) = sender.get(one).json()["memories"]
    assert (row["state"], row["new_text"]) == ("outdated", CORRECTED)
    change = {"acknowledged_until": row["outdated_at"], "title": "Margins"}
    changed = sender.patch(one, change, "application/json").json()
    assert (changed["document"]["changed"], changed["memories"][0]["state"]) == (0, "current")
    assert sender.get(f"{API}?has_changes=true").json()["items"] == []
    long = post(sender, API, {"address": ADDRESS, "text": "commonplace://memory/" + fact.pk.hex + " x" * 50_000})
    assert long.status_code == 200
    assert post(sender, API, {"address": "ftp://x", "text": "y"}).status_code == 400
    assert sender.patch(one, {}, "application/json").status_code == 400
    assert sender.delete(one).json() == {"removed": True}


def test_an_agent_registers_what_an_answer_cites(bob: Caller, olga: Caller, fact: MemoryRecord) -> None:
    answer = memory_feedback(bob, used=[fact.pk.hex], cited_in=ADDRESS)
    assert answer["cited"]["added"] == [fact.pk.hex]
    assert memory_feedback(bob, used=[fact.pk.hex], cited_in=ADDRESS)["cited"]["kept"] == [fact.pk.hex]
    for bad in ({"used": [fact.pk.hex], "cited_in": "ftp://x"}, {"wrong": [fact.pk.hex], "cited_in": ADDRESS}):
        with pytest.raises(Invalid) as caught:
            memory_feedback(bob, **bad)
        assert caught.value.field == "cited_in"
    with pytest.raises(NotFound):
        memory_feedback(olga, used=[fact.pk.hex], cited_in=ADDRESS)
    assert CitingDocument.objects.count() == Report.objects.count() == 1


def test_many_documents_are_told_in_few_queries(
    alice: Caller, bob: Caller, fact: MemoryRecord, django_assert_max_num_queries: Any
) -> None:
    counts = []
    for number in (1, 20):
        for n in range(number):
            cite(bob, Cite(address=f"{ADDRESS}/{number}/{n}", memory_ids=[fact.pk]))
        with django_assert_max_num_queries(60) as found:
            fact = services.supersede(alice, Supersede(record_id=fact.pk, content=f"{CORRECTED} {number}")).record
        counts.append(len(found))
    assert counts[0] == counts[1]
    assert Notification.objects.filter(kind="cited", read_at=None).count() == 21

"""The doors to contradictions: the page and the REST API. An outsider finds neither a pair nor its texts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from foundation.database import identity
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.contradictions import scan, verdicts
from knowledge.contradictions.operations import GiveVerdict
from knowledge.models import Contradiction, Settlement
from memories import services
from memories.models import MemoryRecord, Purpose
from memories.operations import Remember
from memory_project.models import Notification, User
from tests.pages import browser, give, inbox, take_back
from tests.rest_client import client, post

SIX, ONE_DAY = "Orders are final after 6 hours.", "Orders are final after 24 hours."
API = "/api/v1/contradictions/"


def remember(caller: Caller, content: str, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": content, **fields})).record


@pytest.fixture
def pair(alice: Caller, bob: Caller) -> Contradiction:
    Purpose.objects.create(name="board", title="Board reporting")
    remember(alice, SIX)
    remember(bob, ONE_DAY)
    scan.scan(60)
    return Contradiction.objects.get()


@pytest.mark.django_db
def test_the_page_shows_a_pair_to_its_readers_alone_and_takes_verdicts(
    pair: Contradiction, alice_user: User, bob_user: User, olga_user: User
) -> None:
    page = inbox("contradiction")
    outsider, owner, colleague = browser(olga_user), browser(alice_user), browser(bob_user)
    assert "final after" not in outsider.get(page).content.decode()
    assert "no such contradiction" in give(outsider, "contradiction", "first", pair.pk.hex)
    shown = owner.get(page).content.decode()
    assert SIX in shown
    assert ONE_DAY in shown
    refused = give(owner, "contradiction", "both", pair.pk.hex, first_scope="purpose:board")
    assert "Where the second one holds" in refused
    given = {"first_scope": "purpose:board", "second_scope": "persona:sales", "note": "Asked."}
    answered = give(owner, "contradiction", "both", pair.pk.hex, **given)
    assert "Proposed to the owner" in answered
    assert "proposes a scope for your memory" in colleague.get(reverse("news")).content.decode()
    assert "No contradictions" in answered
    proposed = colleague.get(page).content.decode()
    assert "proposes: Both hold, differently" in proposed
    assert '<option value="persona:sales" selected>' in proposed
    give(colleague, "contradiction", "both", pair.pk.hex, **given)
    assert not Notification.objects.filter(kind="scope_proposed").exists()
    assert set(MemoryRecord.objects.values_list("scope", flat=True)) == {"purpose:board", "persona:sales"}
    verdict = Settlement.objects.get(by="alice@example.org")
    assert "no such verdict" in take_back(outsider, "contradiction", verdict.pk.hex)
    assert "Undone." in take_back(owner, "contradiction", verdict.pk.hex)


@pytest.mark.django_db
def test_the_rest_api_lists_settles_and_undoes(pair: Contradiction, alice_user: User, olga_user: User) -> None:
    sender, outsider = client(alice_user), client(olga_user)
    (item,) = sender.get(API).json()["items"]
    assert (item["reason"], item["first"]["content"], item["second"]["content"]) == (pair.reason, SIX, ONE_DAY)
    one = f"{API}{item['id']}/"
    assert sender.get(one).json() == item
    assert outsider.get(API).json()["items"] == []
    assert [outsider.get(one).status_code, post(outsider, f"{one}settle/", {"verdict": "first"}).status_code] == [
        404
    ] * 2
    refused = post(
        sender, f"{one}settle/", {"verdict": "both", "first_scope": "purpose:none", "second_scope": "purpose:board"}
    )
    assert (refused.status_code, refused.json()["field"]) == (400, "first_scope")
    settled = post(sender, f"{one}settle/", {"verdict": "second"}).json()["settlement"]
    assert (settled["state"], sender.get(API).json()["items"]) == ("decided", [])
    assert [row["id"] for row in sender.get("/api/v1/settlements/").json()["items"]] == [settled["id"]]
    undo = f"/api/v1/settlements/{settled['id']}/undo/"
    assert post(outsider, undo, {}).status_code == 404
    assert post(sender, undo, {}).json()["settlement"]["undone_at"]
    assert len(sender.get(API).json()["items"]) == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_people_who_settle_a_pair_at_once_the_second_learns_of_the_first(alice: Caller, ada: Caller) -> None:
    remember(alice, SIX)
    remember(alice, ONE_DAY)
    scan.scan(60)
    pair = Contradiction.objects.get()
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def settle(caller: Caller, verdict: str) -> None:
        start.wait()
        try:
            with identity.acting_as(caller):
                operation = GiveVerdict.read({"contradiction_id": pair.pk, "verdict": verdict})
                outcomes.append(verdicts.give_verdict(caller, operation).state)
        except Conflict as error:
            outcomes.append(error.fault)
        finally:
            connection.close()

    threads = [threading.Thread(target=settle, args=each) for each in ((alice, "first"), (ada, "second"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.partition(" by ")[0] for outcome in outcomes) == ["decided", "was decided"]
    assert MemoryRecord.objects.filter(status="archived").count() == 1

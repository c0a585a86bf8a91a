"""Portal pages for curation: stale review, corrections, changesets, My Insights, Knowledge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from foundation.people.caller import Caller, system_caller
from knowledge.catalog.embedded import LocalCatalog
from knowledge.changesets.apply import apply
from knowledge.freshness import stale_detection
from knowledge.insights.capture import capture
from knowledge.models import Changeset
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import Batch, MemoryRecord
from memories.operations import MarkFeedback, Remember, Share, Supersede
from memories.writing import feedback
from memory_project.models import User
from memory_project.portal.views.entity import TABS
from tests.knowledge.conftest import MART, ORDERS, column
from tests.pages import browser, give, inbox, take_back, text

pytestmark = pytest.mark.usefixtures("small_catalog")
DESCRIBE = {"action_type": "update_description", "detail": "One row an order, cancelled ones too."}


def applied(alice: Caller, cora: Caller) -> Changeset:
    captured = capture(
        alice,
        Capture.read(
            {
                "insight_text": "Cancelled orders are in the table of orders.",
                "category": "data_quality",
                "entity_urns": [ORDERS],
                "suggested_actions": [DESCRIBE],
            }
        ),
    ).insight
    decisions.approve(cora, insight_id=captured.pk, notes="checked")
    return apply(
        cora, Apply.read({"insight_ids": [captured.pk.hex], "changes": [DESCRIBE], "entity_urn": ORDERS})
    ).changeset


# -- stale review --------------------------------------------------------------------------------------------


def about_status(caller: Caller, content: str = "The status closed includes cancelled orders.") -> MemoryRecord:
    related = [{"urn": ORDERS, "column": "status", "relevance": "what it is about"}]
    record = services.remember(
        caller, Remember.read({"content": content, "entity_urns": [ORDERS], "related_columns": related})
    ).record
    stale_detection.catch_up([record.pk])
    return record


def drop_status() -> None:
    fields = [column("amount", "NUMBER"), column("state")]
    LocalCatalog().put(ORDERS, "schemaMetadata", {"schemaName": "sales.orders", "fields": fields}, {})
    stale_detection.check_all_entities(100)


def test_the_stale_review_shows_the_change_and_verifies(alice: Caller, alice_user: User) -> None:
    record = about_status(alice)
    drop_status()
    client = browser(alice_user)
    page = text(client, inbox("stale"))
    assert "the column status was removed" in page
    assert "the column state was added" in page
    assert "No memories need your review" in give(client, "stale", "verify", record.pk.hex)
    record.refresh_from_db()
    assert record.status == "active"
    assert "the column status was removed" in take_back(client, "stale")
    record.refresh_from_db()
    assert record.status == "stale"


def test_memories_with_one_cause_are_decided_together(alice: Caller, alice_user: User) -> None:
    rows = [about_status(alice, f"Fact {n} about the status of orders.") for n in range(3)]
    drop_status()
    client = browser(alice_user)
    ((reason, count),) = client.get(inbox("stale")).context["summary"]["causes"]
    assert count == 3
    client.post(reverse("start-batch"), {"act": "verify", "cause": reason})
    assert Batch.objects.get().outcomes == ["", "", ""]
    assert {MemoryRecord.objects.get(pk=row.pk).status for row in rows} == {"active"}


def test_a_memory_marked_wrong_is_in_the_stale_review_of_its_owner(
    alice_user: User, bob_user: User, olga_user: User, fact: MemoryRecord
) -> None:
    wrong = reverse("change-memory", args=[fact.pk, "wrong"])
    browser(olga_user).post(wrong, {"reason": "I say so"})
    fact.refresh_from_db()
    assert fact.status == "active"
    browser(bob_user).post(wrong, {"reason": "refunds are in since May"})
    assert "refunds are in since May" in text(browser(alice_user), inbox("verification"))
    browser(alice_user).post(wrong, {"reason": "Bob is right"})
    page = text(browser(alice_user), inbox("stale"))
    assert "refunds are in since May" in page
    for user, refused in ((bob_user, "only its owner"), (olga_user, "no such memory")):
        assert fact.content not in text(browser(user), inbox("stale"))
        assert refused in give(browser(user), "stale", "forget", fact.pk.hex)


def test_a_memory_shows_my_feedback_and_i_can_withdraw_it(bob: Caller, bob_user: User, fact: MemoryRecord) -> None:
    feedback.mark(bob, MarkFeedback(record_id=fact.pk, verdict="wrong"))
    client = browser(bob_user)
    assert "You marked this memory as wrong." in text(client, reverse("memory", args=[fact.pk]))
    client.post(reverse("change-memory", args=[fact.pk, "withdraw"]))
    fact.refresh_from_db()
    assert fact.status == "active"


# -- corrections ---------------------------------------------------------------------------------------------


def test_the_slider_shows_earlier_states(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    new = services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue in the sales mart includes refunds."))
    address = reverse("chain", args=[fact.pk])
    client = browser(alice_user)
    assert client.get(address).context["believed"].content == new.record.content
    first = client.get(address + "?at=0")
    assert first.context["believed"].content == fact.content
    assert "not visible then" in " ".join(first.content.decode().split())
    for odd in ("-1", "99999", "x", "9" * 50):
        assert client.get(f"{address}?at={odd}").context["at"] == first.context["last"]


def test_a_chain_hides_states_that_were_private(alice: Caller, bob_user: User, olga_user: User) -> None:
    old = services.remember(alice, Remember(content="A thought that was private then.", visibility="private")).record
    services.share(alice, Share(record_id=old.pk, visibility="persona"))
    page = browser(bob_user).get(reverse("chain", args=[old.pk]) + "?at=0")
    assert "private then" not in " ".join(page.content.decode().split())
    assert browser(olga_user).get(reverse("chain", args=[old.pk])).status_code == 404


def test_corrections_are_listed_as_diffs(alice: Caller, cora_user: User, olga_user: User, fact: MemoryRecord) -> None:
    services.supersede(alice, Supersede(record_id=fact.pk, content="Revenue in the sales mart includes refunds."))
    assert "<del>" in text(browser(cora_user), reverse("chains"))
    assert "No corrections yet" in text(browser(olga_user), reverse("chains"))


# -- changesets ----------------------------------------------------------------------------------------------


def test_a_changeset_is_shown_exported_and_rolled_back(alice: Caller, cora: Caller, cora_user: User) -> None:
    changeset = applied(alice, cora)
    client = browser(cora_user)
    assert "sales.orders: Description" in text(client, reverse("changesets"))
    page = text(client, reverse("changeset", args=[changeset.pk]))
    assert "One row an order, cancelled ones too." in page
    assert "Cancelled orders are in the table" in page
    exported = json.loads(client.get(reverse("export-changeset", args=[changeset.pk])).content)
    assert exported[0]["entityUrn"] == ORDERS
    preview = text(client, reverse("roll-back", args=[changeset.pk]))
    assert "Values to be restored" in preview
    client.post(reverse("roll-back", args=[changeset.pk]))
    changeset.refresh_from_db()
    assert (changeset.state, changeset.rolled_back_by) == ("rolled_back", "cora@example.org")


def test_a_roll_back_names_and_keeps_values_that_others_changed(alice: Caller, cora: Caller, cora_user: User) -> None:
    changeset = applied(alice, cora)
    LocalCatalog().put(ORDERS, "editableDatasetProperties", {"description": "Somebody else’s words."}, {})
    client = browser(cora_user)
    page = text(client, reverse("roll-back", args=[changeset.pk]))
    assert "because others have changed them since" in page
    client.post(reverse("roll-back", args=[changeset.pk]))
    changeset.refresh_from_db()
    assert changeset.state == "applied"  # because skipping conflicts was not requested
    client.post(reverse("roll-back", args=[changeset.pk]), {"skip_conflicts": "1"})
    changeset.refresh_from_db()
    assert changeset.state == "rolled_back"
    value = LocalCatalog().read([ORDERS], ["editableDatasetProperties"])[ORDERS]["editableDatasetProperties"].value
    assert value == {"description": "Somebody else’s words."}


def test_replay_and_resume_call_their_services(alice: Caller, cora: Caller, cora_user: User) -> None:
    changeset = applied(alice, cora)
    client = browser(cora_user)
    LocalCatalog().put(ORDERS, "editableDatasetProperties", None, {})
    response = client.post(reverse("replay-changeset", args=[changeset.pk]), follow=True)
    assert "1 value was written again" in " ".join(response.content.decode().split())
    refused = client.post(reverse("resume-changeset", args=[changeset.pk]))
    assert refused.status_code == 409


def test_only_curators_change_changesets_and_outsiders_find_nothing(
    alice: Caller, cora: Caller, alice_user: User, olga_user: User
) -> None:
    changeset = applied(alice, cora)
    assert "Roll back" not in text(browser(alice_user), reverse("changeset", args=[changeset.pk]))
    for name in ("roll-back", "replay-changeset", "resume-changeset"):
        assert browser(alice_user).post(reverse(name, args=[changeset.pk])).status_code == 403
        assert browser(olga_user).post(reverse(name, args=[changeset.pk])).status_code in (403, 404)
    for name in ("changeset", "export-changeset", "roll-back"):
        assert browser(olga_user).get(reverse(name, args=[changeset.pk])).status_code in (403, 404)
    changeset.refresh_from_db()
    assert changeset.state == "applied"


# -- proposed and applied insights ---------------------------------------------------------------------------


def test_my_insights_shows_decisions_and_changesets(
    alice: Caller, cora: Caller, alice_user: User, bob_user: User
) -> None:
    changeset = applied(alice, cora)
    page = text(browser(alice_user), reverse("my-insights"))
    assert "<q>checked</q>" in page
    assert reverse("changeset", args=[changeset.pk]) in page
    assert "No insights yet" in text(browser(bob_user), reverse("my-insights"))
    assert "No rejected insights" in text(browser(alice_user), reverse("my-insights") + "?state=rejected")


def test_knowledge_shows_applied_insights_with_their_source(alice: Caller, cora: Caller, olga_user: User) -> None:
    client = browser(olga_user)
    assert "No insights applied yet" in text(client, reverse("knowledge"))
    applied(alice, cora)
    page = client.get(reverse("knowledge"))
    (row,) = page.context["rows"]
    assert (row.name, row.changes) == ("sales.orders", 1)
    assert [record.content for record in row.sources] == ["Cancelled orders are in the table of orders."]
    assert "sales.mart" in text(client, reverse("knowledge") + "?q=mart")


def test_the_page_of_an_entity_shows_its_memories_insights_and_changesets(
    alice: Caller, cora: Caller, alice_user: User, olga_user: User
) -> None:
    services.remember(alice, Remember(content="Orders of test stores are left out.", entity_urns=[ORDERS]))
    capture(alice, Capture(insight_text="Orders are loaded at night.", category="relationship", entity_urns=[ORDERS]))
    changeset = applied(alice, cora)
    address = f"{reverse('entity')}?urn={ORDERS}"
    page = all_tabs(browser(alice_user), address)
    for phrase in ("Orders of test stores", "loaded at night", "amount", "sales.mart", str(changeset.pk)):
        assert phrase in page, phrase
    outsider_page = all_tabs(browser(olga_user), address)
    assert "Orders of test stores" not in outsider_page
    assert "loaded at night" not in outsider_page
    assert "Cancelled orders are in the table" in outsider_page  # applied, so everyone may read it


def all_tabs(client: Client, address: str) -> str:
    return " ".join(text(client, f"{address}&tab={tab}") for tab in TABS)


@pytest.mark.parametrize("urn", ["", "nonsense", "urn:li:dataset:\x00"])
def test_an_invalid_urn_is_rejected(alice_user: User, urn: str) -> None:
    assert browser(alice_user).get(reverse("entity"), {"urn": urn}).status_code == 400


def test_the_page_of_an_unknown_entity_explains_it(alice_user: User) -> None:
    page = text(browser(alice_user), f"{reverse('entity')}?urn={MART.replace('mart', 'gone')}")
    assert "not in the catalog" in page


def test_pages_make_a_bounded_number_of_queries(
    alice: Caller, cora: Caller, cora_user: User, django_assert_max_num_queries: Any
) -> None:
    for n in range(6):
        record = about_status(alice, f"Fact {n} about the status of orders.")
        services.supersede(alice, Supersede(record_id=record.pk, content=f"Corrected fact {n} about the orders."))
        services.mark_stale(system_caller(), record_id=about_status(alice, f"Stale {n} on orders.").pk, reason=f"r{n}")
    changeset = applied(alice, cora)
    client = browser(cora_user)
    for name in ("my-knowledge", "my-insights", "knowledge", "inbox", "changesets", "chains", "review"):
        client.get(reverse(name))
        with django_assert_max_num_queries(12):
            client.get(reverse(name) + ("?kind=stale" if name == "inbox" else ""))
    for tab in TABS:
        with django_assert_max_num_queries(14):  # two of them are the permissions of the link to the admin
            client.get(f"{reverse('entity')}?urn={ORDERS}&tab={tab}")
    with django_assert_max_num_queries(15):  # it also looks for insights that rely on the values
        client.get(reverse("roll-back", args=[changeset.pk]))
    for address in (
        reverse("changeset", args=[changeset.pk]),
        reverse("memory", args=[record.pk]),
        reverse("chain", args=[record.pk]),
    ):
        with django_assert_max_num_queries(16):  # a curator sees the chain, the usage and the review of a memory
            client.get(address)


def test_a_curator_who_corrects_privately_is_led_to_the_memory_that_they_can_read(
    alice: Caller, cora_user: User
) -> None:
    record = about_status(alice)
    services.mark_stale(alice, record_id=record.pk, reason="orders has changed")
    client = browser(cora_user)
    address = f"{reverse('edit-memory', args=[record.pk])}?correct=1"
    form = client.get(address).context["form"]
    assert form.fields["visibility"].disabled
    typed = {field.name: field.value() or "" for field in form} | {
        "content": "The password of the status page is qT7!xw93Lm.",
        "correct": "1",
    }
    response = client.post(address, typed)
    assert response["Location"] == reverse("memory", args=[record.pk])
    assert client.get(response["Location"]).status_code == 200
    assert MemoryRecord.objects.get(supersedes=record.pk).visibility == "private"

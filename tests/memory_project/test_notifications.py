"""Notifications in the portal, by mail and by webhook, and that none of them reveals a text to the wrong person."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.insights.capture import capture
from knowledge.operations import AnswerQuestion, Appeal, Capture
from knowledge.review import clarifications, decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Erase, Forget, Reassign, Remember, Revise, Verify
from memories.writing import erasure
from memory_project.models import Notification, User, Webhook
from memory_project.notifications import chat_channel, inbox, kinds, lists, notification_mails
from tests.pages import browser

pytestmark = pytest.mark.django_db


def kinds_of(user: User) -> list[str]:
    return list(Notification.objects.filter(person=user).order_by("pk").values_list("kind", flat=True))


def text_of(response: Any) -> str:
    return " ".join(response.content.decode().split())


def propose(caller: Caller, text: str = "Tills close at ten in Ghent.") -> Any:
    return capture(caller, Capture(insight_text=text, category="data_quality")).insight


# -- the inbox -----------------------------------------------------------------------------------------------


def test_author_and_curator_are_notified_of_each_other_s_actions(
    alice: Caller, cora: Caller, alice_user: User, cora_user: User, bob_user: User
) -> None:
    insight = propose(alice)
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    assert kinds_of(alice_user) == ["needs_more"]
    clarifications.answer(alice, AnswerQuestion(insight_id=insight.pk, notes="Since March."))
    assert (kinds_of(alice_user), kinds_of(cora_user)) == ([], ["answered"])
    decisions.reject(cora, insight_id=insight.pk, notes="no")
    assert kinds_of(alice_user) == ["rejected"]
    decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="but yes"))
    # The question and the rejection have led to what follows them, so their notifications are gone.
    assert (kinds_of(alice_user), kinds_of(cora_user)) == ([], ["appealed"])
    assert kinds_of(bob_user) == []


def test_the_owner_is_notified_of_a_stale_memory_marked_by_others(
    alice: Caller, ada: Caller, alice_user: User, fact: MemoryRecord
) -> None:
    services.mark_stale(ada, record_id=fact.pk, reason="a column was removed")
    assert kinds_of(alice_user) == ["stale"]
    services.verify(alice, Verify(record_id=fact.pk))
    services.mark_stale(alice, record_id=fact.pk, reason="I know better")
    assert kinds_of(alice_user) == []


def test_a_mention_notifies_only_users_who_may_read_the_text(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    text = "Ask @bob or @olga@example.org or @nobody about refunds; write to x@bob."
    record = services.remember(alice, Remember(content=text)).record
    assert (kinds_of(bob_user), kinds_of(olga_user), kinds_of(alice_user)) == (["mentioned"], [], [])
    services.revise(alice, Revise(record_id=record.pk, content=f"{text} Again @bob."))
    assert kinds_of(bob_user) == ["mentioned"]  # no second notification while the first is unread
    services.remember(alice, Remember(content="For @bob alone it is not.", visibility="private"))
    assert kinds_of(bob_user) == ["mentioned"]


def test_a_flood_of_notifications_is_grouped_and_none_is_dropped(
    alice: Caller, bob: Caller, bob_user: User, django_assert_num_queries: Any
) -> None:
    for number in range(27):
        services.remember(alice, Remember(content=f"Hello @bob, number {number} of many."))
    (group,) = lists.group_page(bob).groups
    assert (group.sentence, group.unread, group.readable) == ("Alice Arden mentioned you in 27 texts", 27, 27)
    client = browser(bob_user)
    page = text_of(client.get(reverse("news")))
    assert ("Alice Arden mentioned you in 27 texts" in page, "number 3 of" in page) == (True, False)
    address = reverse("news-group", args=[group.pk])
    response = client.get(address)
    found = set(re.findall(r"number (\d+) of", text_of(response)))
    assert len(found) == 20
    found |= set(re.findall(r"number (\d+) of", text_of(client.get(address, {"after": response.context["after"]}))))
    assert found == {str(number) for number in range(27)}


def test_a_group_marked_as_read_leaves_newer_notifications_unread(
    alice: Caller, bob: Caller, bob_user: User, olga_user: User
) -> None:
    for number in range(5):
        services.remember(alice, Remember(content=f"Hello @bob, number {number}."))
    (group,) = lists.group_page(bob).groups
    services.remember(alice, Remember(content="Hello @bob, one more."))
    browser(olga_user).post(reverse("read-news"), {"group": group.pk})
    assert inbox.unread(bob_user.pk).count() == 6
    client = browser(bob_user)
    client.post(reverse("read-news"), {"group": group.pk})
    assert inbox.unread(bob_user.pk).count() == 1
    for wrong in ("x", "-1", "9" * 30, "\u0662", "12.5"):
        assert client.post(reverse("read-news"), {"group": wrong}).status_code == 302
    assert inbox.unread(bob_user.pk).count() == 1
    assert browser(olga_user).get(reverse("news-group", args=[group.pk])).status_code == 302


def test_groups_are_split_by_day_sender_and_kind_and_are_paged(
    alice: Caller, cora: Caller, bob: Caller, bob_user: User, django_assert_max_num_queries: Any
) -> None:
    now = timezone.now()
    Notification.objects.bulk_create(
        Notification(
            person=bob_user, kind=("approved", "rejected")[number % 2], record_id=uuid4(), by="cora@example.org",
            at=now - timedelta(days=number // 20),
        )
        for number in range(600)
    )  # fmt: skip
    seen: list[tuple[Any, ...]] = []
    after = ""
    while True:
        with django_assert_max_num_queries(4):
            shown = lists.group_page(bob, after)
        seen += [(group.day, group.kind, group.count, group.readable) for group in shown.groups]
        if not (after := shown.after):
            break
    assert len(seen) == len(set(seen)) == 60
    assert {(count, readable) for _, _, count, readable in seen} == {(10, 0)}
    client = browser(bob_user)
    with django_assert_max_num_queries(8):
        page = client.get(reverse("news"))
    assert "no longer have access to 10 of them" in text_of(page)
    for wrong in ("x", "2026-01-01T00:00:00+00:00~", f"2026-01-01T00:00:00+00:00~{'9' * 40}", "~3"):
        assert client.get(reverse("news"), {"after": wrong}).status_code == 400


def test_a_group_names_the_entities_of_its_memories(alice: Caller, cora: Caller, small_catalog: Any) -> None:
    urn = "urn:li:dataset:(urn:li:dataPlatform:postgres,sales.orders,PROD)"
    for number in range(5):
        operation = Capture(
            insight_text=f"Orders of till {number} are late.", category="data_quality", entity_urns=[urn]
        )
        decisions.approve(cora, insight_id=capture(alice, operation).insight.pk)
    (group,) = lists.group_page(alice).groups
    assert (group.count, group.readable, group.entities) == (5, 5, [(urn, 5)])


def test_a_review_event_costs_the_same_queries_for_many_people(
    alice: Caller, bob_user: User, cora_user: User, ada_user: User, fact: MemoryRecord, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(2):
        inbox.notify("mentioned", [bob_user.email], record_id=fact.pk, by=alice.email)
    people = [bob_user.email, cora_user.email, ada_user.email]
    with django_assert_num_queries(2):
        inbox.notify("stale", people, record_id=fact.pk, by=alice.email)


def test_a_decision_inserts_one_row_and_reads_no_row_per_notification(
    alice: Caller, cora: Caller, alice_user: User
) -> None:
    """A bulk decision on 5,000 insights must not take longer with each insight."""
    for number in range(10):
        decisions.approve(cora, insight_id=propose(alice, f"Tills of shop {number} close at ten.").pk)
    insight = propose(alice)
    with CaptureQueriesContext(connection) as captured:
        decisions.approve(cora, insight_id=insight.pk)
    statements = [query["sql"].split()[0] for query in captured if '"notifications"' in query["sql"]]
    assert statements == ["DELETE", "SELECT", "INSERT"]
    assert inbox.unread(alice_user.pk).count() == 11


# -- the state as of now -------------------------------------------------------------------------------------


def test_an_undo_deletes_the_unread_notification_of_the_decision(alice: Caller, cora: Caller, alice_user: User) -> None:
    insight = propose(alice)
    for decide in (decisions.approve, decisions.reject, decisions.approve):
        decide(cora, insight_id=insight.pk)
        assert len(kinds_of(alice_user)) == 1
        decisions.undo_review(cora, insight_id=insight.pk)
        assert kinds_of(alice_user) == []


def test_an_undo_is_told_to_an_author_who_knows_of_the_decision(alice: Caller, cora: Caller, alice_user: User) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    inbox.mark_read(alice)
    decisions.undo_review(cora, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["approved", "taken_back"]
    inbox.mark_read(alice)
    decisions.reject(cora, insight_id=insight.pk)
    decisions.undo_review(cora, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["approved", "taken_back"]  # she knows already that it waits
    assert inbox.unread(alice_user.pk).count() == 0


def test_an_author_who_was_mailed_about_a_decision_is_told_of_its_undo(
    alice: Caller, cora: Caller, alice_user: User
) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    Notification.objects.update(mailed_at=timezone.now())
    decisions.undo_review(cora, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["taken_back"]


def test_the_undo_of_an_edit_s_approval_leaves_the_approval_of_the_insight(
    alice: Caller, cora: Caller, alice_user: User
) -> None:
    insight = propose(alice)
    decisions.approve(cora, insight_id=insight.pk)
    services.revise(alice, Revise(record_id=insight.pk, content="Tills close at nine in Ghent."))
    decisions.approve(cora, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["approved", "edit_approved"]
    decisions.undo_review(cora, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["approved"]


def test_a_decision_replaces_unread_notifications_that_it_settles(
    alice: Caller, cora: Caller, ada: Caller, alice_user: User, cora_user: User
) -> None:
    insight = propose(alice)
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    decisions.approve(ada, insight_id=insight.pk)
    assert kinds_of(alice_user) == ["approved"]
    decisions.reject(cora, insight_id=insight.pk, override=True)
    assert kinds_of(alice_user) == ["rejected"]
    decisions.appeal(alice, Appeal(insight_id=insight.pk, notes="but yes"))
    assert (kinds_of(alice_user), kinds_of(cora_user)) == ([], ["appealed"])
    decisions.approve(ada, insight_id=insight.pk)
    assert kinds_of(cora_user) == []


def test_a_forgotten_or_verified_memory_leaves_no_unread_task(
    alice: Caller, ada: Caller, cora: Caller, alice_user: User, cora_user: User, fact: MemoryRecord
) -> None:
    services.mark_stale(ada, record_id=fact.pk, reason="a column was removed")
    services.verify(alice, Verify(record_id=fact.pk))
    assert kinds_of(alice_user) == []
    insight = propose(alice)
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    services.forget(alice, Forget(record_id=insight.pk))
    assert kinds_of(alice_user) == []


def test_the_bell_counts_and_the_page_hides_inaccessible_texts(
    alice: Caller, cora: Caller, ada: Caller, alice_user: User, bob_user: User
) -> None:
    insight = propose(alice, "Tills <close> at ten.")
    decisions.approve(cora, insight_id=insight.pk)
    client = browser(alice_user)
    page = client.get(reverse("news")).content.decode()
    assert ("Notifications, 1 unread" in page, "&lt;close&gt;" in page) == (True, True)
    (notice,) = Notification.objects.all()
    assert browser(bob_user).post(reverse("follow-news", args=[notice.pk]))["Location"] == reverse("news")
    notice.refresh_from_db()
    assert notice.read_at is None  # a notification of another user
    response = client.post(reverse("follow-news", args=[notice.pk]))
    assert response["Location"] == reverse("memory", args=[insight.pk])
    assert "Notifications, 1 unread" not in client.get(reverse("news")).content.decode()
    services.reassign(ada, Reassign(record_id=insight.pk, persona="supply"))
    MemoryRecord.objects.filter(pk=insight.pk).update(created_by="somebody@example.org")
    later_page = client.get(reverse("news")).content.decode()
    assert ("no longer have access" in " ".join(later_page.split()), "&lt;close&gt;" in later_page) == (True, False)


def test_erasing_a_memory_deletes_its_notifications(alice: Caller, bob_user: User) -> None:
    record = services.remember(alice, Remember(content="For @bob: nothing.")).record
    erasure.erase(alice, Erase(record_id=record.pk, confirm=True))
    assert kinds_of(bob_user) == []


def test_users_choose_how_they_are_notified(
    settings: Any, alice: Caller, cora: Caller, alice_user: User, django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST = "mail.example"
    client = browser(alice_user)
    client.post(reverse("account"), {"act": "locale", "time_zone": "Europe/Zurich"})
    inbox.choose(alice, ways={"approved": "mail", "rejected": "none"})
    client.post(reverse("account"), {"act": "notify", "way-insights": "", "way-memories": "none"})
    alice_user.refresh_from_db()
    memories = dict.fromkeys(kinds.TOPICS["memories"].kinds, "none")
    assert (alice_user.notify, alice_user.time_zone) == (
        {"approved": "mail", "rejected": "none", **memories},
        "Europe/Zurich",
    )
    first, second = propose(alice), propose(alice, "Refunds come a day late.")
    decisions.reject(cora, insight_id=second.pk, notes="no")
    decisions.approve(cora, insight_id=first.pk)
    (notice,) = Notification.objects.all()
    assert notice.mail_at is not None
    assert notification_mails.send_due() == "0 sent"  # it may become one mail with others
    Notification.objects.update(mail_at=timezone.now())
    assert notification_mails.send_due() == "1 sent"
    (message,) = mail.outbox
    assert (message.to, "Tills close" in message.body) == (["alice@example.org"], False)
    assert notification_mails.send_due() == "0 sent"
    for wrong in ({"act": "notify", "way-insights": "pigeon"}, {"act": "locale", "time_zone": "Mars/Olympus"}):
        client.post(reverse("account"), wrong)
        alice_user.refresh_from_db()
        assert (alice_user.notify["approved"], alice_user.time_zone) == ("mail", "Europe/Zurich")


def test_the_account_offers_topics_instead_of_kinds(alice: Caller, alice_user: User, cora_user: User) -> None:
    client = browser(alice_user)
    page = client.get(reverse("account")).content.decode()
    assert page.count('name="way-') == 4
    assert "As chosen one by one" not in page
    assert 'name="way-review"' in browser(cora_user).get(reverse("account")).content.decode()
    inbox.choose(alice, ways={"approved": "none"})
    assert "As chosen one by one" in client.get(reverse("account")).content.decode()
    client.post(reverse("account"), {"act": "notify", "way-insights": "none"})
    alice_user.refresh_from_db()
    assert alice_user.notify == dict.fromkeys(kinds.TOPICS["insights"].kinds, "none")


def test_every_kind_of_notification_belongs_to_one_topic() -> None:
    assert sorted(kind for topic in kinds.TOPICS.values() for kind in topic.kinds) == sorted(kinds.KINDS)


# -- webhooks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.slack.com/x", "https://evil.example/x", "https://hooks.slack.com.evil.example/",
        "https://user:pw@hooks.slack.com/x", "https://", "javascript:alert(1)",
        "https://[::1", "https://127.0.0.1/x",
    ],
)  # fmt: skip
def test_only_https_addresses_of_allowed_hosts_are_accepted(settings: Any, url: str) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.slack.com"]
    with pytest.raises(Invalid):
        chat_channel.check_url(url)
    assert chat_channel.check_url("https://hooks.slack.com/services/T/B/x") == "https://hooks.slack.com/services/T/B/x"


def test_without_allowed_hosts_every_address_is_rejected() -> None:
    with pytest.raises(Invalid, match="WEBHOOK_HOSTS"):
        chat_channel.check_url("https://hooks.slack.com/x")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff0e::1"]
)
def test_a_host_with_a_private_address_is_rejected(
    settings: Any, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    entries = [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", (address, 443))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: entries)
    assert "the host has no public address" in chat_channel.post("https://hooks.example/x", {"text": "hello"})


@pytest.fixture
def channel(settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replaces the HTTP transport: records the requests, and responds with the configured status."""
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    state: dict[str, Any] = {"status": 200, "requests": []}

    def respond(request: httpx.Request) -> httpx.Response:
        state["requests"].append(request)
        return httpx.Response(state["status"], headers={"Location": "http://169.254.169.254/"})

    monkeypatch.setattr(httpx, "AsyncHTTPTransport", lambda: httpx.MockTransport(respond))
    entry = (0, 0, 0, "", ("93.184.216.34", 443))
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: [entry])
    return state


def test_a_webhook_receives_counts_and_a_link_but_no_text(
    channel: dict[str, Any], alice: Caller, ada: Caller, cora: Caller, personas: dict[str, Persona]
) -> None:
    propose(alice)
    with pytest.raises(Forbidden):
        chat_channel.save(cora, persona=personas["sales"], url="https://hooks.example/x")
    chat_channel.save(ada, persona=personas["sales"], url="https://hooks.example/x")
    # this persona has nothing to review
    chat_channel.save(ada, persona=personas["supply"], url="https://hooks.example/y")
    assert chat_channel.send_due() == "1 sent"
    assert chat_channel.send_due() == "0 sent"  # at most once a day
    (request,) = channel["requests"]
    assert (request.url.host, request.headers["Host"]) == ("93.184.216.34", "hooks.example")
    assert request.extensions["sni_hostname"] == "hooks.example"
    body = request.content.decode()
    assert ("1 insights are waiting" in body, "Tills close" in body, "alice" in body) == (True, False, False)


def test_a_redirect_is_not_followed_and_is_reported(
    channel: dict[str, Any], alice: Caller, ada: Caller, personas: dict[str, Persona]
) -> None:
    channel["status"] = 302
    webhook = chat_channel.save(ada, persona=personas["sales"], url="https://hooks.example/x")
    assert chat_channel.send(webhook) == "responded with status 302"
    assert len(channel["requests"]) == 1
    row = Webhook.objects.get()
    assert (row.last_error, row.sent_at) == ("responded with status 302", None)

"""Notifications in the portal, by mail and by webhook, and that none of them reveals a text to the wrong person."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from knowledge.insights.capture import capture
from knowledge.operations import AnswerQuestion, Appeal, Capture
from knowledge.review import clarifications, decisions
from memories import services
from memories.contract.errors import Forbidden, Invalid
from memories.identity.caller import Caller
from memories.models import MemoryRecord, Persona
from memories.operations import Erase, Reassign, Remember, Revise, Verify
from memories.writing import erasure
from memory_project.models import Notification, User, Webhook
from memory_project.notifications import inbox, webhooks

pytestmark = pytest.mark.django_db


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def kinds_of(user: User) -> list[str]:
    return list(Notification.objects.filter(person=user).order_by("pk").values_list("kind", flat=True))


def propose(caller: Caller, text: str = "Tills close at ten in Ghent.") -> Any:
    return capture(Capture(insight_text=text, category="data_quality"), caller=caller).insight


# -- the inbox -----------------------------------------------------------------------------------------------


def test_author_and_curator_are_notified_of_each_other_s_actions(
    alice: Caller, cora: Caller, alice_user: User, cora_user: User, bob_user: User
) -> None:
    insight = propose(alice)
    clarifications.request_changes(caller=cora, insight_id=insight.pk, notes="Since when?")
    clarifications.answer(AnswerQuestion(insight_id=insight.pk, notes="Since March."), caller=alice)
    decisions.reject(caller=cora, insight_id=insight.pk, notes="no")
    decisions.appeal(Appeal(insight_id=insight.pk, notes="but yes"), caller=alice)
    assert kinds_of(alice_user) == ["needs_more", "rejected"]
    assert kinds_of(cora_user) == ["answered", "appealed"]
    assert kinds_of(bob_user) == []


def test_the_owner_is_notified_of_a_stale_memory_marked_by_others(
    alice: Caller, ada: Caller, alice_user: User, fact: MemoryRecord
) -> None:
    services.mark_stale(caller=ada, record_id=fact.pk, reason="a column was removed")
    services.verify(Verify(record_id=fact.pk), caller=alice)
    services.mark_stale(caller=alice, record_id=fact.pk, reason="I know better")
    assert kinds_of(alice_user) == ["stale"]


def test_a_mention_notifies_only_users_who_may_read_the_text(
    alice: Caller, alice_user: User, bob_user: User, olga_user: User
) -> None:
    text = "Ask @bob or @olga@example.org or @nobody about refunds; write to x@bob."
    record = services.remember(Remember(content=text), caller=alice).record
    assert (kinds_of(bob_user), kinds_of(olga_user), kinds_of(alice_user)) == (["mentioned"], [], [])
    services.revise(Revise(record_id=record.pk, content=f"{text} Again @bob."), caller=alice)
    assert kinds_of(bob_user) == ["mentioned"]  # no second notification while the first is unread
    services.remember(Remember(content="For @bob alone it is not.", visibility="private"), caller=alice)
    assert kinds_of(bob_user) == ["mentioned"]


def test_unread_notifications_are_limited(alice: Caller, bob_user: User) -> None:
    for number in range(inbox.MAX_UNREAD + 5):
        services.remember(Remember(content=f"Hello @bob, number {number} of many."), caller=alice)
    assert len(kinds_of(bob_user)) == inbox.MAX_UNREAD


def test_the_bell_counts_and_the_page_hides_inaccessible_texts(
    alice: Caller, cora: Caller, ada: Caller, alice_user: User, bob_user: User
) -> None:
    insight = propose(alice, "Tills <close> at ten.")
    decisions.approve(caller=cora, insight_id=insight.pk)
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
    services.reassign(Reassign(record_id=insight.pk, persona="supply"), caller=ada)
    MemoryRecord.objects.filter(pk=insight.pk).update(created_by="somebody@example.org")
    later_page = client.get(reverse("news")).content.decode()
    assert ("no longer have access" in " ".join(later_page.split()), "&lt;close&gt;" in later_page) == (True, False)


def test_erasing_a_memory_deletes_its_notifications(alice: Caller, bob_user: User) -> None:
    record = services.remember(Remember(content="For @bob: nothing."), caller=alice).record
    erasure.erase(Erase(record_id=record.pk, confirm=True), caller=alice)
    assert kinds_of(bob_user) == []


def test_users_choose_how_they_are_notified(
    settings: Any, alice: Caller, cora: Caller, alice_user: User, django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST = "mail.example"
    client = browser(alice_user)
    settings_form = {"act": "notify", "way-approved": "mail", "way-rejected": "none", "time_zone": "Europe/Zurich"}
    client.post(reverse("account"), settings_form)
    alice_user.refresh_from_db()
    assert (alice_user.notify, alice_user.time_zone) == ({"approved": "mail", "rejected": "none"}, "Europe/Zurich")
    first, second = propose(alice), propose(alice, "Refunds come a day late.")
    decisions.reject(caller=cora, insight_id=second.pk, notes="no")
    decisions.approve(caller=cora, insight_id=first.pk)
    (notice,) = Notification.objects.all()
    assert inbox.mail_one(notice.pk)
    (message,) = mail.outbox
    assert (message.to, "Tills close" in message.body) == (["alice@example.org"], False)
    inbox.mark_read(caller=alice)
    assert not inbox.mail_one(notice.pk)
    for wrong in ({"way-approved": "pigeon"}, {"way-approved": "none", "time_zone": "Mars/Olympus"}):
        client.post(reverse("account"), {"act": "notify", **wrong})
        alice_user.refresh_from_db()
        assert (alice_user.notify["approved"], alice_user.time_zone) == ("mail", "Europe/Zurich")


# -- webhooks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.slack.com/x", "https://evil.example/x", "https://hooks.slack.com.evil.example/",
        "https://user:pw@hooks.slack.com/x", "https://hooks.slack.com:8443/x", "https://", "javascript:alert(1)",
        "https://[::1", "https://127.0.0.1/x",
    ],
)  # fmt: skip
def test_only_https_addresses_of_allowed_hosts_are_accepted(settings: Any, url: str) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.slack.com"]
    with pytest.raises(Invalid):
        webhooks.check_url(url)
    assert webhooks.check_url("https://hooks.slack.com/services/T/B/x") == "https://hooks.slack.com/services/T/B/x"


def test_without_allowed_hosts_every_address_is_rejected() -> None:
    with pytest.raises(Invalid, match="WEBHOOK_HOSTS"):
        webhooks.check_url("https://hooks.slack.com/x")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "169.254.169.254", "::1", "64:ff9b::7f00:1", "2002:7f00:1::", "ff0e::1"]
)
def test_a_host_with_a_private_address_is_rejected(
    settings: Any, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    entries = [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", (address, 443))]
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: entries)
    assert f"resolves to {address}, which is not a public address" in webhooks.post(
        "https://hooks.example/x", {"text": "hello"}
    )


@pytest.fixture
def channel(settings: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replaces the webhook's HTTP transport: records the requests, and responds with the configured status."""
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    state: dict[str, Any] = {"status": 200, "requests": []}

    def respond(request: httpx.Request) -> httpx.Response:
        state["requests"].append(request)
        return httpx.Response(state["status"], headers={"Location": "http://169.254.169.254/"})

    monkeypatch.setattr(httpx, "HTTPTransport", lambda: httpx.MockTransport(respond))
    entry = (0, 0, 0, "", ("93.184.216.34", 443))
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **kwargs: [entry])
    return state


def test_a_webhook_receives_counts_and_a_link_but_no_text(
    channel: dict[str, Any], alice: Caller, ada: Caller, cora: Caller, personas: dict[str, Persona]
) -> None:
    propose(alice)
    with pytest.raises(Forbidden):
        webhooks.save(caller=cora, persona=personas["sales"], url="https://hooks.example/x")
    webhooks.save(caller=ada, persona=personas["sales"], url="https://hooks.example/x")
    # this persona has nothing to review
    webhooks.save(caller=ada, persona=personas["supply"], url="https://hooks.example/y")
    assert webhooks.send_due() == "1 sent"
    assert webhooks.send_due() == "0 sent"  # at most once a day
    (request,) = channel["requests"]
    assert (request.url.host, request.headers["Host"]) == ("93.184.216.34", "hooks.example")
    assert request.extensions["sni_hostname"] == "hooks.example"
    body = request.content.decode()
    assert ("1 insights are waiting" in body, "Tills close" in body, "alice" in body) == (True, False, False)


def test_a_redirect_is_not_followed_and_is_reported(
    channel: dict[str, Any], alice: Caller, ada: Caller, personas: dict[str, Persona]
) -> None:
    channel["status"] = 302
    webhook = webhooks.save(caller=ada, persona=personas["sales"], url="https://hooks.example/x")
    assert webhooks.send(webhook) == "hooks.example responded with status 302"
    assert len(channel["requests"]) == 1
    row = Webhook.objects.get()
    assert (row.last_error, row.sent_at) == ("hooks.example responded with status 302", None)

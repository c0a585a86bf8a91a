"""What a mail says, and to whom, is decided when it is sent, and not when it is queued."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.core import mail
from django.urls import reverse
from django.utils import timezone, translation

from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from knowledge.insights.capture import capture
from knowledge.models import Insight
from knowledge.operations import Capture
from knowledge.review import clarifications, decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Erase, Forget, Remember, Share
from memories.writing import erasure
from memory_project.accounts import mail as mails
from memory_project.accounts import people
from memory_project.models import Notification, User
from memory_project.notifications import chat_channel, digest_and_alerts, inbox, notification_mails
from memory_project.notifications.inbox import MAIL_DELAY
from tests.queued_tasks import run_queued_tasks

pytestmark = pytest.mark.django_db

TEXT = "The margin of @bob excludes freight."
Meanwhile = Callable[[MemoryRecord, Caller, Caller, User], object]
MEANWHILE: dict[str, Meanwhile] = {
    "persona lost": lambda record, alice, ada, bob: people.set_personas(bob, []),
    "made private": lambda record, alice, ada, bob: services.share(
        alice, Share(record_id=record.pk, visibility="private")
    ),
    "forgotten": lambda record, alice, ada, bob: services.forget(alice, Forget(record_id=record.pk)),
    "erased": lambda record, alice, ada, bob: erasure.erase(alice, Erase(record_id=record.pk, confirm=True)),
    "deactivated": lambda record, alice, ada, bob: people.deactivate(ada, person=bob),
    "mails turned off": lambda record, alice, ada, bob: inbox.choose(
        build_caller(bob, channel="test"), ways={"mentioned": "portal"}
    ),
}


@pytest.fixture(autouse=True)
def mail_server(settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"


@contextmanager
def capture_language() -> Iterator[set[str]]:
    """Collect the languages that are active while mails are sent."""
    languages: set[str] = set()
    send = mails.send

    def sending(people: Sequence[str], subject: str, template: str, context: dict[str, Any]) -> bool:
        languages.add(translation.get_language())
        return send(people, subject, template, context)

    with patch.object(mails, "send", sending):
        yield languages


@pytest.mark.parametrize("event", [*MEANWHILE, "nothing"])
def test_a_queued_notification_is_mailed_to_those_who_may_read_it_now(
    event: str,
    alice: Caller,
    ada: Caller,
    bob: Caller,
    bob_user: User,
    django_capture_on_commit_callbacks: Any,
) -> None:
    inbox.choose(bob, ways={"mentioned": "mail"})
    with django_capture_on_commit_callbacks(execute=True):
        record = services.remember(alice, Remember(content=TEXT)).record
    if event in MEANWHILE:
        MEANWHILE[event](record, alice, ada, bob_user)
    Notification.objects.update(mail_at=timezone.now() - MAIL_DELAY)
    sent = notification_mails.send_due()
    assert (sent, len(mail.outbox)) == (("1 sent", 1) if event == "nothing" else ("0 sent", 0))
    assert not Notification.objects.filter(mail_at__isnull=False).exists()


def test_notifications_of_one_kind_become_one_mail_in_the_recipient_s_language(
    alice: Caller, ada: Caller, bob: Caller, bob_user: User
) -> None:
    User.objects.filter(pk=bob_user.pk).update(language="de")
    inbox.choose(bob, ways={"mentioned": "mail"})
    for number in range(12):
        services.remember(alice, Remember(content=f"Hello @bob, number {number}."))
    Notification.objects.filter(pk=Notification.objects.latest("pk").pk).update(mail_at=timezone.now())
    with capture_language() as languages:
        assert notification_mails.send_due() == "1 sent"
    (message,) = mail.outbox
    assert ("12" in message.subject, "number 3" in message.body, languages) == (True, False, {"de"})
    newest = Notification.objects.latest("pk")
    assert reverse("news-group", args=[newest.pk]) in message.body
    assert notification_mails.send_due() == "0 sent"


def test_a_mail_that_the_server_refuses_is_tried_again_for_a_day(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox.choose(bob, ways={"mentioned": "mail"})
    services.remember(alice, Remember(content=TEXT))
    due = Notification.objects.all()
    due.update(mail_at=timezone.now())
    with monkeypatch.context() as broken:
        broken.setattr(mails, "send", lambda *arguments: False)
        assert notification_mails.send_due() == notification_mails.send_due() == "0 sent"
    due.update(mail_at=timezone.now())
    assert notification_mails.send_due() == "1 sent"


def test_a_mail_goes_to_the_address_that_the_account_has_when_it_is_sent(
    alice: Caller, bob: Caller, bob_user: User, django_capture_on_commit_callbacks: Any
) -> None:
    inbox.choose(bob, ways={"mentioned": "mail"})
    with django_capture_on_commit_callbacks(execute=True):
        services.remember(alice, Remember(content=TEXT))
    User.objects.filter(pk=bob_user.pk).update(email="robert@example.org")
    Notification.objects.update(mail_at=timezone.now())
    notification_mails.send_due()
    assert [message.to for message in mail.outbox] == [["robert@example.org"]]


# -- overturned decisions ------------------------------------------------------------------------------------


def overturn(alice: Caller, cora: Caller, ada: Caller) -> Insight:
    """Let Ada reject an insight of Alice that Cora has approved."""
    insight = capture(alice, Capture(insight_text="Margins exclude freight.", category="data_quality")).insight
    decisions.approve(cora, insight_id=insight.pk)
    decisions.reject(ada, insight_id=insight.pk, notes="They include it.", override=True)
    return insight


@pytest.mark.parametrize("event", ["persona lost", "no curator any more", "deactivated", "erased", "nothing"])
def test_a_mail_about_an_overturned_decision_reveals_nothing_to_former_readers(
    event: str,
    alice: Caller,
    ada: Caller,
    cora: Caller,
    cora_user: User,
    django_capture_on_commit_callbacks: Any,
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        insight = overturn(alice, cora, ada)
    match event:
        case "persona lost":
            PersonaMembership.objects.filter(user=cora_user).delete()
        case "no curator any more":
            cora_user.groups.clear()
        case "deactivated":
            people.deactivate(ada, person=cora_user)
        case "erased":
            erasure.erase(alice, Erase(record_id=insight.pk, confirm=True))
    run_queued_tasks("memory_project.tasks.mail_overturned")
    addresses = {address for message in mail.outbox for address in message.to}
    expected = {"nothing": {cora.email, alice.email}, "erased": set()}.get(event, {alice.email})
    assert addresses == expected


# -- the digest and the alert --------------------------------------------------------------------------------


@pytest.fixture
def on_monday(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.DIGEST = True
    monday = datetime(2026, 3, 2, 9, tzinfo=timezone.get_default_timezone())
    monkeypatch.setattr("memory_project.notifications.digest_and_alerts.timezone.localtime", lambda: monday)


def during_the_first(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen while the first mail is sent."""
    send, waiting = mails.send, [happens]

    def slow_send(people: Sequence[str], subject: str, template: str, context: dict[str, Any]) -> bool:
        while waiting:
            waiting.pop()()
        return send(people, subject, template, context)

    monkeypatch.setattr(mails, "send", slow_send)


@pytest.mark.parametrize("event", ["deactivated", "mails turned off", "persona lost"])
def test_the_digest_is_written_for_each_person_when_it_is_sent(
    event: str,
    ada_user: User,
    alice: Caller,
    ada: Caller,
    bob_user: User,
    fact: MemoryRecord,
    on_monday: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = person_before(bob_user)
    changes = {
        "deactivated": lambda: people.deactivate(ada, person=bob_user),
        "mails turned off": lambda: inbox.choose(build_caller(bob_user, channel="test"), ways={"digest": "none"}),
        "persona lost": lambda: people.set_personas(bob_user, []),
    }
    during_the_first(monkeypatch, changes[event])
    digest_and_alerts.send_digest()
    addresses = [address for message in mail.outbox for address in message.to]
    assert (first.email in addresses, bob_user.email in addresses) == (True, False)


def person_before(user: User) -> User:
    """Return the first recipient of a digest, who is not `user`."""
    return User.objects.filter(is_active=True).exclude(pk=user.pk).exclude(email="alice@example.org").order_by("pk")[0]


def test_the_digest_is_written_in_the_recipient_s_language_and_names_people(
    alice: Caller, cora: Caller, bob: Caller, bob_user: User, fact: MemoryRecord, on_monday: None
) -> None:
    User.objects.filter(pk=bob_user.pk).update(language="de")
    insight = capture(bob, Capture(insight_text="Margins exclude freight.", category="data_quality")).insight
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since <when>?")
    with capture_language() as languages:
        digest_and_alerts.send_digest()
    assert languages == {"de", "en"}
    (body,) = [message.body for message in mail.outbox if message.to == [bob_user.email]]
    assert "cora@example.org: Since <when>?\n" in body
    assert ("(Alice Arden)" in body, "alice@example.org" in body) == (True, False)
    assert translation.get_language() == "en"


def test_the_digest_of_an_admin_quotes_no_private_memories_of_others(
    alice: Caller, ada_user: User, on_monday: None
) -> None:
    services.remember(alice, Remember(content="A private thought on margins.", visibility="private"))
    digest_and_alerts.send_digest()
    assert not [message for message in mail.outbox if "private thought" in message.body]


def test_the_alert_goes_to_those_who_are_curators_when_it_is_sent(
    alice: Caller, ada: Caller, ada_user: User, cora_user: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REVIEW_ALERT_HOURS = 48
    insight = capture(alice, Capture(insight_text="Margins exclude freight.", category="data_quality")).insight
    MemoryRecord.objects.filter(pk=insight.pk).update(created_at=timezone.now() - timedelta(hours=49))
    staff = User.objects.filter(is_staff=True).order_by("pk")
    last = staff[len(staff) - 1]
    during_the_first(monkeypatch, lambda: User.objects.filter(pk=last.pk).update(is_active=False))
    assert digest_and_alerts.alert_about_reviews() == "1 sent"
    assert last.email not in [address for message in mail.outbox for address in message.to]


# -- webhooks ------------------------------------------------------------------------------------------------


def test_a_webhook_counts_no_private_stale_memories(alice: Caller, ada: Caller) -> None:
    for visibility in ("private", "persona"):
        content = f"A margin that is {visibility}."
        record = services.remember(alice, Remember(content=content, visibility=visibility)).record
        services.mark_stale(ada, record_id=record.pk, reason="a column was removed")
    assert chat_channel.counts("sales")["stale"] == 1


def test_a_webhook_that_was_turned_off_while_others_were_sent_is_not_called(
    alice: Caller, ada: Caller, personas: dict[str, Persona], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_HOSTS = ["hooks.example"]
    hooks = [chat_channel.save(ada, persona=personas[name], url=f"https://hooks.example/{name}") for name in personas]
    monkeypatch.setattr(chat_channel, "counts", lambda persona: {"waiting": 1, "approved": 0, "stale": 0})
    called = []

    def post(url: str, body: dict[str, str]) -> str:
        called.append(url)
        chat_channel.save(ada, persona=hooks[1].persona, url=hooks[1].url, is_on=False)
        return ""

    monkeypatch.setattr(chat_channel, "post", post)
    assert chat_channel.send_due() == "1 sent"
    assert called == ["https://hooks.example/sales"]
    assert not Notification.objects.exists()

"""Managing people: invitation, password reset, changes and offboarding. Also the e-mails that are sent."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail as outbox
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.accounts import people
from memory_project.accounts.tokens import create_token
from memory_project.models import ApiToken, AuditEvent, User
from memory_project.notifications import digest_and_alerts, inbox
from tests.pages import browser
from tests.queued_tasks import run_queued_tasks

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail_server(settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.org"


def test_without_mail_an_invitation_link_is_shown_once(ada_user: User, personas: Any) -> None:
    client = browser(ada_user)
    response = client.post(
        reverse("admin:invite"), {"email": "New@Example.org", "personas": ["supply"], "rights": "curator"}
    )
    user = User.objects.get(email="new@example.org")
    link = re.search(r"http://[^<\s]+/password/[^<\s]+", response.content.decode())
    assert link
    assert (user.has_usable_password(), user.is_staff) == (False, True)
    assert [m.persona.name for m in user.memberships.all()] == ["supply"]
    assert link.group() not in client.get(reverse("admin:person", args=[user.pk])).content.decode()
    # The invited person sets a password with the link and is signed in. The link can't be used again.
    guest = Client()
    path = re.sub(r"^http://[^/]+", "", link.group())
    form = guest.get(path, follow=True)
    address = form.redirect_chain[-1][0]
    guest.post(address, {"new_password1": "blue heron lake", "new_password2": "blue heron lake"})
    assert guest.get(reverse("my-knowledge")).status_code == 200
    assert "already been used" in Client().get(path, follow=True).content.decode()


def test_an_invitation_is_sent_by_mail(ada: Caller, mail_server: None, personas: Any) -> None:
    user, link, is_sent = people.invite(ada, email="new@example.org", personas=["sales"])
    assert is_sent
    assert outbox.outbox[0].to == ["new@example.org"]
    assert link in outbox.outbox[0].body
    assert build_caller(user, channel="test").rights == frozenset()


@pytest.mark.parametrize(
    ("arguments", "error", "field"),
    [
        ({"email": "nobody"}, Invalid, "email"),
        ({"email": "alice@example.org"}, Conflict, "email"),
        ({"email": "new@example.org", "personas": ["kings"]}, NotFound, "personas"),
    ],
)
def test_an_error_names_the_invalid_field_of_an_invitation(
    ada: Caller, alice_user: User, arguments: Any, error: Any, field: str
) -> None:
    with pytest.raises(error) as caught:
        people.invite(ada, **arguments)
    assert caught.value.field == field
    assert not User.objects.filter(email="new@example.org").exists()


def test_offboarding_moves_memories_and_ends_access(
    ada: Caller, alice: Caller, alice_user: User, bob_user: User, fact: MemoryRecord
) -> None:
    create_token(alice, user=alice_user, name="laptop")
    assert people.offboard(ada, person=alice_user, to="Bob@example.org").counts == {"memories": 1}
    fact.refresh_from_db()
    alice_user.refresh_from_db()
    assert (fact.created_by, alice_user.is_active) == ("bob@example.org", False)
    assert ApiToken.objects.get().revoked_at
    with pytest.raises(NotFound):
        people.offboard(ada, person=bob_user, to="alice@example.org")  # this account is deactivated
    with pytest.raises(Conflict):
        people.offboard(ada, person=User.objects.get(email="ada@example.org"), to="bob@example.org")


def test_membership_and_rights_are_changed_together(ada: Caller, alice_user: User) -> None:
    people.change(ada, person=alice_user, personas=["supply"], rights=["curator"])
    changed = User.objects.get(pk=alice_user.pk)
    assert [(m.persona.name, m.is_default) for m in changed.memberships.all()] == [("supply", True)]
    assert changed.is_staff
    people.change(ada, person=changed, personas=["sales", "supply"], rights=[])
    changed = User.objects.get(pk=alice_user.pk)
    assert {(m.persona.name, m.is_default) for m in changed.memberships.all()} == {("sales", False), ("supply", True)}
    assert not changed.is_staff


def test_only_admins_manage_people(alice: Caller, alice_user: User, bob_user: User) -> None:
    for action in (
        lambda: people.invite(alice, email="new@example.org"),
        lambda: people.reset(alice, person=bob_user),
        lambda: people.change(alice, person=alice_user, personas=["supply"], rights=["curator"]),
        lambda: people.offboard(alice, person=bob_user, to="alice@example.org"),
        lambda: people.deactivate(alice, person=bob_user),
        lambda: people.activate(alice, person=bob_user),
    ):
        with pytest.raises(Forbidden):
            action()
    client = browser(alice_user)
    for address in (reverse("admin:people"), reverse("admin:person", args=[bob_user.pk]), reverse("admin:audit")):
        assert client.get(address).status_code == 302  # redirected to the sign-in


def test_staff_without_admin_rights_see_neither_people_nor_audit(bob_user: User, alice_user: User) -> None:
    User.objects.filter(pk=bob_user.pk).update(is_staff=True)
    client = browser(User.objects.get(pk=bob_user.pk))
    for name in ("admin:people", "admin:audit"):
        assert client.get(reverse(name)).status_code == 403
    assert client.post(reverse("admin:invite"), {"email": "new@example.org"}).status_code == 403
    assert client.post(reverse("admin:person-act", args=[alice_user.pk, "switch-off"])).status_code == 403
    assert client.post(reverse("admin:indexing-act"), {"act": "reindex", "kind": "memory"}).status_code == 403
    alice_user.refresh_from_db()
    assert alice_user.is_active


def test_deactivation_ends_a_session(ada_user: User, alice_user: User) -> None:
    session = browser(alice_user)
    browser(ada_user).post(reverse("admin:person-act", args=[alice_user.pk, "switch-off"]))
    assert session.get(reverse("my-knowledge")).status_code == 302
    browser(ada_user).post(reverse("admin:person-act", args=[alice_user.pk, "switch-on"]))
    alice_user.refresh_from_db()
    assert alice_user.is_active


def test_a_forgotten_password_is_reset_by_mail_or_by_an_admin(alice_user: User, settings: Any) -> None:
    address = reverse("forgot-password")
    assert "Ask an admin" in Client().get(address).content.decode()
    assert "E-mail is not set up" in Client().post(address, {"email": alice_user.email}).content.decode()
    settings.EMAIL_HOST = "mail.example.org"
    Client().post(address, {"email": alice_user.email})
    assert "/password/" in outbox.outbox[0].body
    Client().post(address, {"email": "nobody@example.org"})
    assert len(outbox.outbox) == 1


def test_a_user_changes_their_password(alice_user: User) -> None:
    client = browser(alice_user)
    form = {"old_password": "a long password", "new_password1": "blue heron lake", "new_password2": "blue heron lake"}
    assert client.post(reverse("account"), form).status_code == 302
    assert client.get(reverse("account")).status_code == 200
    alice_user.refresh_from_db()
    assert alice_user.check_password("blue heron lake")


# -- mail ----------------------------------------------------------------------------------------------------

CLOCK = "memory_project.notifications.digest_and_alerts.timezone.localtime"
MONDAY = datetime(2026, 3, 2, 9, tzinfo=timezone.get_default_timezone())


@pytest.fixture
def on_monday(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CLOCK, lambda: MONDAY)


def test_nothing_is_sent_before_it_is_configured(
    alice: Caller, bob_user: User, fact: MemoryRecord, settings: Any
) -> None:
    assert digest_and_alerts.send_digest() == digest_and_alerts.alert_about_reviews() == "off"
    settings.EMAIL_HOST = "mail.example.org"
    assert digest_and_alerts.send_digest() == digest_and_alerts.alert_about_reviews() == "off"
    assert outbox.outbox == []


def test_the_digest_contains_only_memories_that_the_recipient_may_read(
    alice: Caller,
    bob_user: User,
    olga_user: User,
    fact: MemoryRecord,
    mail_server: None,
    settings: Any,
    on_monday: None,
) -> None:
    settings.DIGEST = True
    services.remember(alice, Remember(content="A thought that is private.", visibility="private"))
    assert digest_and_alerts.send_digest() == "1 sent"
    (message,) = outbox.outbox
    assert message.to == [bob_user.email]
    assert fact.content in message.body
    assert "private" not in message.body


def test_a_user_turns_the_digest_off(bob_user: User, mail_server: None, settings: Any) -> None:
    settings.DIGEST = True
    client = browser(bob_user)
    assert "Weekly digest by e-mail" in client.get(reverse("account")).content.decode()
    client.post(reverse("account"), {"act": "notify", "way-digest": "none"})
    bob_user.refresh_from_db()
    assert bob_user.notify == {"digest": "none"}


def test_no_digest_is_sent_to_users_who_turned_it_off(
    bob: Caller, bob_user: User, fact: MemoryRecord, mail_server: None, settings: Any, on_monday: None
) -> None:
    settings.DIGEST = True
    inbox.choose(bob, ways={"digest": "none"})
    assert digest_and_alerts.send_digest() == "0 sent"


def test_the_digest_is_sent_once_and_only_on_mondays(
    bob_user: User, fact: MemoryRecord, mail_server: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DIGEST = True
    monkeypatch.setattr(CLOCK, lambda: MONDAY + timedelta(days=1))
    assert digest_and_alerts.send_digest() == "not due"
    monkeypatch.setattr(CLOCK, timezone.now)
    AuditEvent.objects.create(tool=digest_and_alerts.DIGEST, channel="mail", outcome="ok", duration_ms=0)
    assert digest_and_alerts.send_digest() == "not due"


def test_curators_are_alerted_once_a_day_about_old_pending_insights(
    alice: Caller, ada_user: User, mail_server: None, settings: Any
) -> None:
    settings.REVIEW_ALERT_HOURS = 48
    captured = capture(alice, Capture(insight_text="Orders come twice a day.", category="data_quality")).insight
    assert digest_and_alerts.alert_about_reviews() == "not due"
    MemoryRecord.objects.filter(pk=captured.pk).update(created_at=timezone.now() - timedelta(hours=49))
    assert digest_and_alerts.alert_about_reviews() == "1 sent"
    assert "Orders come twice a day." in outbox.outbox[0].body
    assert digest_and_alerts.alert_about_reviews() == "not due"


def test_a_rejection_notifies_the_author_and_the_approver(
    alice: Caller,
    ada: Caller,
    olga_user: User,
    personas: Any,
    mail_server: None,
    django_capture_on_commit_callbacks: Any,
) -> None:
    people.set_personas(olga_user, list(personas.values()))
    people.give_rights(olga_user, ["curator"])
    olga = build_caller(User.objects.get(pk=olga_user.pk), channel="test")
    captured = capture(alice, Capture(insight_text="Orders come twice a day.", category="data_quality")).insight
    decisions.approve(ada, insight_id=captured.pk)
    with django_capture_on_commit_callbacks(execute=True):
        decisions.reject(olga, insight_id=captured.pk, notes="It is three times.", override=True)
    assert run_queued_tasks("memory_project.tasks.mail_overturned") == [True, True]
    assert sorted(message.recipients()[0] for message in outbox.outbox) == ["ada@example.org", "alice@example.org"]
    assert "It is three times." in outbox.outbox[0].body
    assert f"/memories/{captured.pk}" in outbox.outbox[0].body


def test_an_unavailable_mail_server_does_not_prevent_an_invitation(
    ada: Caller, mail_server: None, monkeypatch: pytest.MonkeyPatch, personas: Any
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ConnectionRefusedError("nobody there")

    monkeypatch.setattr("django.core.mail.EmailMessage.send", refuse)
    user, link, is_sent = people.invite(ada, email="new@example.org")
    assert (is_sent, User.objects.filter(pk=user.pk).exists()) == (False, True)
    assert link.startswith("http")


def test_a_name_cannot_add_a_mail_header(ada: Caller, mail_server: None) -> None:
    people.invite(ada, email="new@example.org", name="x\nBcc: all@example.org")
    assert outbox.outbox[0].recipients() == ["new@example.org"]

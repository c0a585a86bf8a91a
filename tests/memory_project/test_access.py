"""Access: sign-in limits, ending sessions and tokens, read-only task admin, and no demo passwords on public servers."""

from __future__ import annotations

import io

import pytest
from django.contrib.admin.sites import site
from django.core import mail
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Forbidden
from foundation.people.caller import system_caller
from foundation.people.permissions import build_caller
from memory_project.accounts import people
from memory_project.accounts.tokens import create_token
from memory_project.management.commands.up import Command as Up
from memory_project.models import ApiToken, AuditEvent, User
from memory_project.operating import demo
from memory_project.operating.doctor import exposure, systems
from tests.pages import browser

pytestmark = pytest.mark.django_db
WRONG = {"username": "alice@example.org", "password": "not the password"}


# -- sign-in -------------------------------------------------------------------------------------------------


def test_wrong_passwords_are_limited_and_audited(alice_user: User) -> None:
    client = Client()
    statuses = [client.post(reverse("sign-in"), WRONG).status_code for _ in range(10)]
    assert statuses[:7] == [200] * 7
    assert statuses[-1] == 429
    right = client.post(reverse("sign-in"), {**WRONG, "password": "a long password"})
    assert right.status_code == 429
    assert "Try again in 15 minutes" in right.content.decode()
    refused = AuditEvent.objects.filter(tool="sign-in", outcome="refused", email="alice@example.org")
    assert refused.count() >= 8
    other_address = Client(REMOTE_ADDR="10.9.9.9").post(reverse("sign-in"), {**WRONG, "password": "a long password"})
    assert other_address.status_code == 302  # a lockout applies only to the address that caused it


@pytest.mark.parametrize("spelling", ["ALICE@example.org", " alice@EXAMPLE.org "])
def test_another_spelling_is_the_same_account(alice_user: User, spelling: str) -> None:
    client = Client()
    for n in range(10):
        client.post(reverse("sign-in"), {**WRONG, "username": spelling if n % 2 else "alice@example.org"})
    assert client.post(reverse("sign-in"), {**WRONG, "password": "a long password"}).status_code == 429


def test_a_sign_in_is_audited_once(alice_user: User) -> None:
    assert Client().post(reverse("sign-in"), {**WRONG, "password": "a long password"}).status_code == 302
    assert list(AuditEvent.objects.values_list("tool", "outcome")) == [("sign-in", "ok")]


def test_an_invalid_address_is_not_stored_in_the_audit(db: None) -> None:
    Client().post(reverse("sign-in"), {"username": "my secret password", "password": "x"})
    assert AuditEvent.objects.get(tool="sign-in").email == ""


def test_the_admin_uses_the_portal_sign_in(alice_user: User) -> None:
    response = Client().get("/admin/login/?next=/admin/audit/")
    assert (response.status_code, response["Location"]) == (302, "/sign-in/?next=/admin/audit/")
    assert browser(alice_user).get("/admin/login/").status_code == 403


def test_a_user_ends_other_sessions_and_tokens_together(alice_user: User) -> None:
    this_browser, other_browser = browser(alice_user), browser(alice_user)
    create_token(system_caller(), user=alice_user, name="laptop")
    assert this_browser.post(reverse("account"), {"act": "end", "revoke_tokens": "on"}).status_code == 302
    assert this_browser.get(reverse("account")).status_code == 200
    assert other_browser.get(reverse("account")).status_code == 302
    assert ApiToken.objects.get().revoked_at


@pytest.mark.parametrize(("form", "revoked"), [({}, False), ({"revoke_tokens": "on"}, True)])
def test_a_new_password_offers_to_revoke_tokens(alice_user: User, form: dict[str, str], revoked: bool) -> None:
    create_token(system_caller(), user=alice_user, name="laptop")
    client = browser(alice_user)
    assert "Also revoke my API token" in " ".join(client.get(reverse("account")).content.decode().split())
    passwords = {
        "old_password": "a long password",
        "new_password1": "blue heron lake",
        "new_password2": "blue heron lake",
    }
    client.post(reverse("account"), {"act": "password", **passwords, **form})
    assert bool(ApiToken.objects.get().revoked_at) is revoked


def test_an_admin_ends_sessions_and_tokens_of_a_user(ada_user: User, alice_user: User, bob_user: User) -> None:
    alice_browser = browser(alice_user)
    create_token(system_caller(), user=alice_user, name="laptop")
    browser(ada_user).post(reverse("admin:person-act", args=[alice_user.pk, "end-access"]))
    assert alice_browser.get(reverse("account")).status_code == 302
    assert ApiToken.objects.get().revoked_at
    with pytest.raises(Forbidden):
        people.end_sessions(build_caller(bob_user, channel="test"), person=alice_user)


def test_the_reset_mail_links_our_own_address(alice_user: User, settings: object) -> None:
    settings.EMAIL_HOST = "mail.example"  # type: ignore[attr-defined]
    settings.ALLOWED_HOSTS = ["evil.example", "localhost"]  # type: ignore[attr-defined]
    Client().post(reverse("forgot-password"), {"email": "alice@example.org"}, headers={"host": "evil.example"})
    assert "evil.example" not in mail.outbox[0].body
    assert "http://localhost" in mail.outbox[0].body


# -- tasks and schedules are read-only in the admin ----------------------------------------------------------


def test_what_tasks_and_schedules_run_can_t_be_changed_in_the_admin(ada_user: User) -> None:
    client = browser(ada_user)
    queue = [(model, admin) for model, admin in site._registry.items() if model._meta.app_label == "django_q"]
    assert len(queue) == 4
    for model, admin in queue:
        address = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert client.get(reverse(f"{address}_changelist")).status_code == 200
        assert client.post(reverse(f"{address}_add"), {"func": "os.system", "args": "'id'"}).status_code == 403
        assert admin.actions in ((), [], ["run_now"])
    from django_q.models import Schedule

    row = Schedule.objects.first()
    assert row is not None
    client.post(reverse("admin:django_q_schedule_change", args=[row.pk]), {"func": "os.system", "minutes": 7})
    assert not Schedule.objects.filter(func__contains="os.system").exists()


# -- no demo content on public servers -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "url", "public"),
    [
        ("127.0.0.1", "http://localhost:8000", False),
        ("127.8.9.10", "http://127.0.0.1:8000", False),
        ("::1", "http://[::1]:8000", False),
        ("0.0.0.0", "http://localhost:8000", True),
        ("::", "http://localhost:8000", True),
        ("10.0.0.4", "http://localhost:8000", True),
        ("127.0.0.1", "https://commonplace.example.org", True),
        ("127.0.0.1", "http://10.1.2.3", True),
    ],
)
def test_a_server_reachable_by_others_is_public(host: str, url: str, public: bool) -> None:
    assert exposure.is_public(host, url) is public


def test_a_public_server_starts_without_demo_content(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_project.management.commands.up.call_command", lambda *args, **options: None)
    Up(stdout=io.StringIO()).prepare("0.0.0.0", no_demo=False)
    assert not User.objects.exists()


def test_a_public_server_does_not_start_with_demo_passwords(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = User.objects.create_user(demo.address("sam"), demo.PASSWORD)
    monkeypatch.setattr("memory_project.management.commands.up.call_command", lambda *args, **options: None)
    up = Up(stdout=io.StringIO())
    with pytest.raises(CommandError, match=r"sam@fernhill\.example still have the demo password"):
        up.prepare("0.0.0.0", no_demo=True)
    up.prepare("127.0.0.1", no_demo=True)
    person.set_password("another long one")
    person.save()
    up.prepare("0.0.0.0", no_demo=True)


def test_a_missing_package_is_reported_with_a_hint(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:

    settings.DATAHUB_GMS_URL = "http://gms.example"  # type: ignore[attr-defined]
    monkeypatch.setattr(systems, "find_spec", lambda name: None)
    assert "commonplace[datahub]" in str(systems.datahub_installed().fix)

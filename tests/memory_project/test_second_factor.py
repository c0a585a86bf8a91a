"""Second factors after a password: authenticator app and recovery codes. The routes that are open to everybody, too."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.core import mail as outbox
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import NoReverseMatch, URLPattern, URLResolver, get_resolver, reverse

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from memory_project.accounts import people
from memory_project.accounts.tokens import create_token
from memory_project.models import User

pytestmark = pytest.mark.django_db
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
PASSWORD = "a long password"


@pytest.fixture(autouse=True)
def no_earlier_attempts() -> None:
    cache.clear()  # attempts are counted there, and a code works once


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop the clock of the codes, so that none of them ends between its making and its check."""
    now = time.time()
    monkeypatch.setattr("allauth.mfa.totp.internal.auth.time", SimpleNamespace(time=lambda: now))


def code() -> str:
    return str(format_hotp_value(hotp_value(SECRET, next(iter(yield_hotp_counters_from_time())))))


@pytest.fixture
def with_app(alice_user: User) -> User:
    TOTP.activate(alice_user, SECRET)
    RecoveryCodes.activate(alice_user)
    return alice_user


def after_password(email: str = "alice@example.org") -> tuple[Client, Any]:
    browser = Client()
    return browser, browser.post(reverse("sign-in"), {"username": email, "password": PASSWORD, "next": "/graph/"})


def is_signed_in(client: Client) -> bool:
    return client.get(reverse("account")).status_code == 200


def test_a_password_alone_does_not_sign_in(with_app: User) -> None:
    browser, response = after_password()
    assert response["Location"] == reverse("mfa_authenticate")
    assert not is_signed_in(browser)
    page = browser.get(reverse("mfa_authenticate"))
    assert "Commonplace" in page.content.decode()
    assert browser.post(reverse("mfa_authenticate"), {"code": "000000"}).status_code == 200
    assert not is_signed_in(browser)
    used = code()
    assert browser.post(reverse("mfa_authenticate"), {"code": used})["Location"] == "/graph/"
    assert is_signed_in(browser)
    other, _ = after_password()  # the code that somebody has looked at
    other.post(reverse("mfa_authenticate"), {"code": used})
    assert not is_signed_in(other)


def test_without_a_second_factor_the_password_is_enough(alice_user: User) -> None:
    browser, response = after_password()
    assert response["Location"] == "/graph/"
    assert is_signed_in(browser)


def test_a_recovery_code_works_once(with_app: User) -> None:
    codes = Authenticator.objects.get(user=with_app, type="recovery_codes").wrap().get_unused_codes()
    browser, _ = after_password()
    browser.post(reverse("mfa_authenticate"), {"code": codes[0]})
    assert is_signed_in(browser)
    other, _ = after_password()
    other.post(reverse("mfa_authenticate"), {"code": codes[0]})
    assert not is_signed_in(other)


def test_guesses_are_limited(with_app: User) -> None:
    for _ in range(12):
        browser, _ = after_password()
        browser.post(reverse("mfa_authenticate"), {"code": "000000"})
    response = browser.post(reverse("mfa_authenticate"), {"code": code()})
    assert response.status_code == 200
    assert not is_signed_in(browser)


def test_other_ways_to_sign_in_ask_for_it_too(with_app: User) -> None:
    browser = Client()
    path = "/" + people.start_link(with_app).split("/", 3)[3]
    address = browser.get(path)["Location"]
    browser.post(address, {"new_password1": "blue heron lake", "new_password2": "blue heron lake"})
    assert not is_signed_in(browser)
    assert browser.get(reverse("mfa_authenticate")).status_code == 200
    response = Client().post(reverse("admin:login"), {"username": with_app.email, "password": PASSWORD})
    assert response["Location"].startswith(reverse("sign-in"))


def test_a_sign_in_can_be_cancelled(with_app: User) -> None:
    browser, _ = after_password()
    browser.post(reverse("account_logout"))
    assert browser.get(reverse("mfa_authenticate"))["Location"].startswith(reverse("account_login"))


def test_an_app_is_set_up_after_the_password_is_confirmed(alice_user: User) -> None:
    browser, _ = after_password()
    address = reverse("mfa_activate_totp")
    browser.session.save()
    response = browser.get(address)
    assert response["Location"].startswith(reverse("account_reauthenticate"))
    browser.post(response["Location"], {"password": "wrong password", "next": address})
    assert browser.get(address).status_code == 302
    browser.post(response["Location"], {"password": PASSWORD, "next": address})
    page = browser.get(address).content.decode()
    secret = page.split('id="authenticator_secret"')[1].split('value="')[1].split('"')[0]
    counter = next(iter(yield_hotp_counters_from_time()))
    browser.post(address, {"code": str(format_hotp_value(hotp_value(secret, counter)))})
    assert Authenticator.objects.filter(user=alice_user, type="totp").exists()
    for name in ("mfa_index", "mfa_view_recovery_codes", "mfa_list_webauthn", "mfa_deactivate_totp"):
        assert browser.get(reverse(name)).status_code == 200, name


def test_secrets_are_encrypted_and_their_own(with_app: User, bob_user: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT string_agg(data::text, ' ') FROM mfa_authenticator")
        stored = cursor.fetchone()[0]
    assert SECRET not in stored
    with identity.acting_as(build_caller(bob_user, channel="test")):
        assert not Authenticator.objects.exists()
    with identity.acting_as(build_caller(with_app, channel="test")):
        assert Authenticator.objects.count() == 2


def test_after_a_change_of_the_secret_key_no_code_is_right(with_app: User, settings: Any) -> None:
    settings.SECRET_KEY = "another"
    browser, _ = after_password()
    empty = str(format_hotp_value(hotp_value("", next(iter(yield_hotp_counters_from_time())))))
    for guess in (code(), empty):
        browser.post(reverse("mfa_authenticate"), {"code": guess})
    assert not is_signed_in(browser)


@pytest.mark.parametrize(("required", "email", "leads"), [
    ("none", "ada@example.org", False), ("staff", "ada@example.org", True), ("staff", "alice@example.org", False),
    ("all", "alice@example.org", True),
])  # fmt: skip
def test_who_must_have_one_is_led_to_its_page(
    settings: Any, ada_user: User, alice_user: User, required: str, email: str, leads: bool
) -> None:
    settings.REQUIRE_TWO_FACTOR = required
    browser, _ = after_password(email)
    response = browser.get(reverse("my-knowledge"))
    assert (response.status_code == 302) == leads
    if leads:
        assert response["Location"] == reverse("mfa_index")
        assert "needs a second factor" in browser.get(reverse("mfa_index")).content.decode()
        assert browser.get("/api/v1/memories/").status_code == 403
        assert browser.get("/api/v1/memories/", headers={"Authorization": "Basic x"}).status_code == 403
        user = User.objects.get(email=email)
        _, text = create_token(build_caller(user, channel="test"), user=user, name="laptop")
        assert Client().get("/api/v1/memories/", headers={"Authorization": f"Bearer {text}"}).status_code == 200
        assert browser.get("/no/such/page/").status_code in (302, 404)


def test_a_required_factor_cannot_be_removed(settings: Any, with_app: User) -> None:
    settings.REQUIRE_TWO_FACTOR = "all"
    browser, _ = after_password()
    browser.post(reverse("mfa_authenticate"), {"code": code()})
    browser.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    browser.post(reverse("mfa_deactivate_totp"))
    assert Authenticator.objects.filter(user=with_app, type="totp").exists()


def test_an_admin_removes_a_lost_factor(
    with_app: User, ada: Caller, ada_user: User, bob: Caller, settings: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    signed_in = Client()
    signed_in.force_login(with_app)
    with pytest.raises(Forbidden):
        people.reset_second_factor(bob, person=with_app)
    browser = Client()
    browser.force_login(ada_user)
    page = browser.post(reverse("admin:person-act", args=[with_app.pk, "reset-second-factor"]), follow=True)
    assert "is removed" in page.content.decode()
    assert not Authenticator.objects.exists()
    assert not is_signed_in(signed_in)
    assert outbox.outbox[0].to == ["alice@example.org"]
    assert "ada@example.org" in outbox.outbox[0].body
    with pytest.raises(Conflict):
        people.reset_second_factor(ada, person=with_app)


# -- routes --------------------------------------------------------------------------------------------------

# Pages that answer without a sign-in with something else than a redirect to it, or a refusal
OPEN = {
    "sign-in", "forgot-password", "password_reset_done", "password_reset_confirm", "sign-in-link", "health", "favicon",
    "admin:logout",  # leads to the admin's index, which leads to the sign-in page
    "oauth2_provider:oauth-resource-metadata", "oauth2_provider:mcp-metadata", "oauth2_provider:mcp-choice-metadata",
    "oauth2_provider:mcp-slash-metadata",
    "oauth2_provider:oauth-server-metadata",
}  # fmt: skip


def routes(patterns: Any, namespace: str = "") -> Any:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from routes(pattern.url_patterns, inner)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield f"{namespace}{pattern.name}", pattern


def test_only_these_pages_are_open_without_a_sign_in(db: None) -> None:
    is_open = set()
    for name, pattern in routes(get_resolver().url_patterns):
        values = {"uidb64": "MQ", "token": "x", "act": "x", "kind": "x", "object_id": "1", "app_label": "memories"}
        for argument, converter in pattern.pattern.converters.items():
            kind = type(converter).__name__
            values[argument] = {"IntConverter": "1", "UUIDConverter": "0" * 8 + "-0000-4000-8000-" + "0" * 12}.get(
                kind, values.get(argument, "00000000-0000-4000-8000-000000000000")
            )
        try:
            address = reverse(name, kwargs={argument: values[argument] for argument in pattern.pattern.converters})
        except NoReverseMatch:  # a route with a regular expression of its own
            continue
        response = Client().get(address)
        to_sign_in = response.status_code == 302 and "sign-in" in response["Location"]
        to_admin_sign_in = response.status_code == 302 and "/admin/login" in response["Location"]
        if not (to_sign_in or to_admin_sign_in or response.status_code in (401, 403, 404, 405)):
            is_open.add(name)
    assert is_open == OPEN
    names = {name for name, _ in routes(get_resolver().url_patterns)}
    unwanted = {
        "account_signup", "account_email", "account_reset_password", "account_change_password",
        "socialaccount_connections", "socialaccount_signup", "mfa_signup_webauthn", "mfa_login_webauthn",
    }  # fmt: skip
    assert not names & unwanted

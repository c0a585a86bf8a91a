"""Signing in at the company's issuer. tests/interop/ has the same with a real issuer and a browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client
from django.urls import reverse

from analysis.ingest import ingest
from analysis.models import IngestedRecord
from analysis.operations import IngestRecords
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from foundation.people.permissions import build_caller
from memories import services
from memories.operations import Remember
from memory_project.accounts import people, sign_in_links
from memory_project.accounts.tokens import create_token
from memory_project.models import ApiToken, CompanyGroup, CompanyIdentity, User
from tests.fake_issuer import CLIENT, FakeIssuer, serve

pytestmark = pytest.mark.django_db

NEW = {"sub": "u-1", "email": "new@example.org", "email_verified": True, "name": "Nora New", "groups": ["analysts"]}
ALICE = {**NEW, "sub": "u-2", "email": "alice@example.org", "name": "Alice Arden"}


@pytest.fixture(scope="module")
def served_issuer() -> Iterator[FakeIssuer]:
    with serve() as served:
        yield served


@pytest.fixture
def issuer(served_issuer: FakeIssuer, settings: Any) -> FakeIssuer:
    fresh = FakeIssuer(url=served_issuer.url, key=served_issuer.key)
    vars(served_issuer).update(vars(fresh))
    settings.SSO_ISSUER = served_issuer.url
    settings.SSO_CLIENT_ID, settings.SSO_NAME = CLIENT, "Fernhill"
    settings.SSO_CREATE_ACCOUNTS = True
    app = {"provider_id": "company", "name": "Fernhill", "client_id": CLIENT, "secret": "hush"}
    app["settings"] = {"server_url": served_issuer.url, "scope": ["openid", "email"]}  # type: ignore[assignment]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
    return served_issuer


@pytest.fixture
def groups(personas: dict[str, Persona]) -> dict[str, CompanyGroup]:
    rows = {
        "analysts": CompanyGroup.objects.create(name="analysts"),
        "curators": CompanyGroup.objects.create(name="curators", is_curator=True),
        "admins": CompanyGroup.objects.create(name="admins", is_admin=True),
    }
    rows["analysts"].personas.set([personas["sales"]])
    return rows


def sign_in(issuer: FakeIssuer, claims: dict[str, Any], client: Client | None = None, page: str = "") -> Any:
    """Return the response of the callback, with the browser as `client`."""
    browser = client or Client()
    issuer.claims = claims
    start = browser.get(reverse("company-sign-in"), {"next": page} if page else {})
    assert start.status_code == 302, start.content
    return browser.get(reverse("company-callback"), issuer.authorize(start["Location"]))


def is_signed_in(client: Client) -> bool:
    return client.get(reverse("my-knowledge")).status_code == 200


def personas_of(user: User) -> list[str]:
    return sorted(PersonaMembership.objects.filter(user=user).values_list("persona__name", flat=True))


def test_the_first_sign_in_creates_an_account_with_what_the_groups_give(issuer: FakeIssuer, groups: Any) -> None:
    response = sign_in(issuer, {**NEW, "email": "New@Example.org", "groups": ["analysts", "curators", "golfers"]})
    assert response["Location"] == reverse("my-knowledge")
    assert is_signed_in(response.client)
    user = User.objects.get(email="new@example.org")
    assert (user.name, user.has_usable_password(), user.is_superuser) == ("Nora New", False, False)
    assert (personas_of(user), people.rights_of(user)) == (["sales"], ["curator"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"email_verified": False}, "has not verified"),
        ({"email_verified": "true"}, "has not verified"),
        ({"email_verified": None}, "has not verified"),
        ({"email": None}, "did not send your e-mail"),
        ({"email": "nobody"}, "did not send your e-mail"),
        ({"groups": ["golfers"]}, "None of your groups"),
        ({"groups": None}, "None of your groups"),
        ({"groups": {"analysts": True}}, "is not a list"),
        ({"groups": ["x"] * 10_001}, "is not a list"),
        ({"groups": None, "_claim_names": {"groups": "src1"}}, "too many groups"),
    ],
)
@pytest.mark.parametrize("email", ["ada@example.org", "new@example.org"])
def test_claims_that_do_not_suffice_give_no_account(
    issuer: FakeIssuer, groups: Any, ada_user: User, email: str, changes: dict[str, Any], message: str
) -> None:
    claims = {name: value for name, value in {**NEW, "email": email, **changes}.items() if value is not None}
    response = sign_in(issuer, claims)
    assert response.status_code == 403
    assert message in response.content.decode()
    assert not is_signed_in(response.client)
    assert not CompanyIdentity.objects.exists()
    assert not User.objects.filter(email="new@example.org").exists()
    assert User.objects.get(pk=ada_user.pk).is_active


def test_accounts_are_created_only_where_allowed(issuer: FakeIssuer, groups: Any, settings: Any) -> None:
    settings.SSO_DOMAINS = ["example.com"]
    assert "of example.com only" in sign_in(issuer, NEW).content.decode()
    assert "of example.com only" in sign_in(issuer, {**NEW, "email": "a@evil-example.com"}).content.decode()
    settings.SSO_CREATE_ACCOUNTS = False
    assert "ask an admin to invite you" in sign_in(issuer, NEW).content.decode()
    assert not User.objects.exists()


def test_an_account_is_found_by_subject_after_its_first_link(issuer: FakeIssuer, groups: Any, alice_user: User) -> None:
    assert is_signed_in(sign_in(issuer, {**ALICE, "email": "ALICE@example.org"}).client)
    # the address does not count any more, neither of the linked person nor of somebody who has taken it over
    assert is_signed_in(sign_in(issuer, {**ALICE, "email": "other@example.org", "email_verified": False}).client)
    thief = sign_in(issuer, {**ALICE, "sub": "u-3"})
    assert "Another identity" in thief.content.decode()
    assert not is_signed_in(thief.client)
    assert User.objects.count() == 1


def test_groups_replace_only_what_groups_gave(
    issuer: FakeIssuer, groups: dict[str, CompanyGroup], alice_user: User, personas: dict[str, Persona]
) -> None:
    PersonaMembership.objects.filter(user=alice_user).delete()
    PersonaMembership.objects.create(user=alice_user, persona=personas["supply"], is_default=True)  # by hand
    sign_in(issuer, {**ALICE, "groups": ["analysts", "admins", "curators"]})
    alice_user.refresh_from_db()
    assert (personas_of(alice_user), alice_user.is_superuser) == (["sales", "supply"], True)
    groups["analysts"].personas.set([])
    sign_in(issuer, {**ALICE, "groups": ["analysts"]})
    alice_user.refresh_from_db()
    assert (personas_of(alice_user), alice_user.is_superuser, alice_user.is_staff) == (["supply"], False, False)
    assert people.rights_of(alice_user) == []


def test_an_admin_of_the_company_s_groups_keeps_no_copies_after_leaving_them(
    issuer: FakeIssuer, groups: dict[str, CompanyGroup], alice_user: User, bob: Caller
) -> None:
    secret = services.remember(bob, Remember(content="The margin is private.", visibility="private")).record
    sign_in(issuer, {**ALICE, "groups": ["analysts", "admins"]})
    admin = build_caller(User.objects.get(pk=alice_user.pk), channel="test")
    ingest(admin, IngestRecords(analysis_id="all", model="memory", ingest_all=True))
    assert IngestedRecord.objects.filter(record_id=secret.pk.hex).exists()
    sign_in(issuer, {**ALICE, "groups": ["analysts"]})
    assert not IngestedRecord.objects.filter(record_id=secret.pk.hex).exists()


def test_without_a_mapped_group_the_account_ends(
    issuer: FakeIssuer, groups: Any, alice_user: User, ada: Caller
) -> None:
    browser = sign_in(issuer, ALICE).client
    create_token(build_caller(alice_user, channel="test"), user=alice_user, name="laptop")
    response = sign_in(issuer, {**ALICE, "groups": []})
    assert "your account is disabled" in response.content.decode()
    alice_user.refresh_from_db()
    assert not alice_user.is_active
    assert not ApiToken.objects.filter(revoked_at=None).exists()
    assert not is_signed_in(browser)
    # the group returns, and so does the account, but not its old sessions and tokens
    assert is_signed_in(sign_in(issuer, ALICE).client)
    assert not is_signed_in(browser)
    # an account that an admin has deactivated stays so
    people.deactivate(ada, person=alice_user)
    assert not is_signed_in(sign_in(issuer, ALICE).client)
    sign_in(issuer, {**ALICE, "groups": []})
    assert not is_signed_in(sign_in(issuer, ALICE).client)


def test_without_a_mapping_groups_decide_nothing(issuer: FakeIssuer, ada_user: User) -> None:
    assert is_signed_in(sign_in(issuer, {**ALICE, "email": "ada@example.org", "groups": []}).client)
    ada_user.refresh_from_db()
    assert (ada_user.is_superuser, personas_of(ada_user)) == (True, ["sales"])


def test_a_nested_claim_holds_the_groups(issuer: FakeIssuer, groups: Any, settings: Any) -> None:
    settings.SSO_GROUPS_CLAIM = "realm_access.roles"
    claims = {**NEW, "groups": [], "realm_access": {"roles": ["analysts"]}}
    assert is_signed_in(sign_in(issuer, claims).client)
    assert not is_signed_in(sign_in(issuer, {**claims, "sub": "u-9", "realm_access": "analysts"}).client)


@pytest.mark.parametrize(
    ("overrides", "settings_of_issuer"),
    [
        ({"nonce": "another"}, {}),
        ({"nonce": None}, {}),
        ({"aud": "another"}, {}),
        ({"aud": [CLIENT, "another"]}, {}),
        ({"iss": "https://issuer.example.org"}, {}),
        ({"exp": int(time.time()) - 120}, {}),
        ({"iat": int(time.time()) + 86_400}, {}),  # still ahead when the test runs
        ({"exp": None}, {}),
        ({"sub": None}, {}),
        ({}, {"algorithm": "none"}),
        ({}, {"algorithm": "HS256", "signing_key": "hush" * 10}),
        ({}, {"signing_key": rsa.generate_private_key(65537, 2048)}),
        ({}, {"profile": {"sub": "somebody else"}}),
    ],
)
def test_a_false_id_token_signs_nobody_in(
    issuer: FakeIssuer, groups: Any, overrides: dict[str, Any], settings_of_issuer: dict[str, Any]
) -> None:
    issuer.overrides = overrides
    vars(issuer).update(settings_of_issuer)
    response = sign_in(issuer, NEW)
    assert response.status_code == 403
    assert not is_signed_in(response.client)
    assert not User.objects.exists()


def test_a_clock_may_differ_by_a_minute(issuer: FakeIssuer, groups: Any) -> None:
    issuer.overrides = {"iat": int(time.time()) + 45, "exp": int(time.time()) - 15}
    assert is_signed_in(sign_in(issuer, NEW).client)


def test_a_replaced_key_of_the_issuer_is_read(issuer: FakeIssuer, groups: Any) -> None:
    assert is_signed_in(sign_in(issuer, NEW).client)
    issuer.key = rsa.generate_private_key(65537, 2048)
    assert is_signed_in(sign_in(issuer, NEW).client)


def test_a_callback_works_once_and_in_one_browser(issuer: FakeIssuer, groups: Any) -> None:
    issuer.claims = NEW
    browser = Client()
    answer = issuer.authorize(browser.get(reverse("company-sign-in"))["Location"])
    other = Client()
    assert other.get(reverse("company-callback"), answer).status_code == 403
    assert not is_signed_in(other)
    assert browser.get(reverse("company-callback"), answer).status_code == 302
    browser.post(reverse("sign-out"))
    assert browser.get(reverse("company-callback"), answer).status_code == 403
    assert not is_signed_in(browser)


def test_another_person_in_the_same_browser_gets_a_new_session(
    issuer: FakeIssuer, groups: Any, alice_user: User
) -> None:
    browser = Client()
    browser.force_login(alice_user)
    session = browser.session.session_key
    sign_in(issuer, NEW, browser)
    assert "new@example.org" in browser.get(reverse("account")).content.decode()
    assert browser.session.session_key != session


def test_only_own_pages_are_opened_afterwards(issuer: FakeIssuer, groups: Any) -> None:
    assert sign_in(issuer, NEW, page="/graph/")["Location"] == "/graph/"
    for page in ("https://evil.example", "//evil.example", "javascript:alert(1)", "/\\evil.example"):
        assert sign_in(issuer, NEW, page=page)["Location"] == reverse("my-knowledge")


def test_arguments_of_the_start_do_not_reach_the_issuer(issuer: FakeIssuer) -> None:
    query = {"auth_params": "prompt=none", "scope": "admin", "process": "connect"}
    location = Client().get(reverse("company-sign-in"), query)["Location"]
    assert "prompt" not in location
    assert "admin" not in location


def test_sign_out_ends_the_session_at_the_issuer(issuer: FakeIssuer, groups: Any) -> None:
    browser = sign_in(issuer, NEW).client
    page = browser.post(reverse("sign-out")).content.decode()
    assert f"{issuer.url}/end_session?id_token_hint=" in page
    assert not is_signed_in(browser)
    browser = sign_in(issuer, NEW).client
    issuer.is_away = True
    assert browser.post(reverse("sign-out"))["Location"] == reverse("sign-in")
    assert not is_signed_in(browser)


def test_while_the_issuer_is_away_passwords_work(issuer: FakeIssuer, alice_user: User) -> None:
    issuer.is_away = True
    response = Client().get(reverse("company-sign-in"))
    assert response.status_code == 503
    assert "Fernhill can’t be reached" in response.content.decode()
    browser = Client()
    browser.post(reverse("sign-in"), {"username": "alice@example.org", "password": "a long password"})
    assert is_signed_in(browser)


def test_passwords_can_be_switched_off(issuer: FakeIssuer, alice_user: User, ada: Caller, settings: Any) -> None:
    assert "Continue with Fernhill" in Client().get(reverse("sign-in")).content.decode()
    settings.LOCAL_PASSWORDS = False
    assert 'type="password"' not in Client().get(reverse("sign-in")).content.decode()
    for name in ("sign-in", "forgot-password"):
        browser = Client()
        response = browser.post(
            reverse(name), {"username": "alice@example.org", "password": "a long password", "email": alice_user.email}
        )
        assert response.status_code == 403
        assert not is_signed_in(browser)
    settings.LOCAL_PASSWORDS = True
    link = people.start_link(alice_user)
    settings.LOCAL_PASSWORDS = False
    assert Client().get(link.partition("://")[2].partition("/")[1] + link.split("/", 3)[3]).status_code == 403
    assert people.start_link(alice_user).endswith(reverse("sign-in"))


def test_an_operators_link_signs_in_once(alice_user: User, settings: Any) -> None:
    link = "/" + sign_in_links.create("Alice@example.org").split("/", 3)[3]
    browser = Client()
    assert "Sign in as" in browser.get(link).content.decode()
    assert not is_signed_in(browser)
    browser.post(link)
    assert is_signed_in(browser)
    assert Client().post(link).status_code == 410
    assert Client().post(link[:-3] + "x/").status_code == 410


def test_without_an_issuer_there_is_no_way_to_it() -> None:
    assert Client().get(reverse("company-sign-in")).status_code == 404
    assert Client().get(reverse("company-callback")).status_code == 404


def test_only_admins_change_what_groups_give(issuer: FakeIssuer, groups: Any, alice_user: User, ada_user: User) -> None:
    sign_in(issuer, {**ALICE, "groups": ["curators"]})
    browser = Client()
    address = reverse("admin:memory_project_companygroup_changelist")
    browser.force_login(User.objects.get(pk=alice_user.pk))
    assert browser.get(address).status_code == 403
    browser.force_login(ada_user)
    assert "curators" in browser.get(address).content.decode()
    browser.post(reverse("admin:person-act", args=[alice_user.pk, "unlink"]))
    assert not CompanyIdentity.objects.exists()

"""Tokens of the company's own issuer."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.test import Client

from foundation.operations.errors import Degraded
from memory_project.accounts import issuer
from memory_project.accounts.recognition import owner_of_token
from memory_project.accounts.tokens import find_token
from memory_project.models import ServiceAccount, User

pytestmark = pytest.mark.django_db
ISSUER = "https://login.example"
FIRST, SECOND = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


class Issuer:
    """Stands in for the issuer: its keys, and how often they were asked for."""

    def __init__(self) -> None:
        self.keys = {"k1": FIRST}
        self.asked = 0
        self.is_down = False

    def fetch(self) -> dict[str, jwt.PyJWK]:
        self.asked += 1
        if self.is_down:
            raise ValueError("down")
        public = [
            {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": name, "alg": "RS256"}
            for name, key in self.keys.items()
        ]
        return {key.key_id or "": key for key in jwt.PyJWKSet.from_dict({"keys": public}).keys}


@pytest.fixture
def company(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Issuer:
    settings.OIDC_ISSUER, settings.OIDC_AUDIENCE = ISSUER, "commonplace"
    company = Issuer()
    monkeypatch.setattr(issuer, "keys", issuer.Keys())
    monkeypatch.setattr(issuer, "fetch_keys", company.fetch)
    return company


def token(key: Any = FIRST, kid: str = "k1", algorithm: str = "RS256", **changes: Any) -> str:
    claims = {
        "iss": ISSUER, "aud": "commonplace", "sub": "u1", "exp": time.time() + 600,
        "email": "Alice@example.org", "email_verified": True, **changes,
    }  # fmt: skip
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, key, algorithm=algorithm, headers={"kid": kid})


def test_a_verified_address_is_the_person(company: Issuer, alice_user: User) -> None:
    found = find_token(token())
    assert found
    assert (found.user, found.rights, found.connection) == (alice_user, [], "issuer")
    assert owner_of_token(token()) == str(alice_user.pk)
    assert company.asked == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "other"}, {"aud": None}, {"iss": "https://evil.example"}, {"iss": None}, {"exp": 1}, {"exp": None},
        {"nbf": time.time() + 6_000}, {"sub": None}, {"email_verified": False}, {"email_verified": "true"},
        {"email_verified": None}, {"email": "nobody@example.org"}, {"email": ["alice@example.org"]}, {"email": None},
        {"key": SECOND}, {"key": "x" * 64, "algorithm": "HS256"}, {"key": None, "algorithm": "none"},
        {"algorithm": "RS512"},
    ],
)  # fmt: skip
def test_invalid_tokens_are_unknown(company: Issuer, alice_user: User, changes: dict[str, Any]) -> None:
    assert find_token(token())
    assert find_token(token(**changes)) is None
    assert owner_of_token(token(**changes)) == ""


def test_inactive_people_are_unknown(company: Issuer, alice_user: User) -> None:
    User.objects.update(is_active=False)
    assert find_token(token()) is None


def test_new_keys_are_fetched_at_most_once_a_minute(company: Issuer, alice_user: User) -> None:
    assert find_token(token())
    company.keys = {"k2": SECOND}
    assert [find_token(token(SECOND, "k2")) for _ in range(5)] == [None] * 5
    assert company.asked == 1
    issuer.keys.fetched_at -= issuer.REFETCH_S
    assert find_token(token(SECOND, "k2"))
    assert company.asked == 2
    assert find_token(token()) is None  # its key is withdrawn


def test_a_withdrawn_key_ends_after_an_hour_unless_the_issuer_is_down(company: Issuer, alice_user: User) -> None:
    assert find_token(token())
    company.is_down = True
    issuer.keys.fetched_at -= issuer.KEPT_S
    assert find_token(token())
    company.is_down, company.keys = False, {"k2": SECOND}
    issuer.keys.fetched_at -= issuer.KEPT_S
    assert find_token(token()) is None
    assert company.asked == 3


def test_while_the_issuer_is_down_only_its_tokens_fail(company: Issuer, alice_user: User) -> None:
    company.is_down = True
    for _ in range(2):
        with pytest.raises(Degraded):
            find_token(token())
    assert company.asked == 1
    assert find_token("cpl_x") is None


def test_services_act_only_for_whom_an_admin_has_allowed(company: Issuer, alice_user: User) -> None:
    service = token(email=None, sub="robot")
    assert find_token(service) is None
    row = ServiceAccount.objects.create(subject="robot", person=alice_user, persona="sales")
    found = find_token(service)
    assert found
    assert (found.user, found.persona, found.rights) == (alice_user, "sales", [])
    row.delete()
    assert find_token(service) is None


def test_the_metadata_name_the_issuer(company: Issuer) -> None:
    metadata = Client().get("/.well-known/oauth-protected-resource/mcp").json()
    assert metadata["authorization_servers"] == [ISSUER]


def test_only_admins_declare_services(ada_user: User, alice_user: User) -> None:
    User.objects.filter(pk=alice_user.pk).update(is_staff=True)
    for user, status in ((ada_user, 200), (alice_user, 403)):
        browser = Client()
        browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        assert browser.get("/admin/memory_project/serviceaccount/add/").status_code == status

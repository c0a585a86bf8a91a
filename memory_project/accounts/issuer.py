"""Tokens of the company's own issuer (OIDC_ISSUER): signed JWTs for people, and for services that act for a person."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import httpx
import jwt
from django.conf import settings
from django.utils.translation import gettext

from foundation.operations.errors import Degraded
from foundation.people.caller import Limit
from memory_project.models import ServiceAccount, User

ALGORITHMS = ["RS256", "ES256"]
MAX_TOKEN = 8_192  # characters
REFETCH_S = 60.0  # minimum time between two requests for the keys
KEPT_S = 3_600.0  # after which known keys are fetched again, so that a withdrawn key ends
LEEWAY_S = 30  # tolerated difference between the clocks
TIMEOUT_S = 5.0


@dataclass(frozen=True)
class IssuedToken:
    """A verified token, in the form of an ApiToken."""

    user: User
    connection: str
    persona: str = ""
    rights: ClassVar[list[str]] = []
    graph: ClassVar[str] = ""
    limits: ClassVar[tuple[Limit, ...]] = ()
    toolsets: ClassVar[list[str]] = []
    read_only: ClassVar[bool] = False


@dataclass
class Keys:
    """The issuer's public keys by key id. An unknown key id leads to a new request, at most once in REFETCH_S."""

    by_id: dict[str, jwt.PyJWK] = field(default_factory=dict)
    fetched_at: float = -REFETCH_S
    failed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key, or None if the issuer has none of this id. Raises Degraded if the issuer is unreachable."""
        with self.lock:
            age = time.monotonic() - self.fetched_at
            if age >= KEPT_S or (age >= REFETCH_S and key_id not in self.by_id):
                self.fetched_at = time.monotonic()
                try:
                    self.by_id = fetch_keys()
                    self.failed = False
                except (httpx.HTTPError, ValueError, KeyError, TypeError, jwt.PyJWTError):
                    self.failed = True
            if key_id not in self.by_id and self.failed:
                raise Degraded(gettext("the company's token issuer can't be reached; tokens of this server work"))
            return self.by_id.get(key_id)


keys = Keys()


def fetch_keys() -> dict[str, jwt.PyJWK]:
    with httpx.Client(timeout=TIMEOUT_S) as client:
        address = settings.OIDC_JWKS_URL
        if not address:
            metadata = client.get(f"{settings.OIDC_ISSUER.rstrip('/')}/.well-known/openid-configuration")
            metadata.raise_for_status()
            if metadata.json()["issuer"] != settings.OIDC_ISSUER:
                raise ValueError("the metadata are those of another issuer")
            address = metadata.json()["jwks_uri"]
        answer = client.get(address)
        answer.raise_for_status()
    found = jwt.PyJWKSet.from_dict(answer.json()).keys
    return {key.key_id: key for key in found if key.key_id and key.public_key_use in (None, "sig")}


def is_candidate(text: str) -> bool:
    return bool(settings.OIDC_ISSUER) and text.count(".") == 2 and len(text) <= MAX_TOKEN


def verified_claims(text: str) -> dict[str, Any] | None:
    """Return the claims of a valid token, or None. Raises Degraded if the keys can't be fetched."""
    try:
        header = jwt.get_unverified_header(text)
        # unverified, but it saves a request for the keys for each token of a stranger
        if jwt.decode(text, options={"verify_signature": False}).get("iss") != settings.OIDC_ISSUER:
            return None
        key = keys.find(str(header.get("kid", ""))) if header.get("alg") in ALGORITHMS else None
        if key is None:
            return None
        claims: dict[str, Any] = jwt.decode(
            text,
            key,
            algorithms=ALGORITHMS,
            audience=settings.OIDC_AUDIENCE,
            issuer=settings.OIDC_ISSUER,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return claims


def find(text: str) -> IssuedToken | None:
    """Return the person that a token of the issuer is for, or None if it is not valid or the person has no account.

    A token with an e-mail address is the person's own, and the issuer must have verified the address. Any other token
    is that of a service, and an admin must have allowed its subject to act for a person.
    """
    claims = verified_claims(text) if is_candidate(text) else None
    if claims is None:
        return None
    subject = str(claims["sub"])[:255]
    email = claims.get(settings.OIDC_EMAIL_CLAIM)
    if email is None:
        service = (
            ServiceAccount.objects.select_related("person").filter(subject=subject, person__is_active=True).first()
        )
        return IssuedToken(service.person, f"service {service.pk}", service.persona) if service else None
    if claims.get("email_verified") is not True or not isinstance(email, str) or not email.isprintable():
        return None
    user = User.objects.filter(email=email.strip().lower(), is_active=True).first()
    return IssuedToken(user, "issuer") if user else None

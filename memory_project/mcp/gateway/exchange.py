"""Token exchange (RFC 8693): a caller's token of OIDC_ISSUER for one that the upstream accepts.

Only tokens of the company's issuer are exchanged, and only at this issuer. Tokens of Commonplace never leave it, and
the upstream gets the new token alone. Subject tokens are kept in memory until they expire, and are stored nowhere.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import httpx2
import jwt

from foundation.operations import errors
from foundation.people.caller import Caller
from memory_project.mcp.gateway import oauth
from memory_project.mcp.gateway.declaration import Upstream

CONNECTION = "issuer"  # of callers that come with a person's token of OIDC_ISSUER
MAX_KEPT = 10_000  # people

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"


@dataclass
class _Kept:
    """Tokens by person, until they expire."""

    tokens: dict[tuple[str, ...], oauth.OAuthTokens] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, key: tuple[str, ...], tokens: oauth.OAuthTokens) -> None:
        with self.lock:
            if len(self.tokens) >= MAX_KEPT:
                self.tokens = {name: kept for name, kept in self.tokens.items() if kept.is_fresh(0)}
            if len(self.tokens) < MAX_KEPT:
                self.tokens[key] = tokens

    def get(self, key: tuple[str, ...]) -> oauth.OAuthTokens | None:
        with self.lock:
            kept = self.tokens.get(key)
            if kept is not None and not kept.is_fresh(0):
                del self.tokens[key]
                return None
            return kept


_subjects, _exchanged = _Kept(), _Kept()
_latest: list[Caller] = []


def remember(caller: Caller, text: str) -> None:
    """Keep the token that a person has come with. It has been verified."""
    expires_at = float(jwt.decode(text, options={"verify_signature": False})["exp"])
    _subjects.put((caller.email,), oauth.OAuthTokens(access_token=text, expires_at=expires_at))
    _latest[:] = [caller]


def present() -> list[Caller]:
    """Return the last person who has come with a token that is still valid, or nobody."""
    return [caller for caller in _latest if _subjects.get((caller.email,)) is not None]


def access_token(upstream: Upstream, caller: Caller, *, refused: str = "") -> oauth.OAuthTokens:
    """Return a token for the upstream. Raises Degraded if the caller has not come with a token of the issuer."""
    declared = upstream.exchange
    assert declared is not None
    key = (upstream.name, declared.model_dump_json(), upstream.origin, caller.email)
    kept = _exchanged.get(key)
    subject = _subjects.get((caller.email,)) if caller.connection == CONNECTION else None
    if subject is None:
        raise errors.Degraded(
            f"{upstream.name}: only takes calls with a token of the company's issuer, which is exchanged"
        )
    if kept is not None and kept.is_fresh() and kept.access_token != refused:
        return kept
    tokens = _exchange(upstream, subject.access_token)
    if not tokens.expires_at:
        tokens = tokens.model_copy(update={"expires_at": subject.expires_at})
    _exchanged.put(key, tokens)
    return tokens


def _exchange(upstream: Upstream, subject: str) -> oauth.OAuthTokens:
    declared = upstream.exchange
    assert declared is not None
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "subject_token": subject,
        "subject_token_type": ACCESS_TOKEN,
        "requested_token_type": ACCESS_TOKEN,
        "audience": declared.audience,
        "resource": "" if declared.audience else upstream.url,
        "scope": " ".join(declared.scopes),
    }
    secret = upstream.fill(declared.client_secret)

    async def send(client: httpx2.AsyncClient, upstream: Upstream) -> oauth.OAuthTokens:
        return await oauth.token_request(
            client, upstream, declared.token_url, form,
            client_id=declared.client_id, client_secret=secret, by_header=True,
        )  # fmt: skip

    try:
        tokens: oauth.OAuthTokens = oauth.run(upstream, send)
    except oauth.SignInRefused:
        raise errors.Degraded(f"{upstream.name}: the company's issuer refused to exchange your token for it") from None
    return tokens

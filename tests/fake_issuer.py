"""A stand-in for the company's OpenID Connect issuer, over HTTP, with keys and answers that a test can change."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.http_servers import QuietHandler, serving

CLIENT = "commonplace"


@dataclass
class FakeIssuer:
    url: str = ""
    claims: dict[str, Any] = field(default_factory=dict)  # of the person who signs in next
    overrides: dict[str, Any] = field(default_factory=dict)  # claims of the ID token that a test falsifies
    profile: dict[str, Any] = field(default_factory=dict)  # the user info, besides `sub`
    challenge: str = ""  # the PKCE challenge of the last authorization
    nonce: str = ""
    is_away: bool = False
    algorithm: str = "RS256"
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    signing_key: Any = None  # if not the published one

    def authorize(self, location: str) -> dict[str, str]:
        """Answer the redirect of a browser. Returns the parameters of the callback."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        self.challenge, self.nonce = query["code_challenge"], query["nonce"]
        return {"code": "a-code", "state": query["state"]}

    def id_token(self) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": self.nonce}
        values = {**claims, **self.claims, **self.overrides}
        values = {name: value for name, value in values.items() if value is not None}
        key: Any = None if self.algorithm == "none" else self.signing_key or self.key
        return jwt.encode(values, key, algorithm=self.algorithm, headers={"kid": "one"})

    def answer(self, path: str, form: dict[str, list[str]]) -> dict[str, Any] | None:
        match path:
            case "/.well-known/openid-configuration":
                names = ("authorization", "token", "userinfo", "end_session")
                return {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"} | {
                    f"{name}_endpoint": f"{self.url}/{name}" for name in names
                }
            case "/jwks":
                key = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
                return {"keys": [{**key, "kid": "one", "alg": "RS256", "use": "sig"}]}
            case "/token":
                digest = hashlib.sha256(form["code_verifier"][0].encode()).digest()
                if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != self.challenge:
                    return None
                return {"access_token": "access", "token_type": "Bearer", "id_token": self.id_token()}
            case "/userinfo":
                return {"sub": self.claims["sub"], **self.profile}
        return None


@contextmanager
def serve() -> Iterator[FakeIssuer]:
    issuer = FakeIssuer()

    class Answers(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            answer = None if issuer.is_away else issuer.answer(urlsplit(self.path).path, parse_qs(body))
            self.send_response(503 if issuer.is_away else 200 if answer is not None else 400)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(answer or {"error": "invalid_request"}).encode())

        do_POST = do_GET

    with serving(Answers) as issuer.url:
        yield issuer

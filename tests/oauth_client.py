"""A program that is connected by OAuth, in tests."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.test import Client

from memory_project.models import User

BACK = "http://127.0.0.1:4711/callback"


VERIFIER = "v" * 64


CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


RESOURCE = f"{settings.COMMONPLACE_URL}/mcp"


def register(**changes: Any) -> Any:
    metadata = {"client_name": "Robo", "redirect_uris": [BACK], "token_endpoint_auth_method": "none", **changes}
    return Client().post("/oauth/register", json.dumps(metadata), content_type="application/json")


@pytest.fixture
def client_id(db: None) -> str:
    return str(register().json()["client_id"])


@pytest.fixture
def browser(alice_user: User) -> Client:
    browser = Client()
    browser.force_login(alice_user, backend="django.contrib.auth.backends.ModelBackend")
    return browser


def request_of(client_id: str, **changes: Any) -> dict[str, Any]:
    values = {
        "client_id": client_id, "redirect_uri": BACK, "response_type": "code", "scope": "mcp", "state": "s1",
        "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": RESOURCE, **changes,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def consent(browser: Client, client_id: str, **changes: Any) -> Any:
    choices = {"allow": "true", "persona": "", "toolsets": ["memory", "knowledge"], "days": "30"}
    return browser.post("/oauth/authorize", {**request_of(client_id), **choices, **changes})


def code_of(response: Any) -> str:
    return str(parse_qs(urlsplit(response["Location"]).query)["code"][0])


def exchange(client_id: str, code: str, **changes: Any) -> Any:
    values = {
        "grant_type": "authorization_code", "client_id": client_id, "code": code, "redirect_uri": BACK,
        "code_verifier": VERIFIER, "resource": RESOURCE, **changes,
    }  # fmt: skip
    return Client().post("/oauth/token", {name: value for name, value in values.items() if value is not None})


def connected(browser: Client, client_id: str, **choices: Any) -> dict[str, Any]:
    response = exchange(client_id, code_of(consent(browser, client_id, **choices)))
    assert response.status_code == 200, response.content
    answer: dict[str, Any] = response.json()
    return answer

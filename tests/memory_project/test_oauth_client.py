"""The Python SDK's OAuth client against a running server, with the address of /mcp alone."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from asgiref.sync import sync_to_async
from django.db import connection
from django.test import Client as Browser
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from memory_project.models import ConnectedApp, User


class Memory:
    """Keeps what the client stores."""

    tokens = client_info = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client_info

    async def set_client_info(self, client_info: Any) -> None:
        self.client_info = client_info


class Person:
    """Opens the address that the client shows, and allows it."""

    def __init__(self, user: User) -> None:
        self.browser = Browser()
        self.browser.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        self.answer = ""
        self.asked = 0

    async def open(self, url: str) -> None:
        self.asked += 1
        await sync_to_async(self._allow, thread_sensitive=False)(url)

    def _allow(self, url: str) -> None:
        parts = urlsplit(url)
        page = self.browser.get(f"{parts.path}?{parts.query}")
        fields = {name: value for name, value in page.context["form"].initial.items() if value is not None}
        choices = {"allow": "true", "toolsets": ["memory"], "days": "30", "persona": "", "read_only": "on"}
        self.answer = self.browser.post(parts.path, {**fields, **choices})["Location"]
        connection.close()  # this thread's own

    async def back(self) -> AuthorizationCodeResult:
        values = parse_qs(urlsplit(self.answer).query)
        return AuthorizationCodeResult(**{name: values[name][0] for name in ("code", "state", "iss") if name in values})


async def tools_of(url: str, person: Person, memory: Memory) -> list[str]:
    metadata = OAuthClientMetadata(client_name="SDK", redirect_uris=["http://127.0.0.1:9/back"])  # type: ignore[list-item]
    provider = OAuthClientProvider(url, metadata, memory, person.open, person.back)
    async with (
        httpx2.AsyncClient(auth=provider, timeout=30) as http_client,
        Client(streamable_http_client(url, http_client=http_client)) as client,
    ):
        return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/mcp", "/mcp/x/memory,graph"])
def test_the_address_is_all_that_the_sdk_needs(http: str, alice_user: User, settings: Any, path: str) -> None:
    settings.COMMONPLACE_URL = http
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "OIDC_ISS_ENDPOINT": http}
    person, memory = Person(alice_user), Memory()
    assert asyncio.run(tools_of(f"{http}{path}", person, memory)) == [
        "memory_manage",
        "memory_recall",
        "memory_briefing",
    ]
    assert asyncio.run(tools_of(f"{http}{path}", person, memory)) == [
        "memory_manage",
        "memory_recall",
        "memory_briefing",
    ]
    assert person.asked == 1
    ConnectedApp.objects.get()


@pytest.mark.django_db(transaction=True)
def test_every_refusal_says_where_to_ask(http: str, settings: Any) -> None:
    settings.COMMONPLACE_URL = http
    for path in ("/mcp", "/mcp/x/memory"):
        metadata = f"{http}/.well-known/oauth-protected-resource{path}"
        where = f'resource_metadata="{metadata}", scope="mcp offline_access"'
        bare = httpx2.post(f"{http}{path}", json={}, timeout=60)
        assert (bare.status_code, bare.headers["www-authenticate"]) == (401, f"Bearer {where}")
        for token in ("x", "cpl_x", "a.b.c"):
            headers = {"Authorization": f"Bearer {token}"}
            wrong = httpx2.post(f"{http}{path}", json={}, headers=headers, timeout=60)
            expected = f'Bearer {where}, error="invalid_token"'
            assert (wrong.status_code, wrong.headers["www-authenticate"]) == (401, expected)

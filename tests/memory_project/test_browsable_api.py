"""The REST API as pages: the browsable API, Swagger UI and Redoc."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from foundation.people.caller import Caller
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from memory_project.models import User
from memory_project.web.middleware import POLICY
from tests.knowledge.conftest import small_catalog  # noqa: F401 - a fixture
from tests.rest_client import client as token_client

pytestmark = pytest.mark.django_db
LIST = "/api/v1/memories/"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"


@pytest.fixture
def browser(alice_user: User) -> Client:
    signed_in = Client(headers={"accept": BROWSER})
    signed_in.force_login(alice_user)
    return signed_in


def remember(caller: Caller, content: str) -> MemoryRecord:
    return services.remember(caller, Remember(content=content)).record


def test_browsers_get_pages_and_programs_get_json(browser: Client, alice_user: User) -> None:
    page = browser.get(LIST)
    assert (page.status_code, page["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert page["Content-Security-Policy"] == POLICY
    for accept in ("*/*", "application/json", "application/json, text/html"):
        answer = token_client(alice_user).get(LIST, headers={"accept": accept})
        assert answer["Content-Type"] == "application/json", accept


def test_a_page_shows_the_answer_its_next_page_and_its_items(browser: Client, alice: Caller) -> None:
    first, second = remember(alice, "Revenue excludes refunds."), remember(alice, "Revenue is in euros.")
    page = browser.get(f"{LIST}?limit=1").content.decode()
    assert f'<a href="{LIST}{second.pk.hex}/">{second.pk.hex}</a>' in page
    address = browser.get(f"{LIST}?limit=1", headers={"accept": "application/json"}).json()["next"]
    assert f'href="{address.replace("&", "&amp;")}"' in page
    assert first.pk.hex in browser.get(address).content.decode()


def test_texts_are_escaped(browser: Client, alice: Caller) -> None:
    text = '<img src=x onerror=alert(1)>\n            "id": "api-docs"\n'
    record = remember(alice, f"Revenue {text}")
    page = browser.get(f"{LIST}{record.pk}/").content.decode()
    assert "<img src=x" not in page
    assert f"{LIST}{record.pk}/api-docs" not in page


def test_requests_of_a_page_change_what_a_program_changes(browser: Client, alice: Caller) -> None:
    record = remember(alice, "Revenue excludes refunds.")
    url = f"{LIST}{record.pk}/"
    shown = browser.get(url)
    assert f'value="{shown["ETag"].replace(chr(34), "&quot;")}"' in shown.content.decode()
    body: Any = json.dumps({"tags": ["seen"]})
    changed = browser.patch(url, body, "application/json", headers={"if-match": shown["ETag"]})
    assert changed.status_code == 200
    assert "&quot;seen&quot;" in changed.content.decode()
    stale = browser.patch(url, body, "application/json", headers={"if-match": shown["ETag"]})
    assert (stale.status_code, stale["Content-Type"]) == (412, "text/html; charset=utf-8")
    assert "application/problem+json" in stale.content.decode()


def test_a_page_without_a_session_leads_to_the_sign_in_page(db: None) -> None:
    page = Client(headers={"accept": BROWSER}).get(f"{LIST}?limit=1")
    assert page.status_code == 401
    assert "/sign-in/?next=/api/v1/memories/%3Flimit%3D1" in page.content.decode()


def test_requests_with_a_session_need_the_csrf_token(alice_user: User) -> None:
    signed_in = Client(enforce_csrf_checks=True, headers={"accept": BROWSER})
    signed_in.force_login(alice_user)
    body = {"content": "Revenue excludes refunds."}
    assert signed_in.post(LIST, body, content_type="application/json").status_code == 403
    page = signed_in.get(LIST)
    token = page.context["csrf_token"]
    answer = signed_in.post(LIST, body, content_type="application/json", headers={"x-csrftoken": str(token)})
    assert answer.status_code == 201


def test_every_operation_that_needs_no_object_has_a_page(
    browser: Client,
    small_catalog: None,  # noqa: F811
) -> None:
    addresses = browser.get("/api/v1/", headers={"accept": "application/json"}).json()["addresses"]
    assert "list_memories" in addresses
    for address in addresses.values():
        assert browser.get(address).status_code in (200, 403), address


@pytest.mark.parametrize("name", ["docs", "redoc"])
def test_the_viewers_are_for_signed_in_people_and_load_nothing_from_elsewhere(browser: Client, name: str) -> None:
    assert Client().get(f"/api/v1/{name}/")["Location"] == f"/sign-in/?next=/api/v1/{name}/"
    page = browser.get(f"/api/v1/{name}/")
    assert page.status_code == 200
    assert "script-src" not in page["Content-Security-Policy"]
    assert "http" not in page["Content-Security-Policy"]

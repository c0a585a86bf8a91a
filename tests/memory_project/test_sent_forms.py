"""Forms that are sent twice, from expired pages, or to what is gone. Nothing happens twice, and no text is lost."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memories.models import MemoryRecord
from memory_project.models import AuditEvent, User
from memory_project.portal.pages.models import Submission

FORM = {"content": "Orders close at night.", "dimension": "knowledge", "category": "general", "confidence": "high",
        "visibility": "persona", "tags": "", "entity_urns": ""}  # fmt: skip
TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="(\w+)"')


def browser(user: User) -> Client:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    return client


def opened(client: Client, address: str) -> str:
    """Open a page and return its CSRF token."""
    match = TOKEN.search(client.get(address).content.decode())
    assert match
    return match[1]


def body(response: Any) -> str:
    return " ".join(response.content.decode().split())


@pytest.mark.django_db
def test_a_form_sent_twice_is_carried_out_once(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("save-view")
    form = {"csrfmiddlewaretoken": opened(client, "/"), "name": "Corrections", "page": "my-knowledge",
            "back_to": "/?category=correction"}  # fmt: skip
    first, second = client.post(page, form), client.post(page, form)
    assert (first.status_code, first["Location"]) == (second.status_code, second["Location"])
    assert alice_user.saved_views.count() == 1
    assert "You submitted this form twice" in body(client.get("/"))


@pytest.mark.django_db
def test_a_decision_after_another_one_of_the_same_page_is_a_new_one(alice_user: User, fact: MemoryRecord) -> None:
    client, page = browser(alice_user), reverse("change-memory", args=[fact.pk, "share"])
    token = opened(client, reverse("memory", args=[fact.pk]))
    for visibility in ("private", "everyone", "private"):
        client.post(page, {"csrfmiddlewaretoken": token, "visibility": visibility})
    fact.refresh_from_db()
    assert fact.visibility == "private"


@pytest.mark.django_db
def test_a_form_with_an_error_may_be_sent_again(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("create-memory")
    token = opened(client, page)
    refused = client.post(page, FORM | {"csrfmiddlewaretoken": token, "content": "short"})
    assert refused.status_code == 200
    assert Submission.objects.count() == 0
    assert client.post(page, FORM | {"csrfmiddlewaretoken": token}).status_code == 302
    assert MemoryRecord.objects.count() == 1


@pytest.mark.django_db
def test_a_form_whose_request_broke_off_may_be_sent_again(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("create-memory")
    form = FORM | {"csrfmiddlewaretoken": opened(client, page)}
    client.post(page, form)
    Submission.objects.update(location="", started_at=timezone.now() - timedelta(hours=1))
    response = client.post(page, form)
    assert response.status_code == 302
    assert Submission.objects.exclude(location="").count() == 1


@pytest.mark.django_db
def test_the_same_form_of_two_people_is_carried_out_for_both(alice_user: User, bob_user: User) -> None:
    for user in (alice_user, bob_user):
        client, page = browser(user), reverse("create-memory")
        client.post(page, FORM | {"csrfmiddlewaretoken": opened(client, page)})
    assert MemoryRecord.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_double_click_makes_one_token(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("make-token")
    form = {"csrfmiddlewaretoken": opened(client, reverse("connect")), "name": "My laptop"}

    def send(_: int) -> HttpResponse:
        other = Client(enforce_csrf_checks=True)
        other.cookies = client.cookies
        try:
            return other.post(page, form)  # type: ignore[return-value]
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        responses = list(threads.map(send, range(2)))
    assert sorted(response.status_code for response in responses) == [200, 302]
    assert alice_user.api_tokens.count() == 1


@pytest.mark.django_db
def test_the_browser_learns_which_draft_was_sent(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("create-memory")
    form = FORM | {"csrfmiddlewaretoken": opened(client, page), "draft": "k3j9x0q2"}
    assert "sent-k3j9x0q2" not in client.post(page, form | {"content": "short"}).cookies
    assert client.post(page, form).cookies["sent-k3j9x0q2"]["samesite"] == "Lax"
    hostile = form | {"draft": "x; path=/", "content": "Orders open in the morning."}
    assert not [name for name in client.post(page, hostile).cookies if name.startswith("sent-")]


@pytest.mark.django_db
def test_an_expired_form_has_a_page_with_the_text(alice_user: User) -> None:
    client = browser(alice_user)
    page = reverse("create-memory")
    secrets = {"password": "hunter22", "api_token": "s3cr3t-value"}
    form = FORM | secrets | {"csrfmiddlewaretoken": "x" * 64, "content": "Orders <b>close</b> at night."}
    response = client.post(page, form, headers={"referer": f"http://testserver{page}", "origin": "http://testserver"})
    text = body(response)
    assert (response.status_code, MemoryRecord.objects.count()) == (403, 0)
    assert "Orders &lt;b&gt;close&lt;/b&gt; at night." in text
    assert f'href="{page}"' in text
    assert not [secret for secret in secrets.values() if secret in text]


@pytest.mark.django_db
def test_an_expired_form_of_another_site_shows_none_of_its_text(alice_user: User) -> None:
    client = browser(alice_user)
    response = client.post(
        reverse("create-memory"), FORM | {"content": "Call this number"}, headers={"origin": "https://evil.example"}
    )
    assert (response.status_code, "Call this number" in body(response)) == (403, False)


@pytest.mark.django_db
def test_pages_of_missing_and_unreadable_memories_are_the_same(alice_user: User, olga_user: User, fact: Any) -> None:
    client = browser(olga_user)
    missing = fact.pk.hex.translate(str.maketrans("0123456789abcdef", "fedcba9876543210"))

    def page(pk: str) -> str:
        response = client.get(reverse("memory", args=[pk]))
        assert response.status_code == 404
        return re.sub(r"\w{64}|[0-9a-f-]{32,36}", "", body(response))

    assert page(fact.pk.hex) == page(missing)
    assert "no longer" in page(missing)


@pytest.mark.django_db
def test_text_sent_to_a_memory_that_is_gone_is_shown_again(alice_user: User, olga_user: User, fact: Any) -> None:
    client = browser(olga_user)
    form = {"csrfmiddlewaretoken": opened(client, "/"), "reason": "The mart is loaded at noon."}
    origin = {"origin": "http://testserver"}
    for address in (reverse("change-memory", args=[fact.pk, "wrong"]), "/removed/in/this/version/"):
        response = client.post(address, form, headers=origin)
        assert ("The mart is loaded at noon." in body(response)) == (response.status_code == 404)


@pytest.mark.django_db
def test_a_repetition_is_no_second_act_in_the_audit_log(alice_user: User) -> None:
    client, page = browser(alice_user), reverse("create-memory")
    form = FORM | {"csrfmiddlewaretoken": opened(client, page)}
    client.post(page, form)
    client.post(page, form)
    assert AuditEvent.objects.filter(tool="portal.create-memory").count() == 1

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.people.caller import Caller, system_caller
from knowledge.freshness import stale_detection
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember, Supersede
from memory_project.models import ApiToken, AuditEvent, User
from tests.pages import browser, text

pytestmark = pytest.mark.django_db
HOME = reverse("my-knowledge")


def change_url(record: MemoryRecord, name: str) -> str:
    return reverse("change-memory", args=[record.pk, name])


@pytest.mark.parametrize("url", [HOME, "/connect/", "/memories/new/", "/connect/first-call/"])
def test_pages_ask_to_sign_in(db: None, url: str) -> None:
    response = Client().get(url)
    assert (response.status_code, response.headers["Location"]) == (302, f"/sign-in/?next={url}")


def test_sign_in_ignores_the_case_of_the_address(alice_user: User) -> None:
    client = Client()
    response = client.post("/sign-in/", {"username": "Alice@Example.org", "password": "a long password"})
    assert (response.status_code, response.headers["Location"]) == (302, HOME)


def test_my_knowledge_shows_memories_that_the_user_may_read(
    fact: MemoryRecord, bob_user: User, olga_user: User
) -> None:
    assert "excludes refunds" in text(browser(bob_user), HOME)
    outsider_page = text(browser(olga_user), HOME)
    assert fact.content not in outsider_page
    assert str(fact.pk) not in outsider_page
    assert "No memories yet" in outsider_page


def test_a_search_returns_a_fragment_with_match_reasons(alice_user: User, fact: MemoryRecord) -> None:
    page = text(browser(alice_user), f"{HOME}?q=refunds", headers={"HX-Request": "true"})
    assert "<html" not in page
    assert "excludes refunds" in page
    assert "words 100%" in page
    assert "No results for" in text(browser(alice_user), f"{HOME}?q=zzqx")


def test_a_degraded_search_is_reported(alice_user: User, fact: MemoryRecord, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    page = text(browser(alice_user), f"{HOME}?q=refunds")
    assert "Showing exact words only" in page
    assert "excludes refunds" in page


def test_facets_count_and_filter(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    services.remember(alice, Remember(content="She likes tables more than charts.", dimension="preference"))
    result = browser(alice_user).get(f"{HOME}?dimension=preference").context["result"]
    assert [record.dimension for record in result.records] == ["preference"]
    counts = {facet.name: {o.value: o.count for o in facet.options} for facet in result.facets}
    assert counts["dimension"] == {"": None, "knowledge": 1, "preference": 1}
    assert counts["status"] == {
        "active": 1, "stale": 0, "superseded": 0, "archived": 0, "expired": 0, "not_yet_valid": 0,
    }  # fmt: skip


def test_lists_are_paged_by_keyset(alice: Caller, alice_user: User) -> None:
    for n in range(25):
        services.remember(alice, Remember(content=f"Fact number {n} of many facts."))
    client, ids, url = browser(alice_user), [], HOME
    for size in (20, 5):
        result = client.get(url).context["result"]
        assert len(result.records) == size
        ids += [record.pk for record in result.records]
        url = HOME + result.next_page
    assert len(set(ids)) == 25


def test_invalid_query_strings_cause_no_error(alice_user: User, fact: MemoryRecord) -> None:
    client = browser(alice_user)
    for query in (
        "status=x",
        "after=x",
        "after=2026-01-01T00:00:00~zz",
        "entity=%00",
        "tag=%27%22",
        "q=%00",
        "persona=x",
    ):
        assert client.get(f"{HOME}?{query}").status_code == 200


def test_my_knowledge_makes_a_bounded_number_of_queries(
    alice: Caller, alice_user: User, django_assert_max_num_queries: Any
) -> None:
    for n in range(30):
        services.remember(alice, Remember(content=f"Fact number {n} of many facts."))
    client = browser(alice_user)
    with django_assert_max_num_queries(24):
        client.get(HOME)


def test_hostile_text_is_shown_as_text(alice: Caller, alice_user: User) -> None:
    hostile = "<script>alert(1)</script> [link](javascript:alert(1)) ![x](https://evil.example/x.png) **bold**"
    record = services.remember(alice, Remember(content=hostile, tags=['"><img src=x>'])).record
    for url in (HOME, f"{HOME}?q=script", reverse("memory", args=[record.pk])):
        page = text(browser(alice_user), url)
        assert "<script>alert" not in page
        assert "<img" not in page
        assert 'href="javascript' not in page
    assert "<strong>bold</strong>" in page


def test_every_page_carries_the_content_security_policy(alice_user: User, fact: MemoryRecord) -> None:
    for url in (HOME, "/connect/", "/sign-in/", "/admin/login/", reverse("memory", args=[fact.pk]), "/nowhere/"):
        policy = browser(alice_user).get(url).headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self'")
        assert "unsafe" not in policy


# -- one memory -------------------------------------------------------------------------------------------


def test_a_memory_shows_its_chain_as_word_diffs(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    new = services.supersede(
        alice, Supersede(record_id=fact.pk, content="Revenue in the sales mart includes refunds.")
    ).record
    page = text(browser(alice_user), reverse("memory", args=[new.pk]))
    assert '<del><span class="sr">removed </span>excludes</del>' in page
    assert '<ins><span class="sr">added </span>includes</ins>' in page
    assert ">Open the correction</a>" in text(browser(alice_user), reverse("memory", args=[fact.pk]))


def test_an_outsider_gets_not_found_and_a_colleague_cannot_change_a_memory(
    fact: MemoryRecord, bob_user: User, olga_user: User
) -> None:
    url = reverse("memory", args=[fact.pk])
    assert browser(olga_user).get(url).status_code == 404
    assert "Forget" not in text(browser(bob_user), url)
    for name in ("forget", "share", "erase", "restore"):
        browser(bob_user).post(change_url(fact, name), {"visibility": "everyone", "confirm": "erase"})
        browser(olga_user).post(change_url(fact, name), {"visibility": "everyone", "confirm": "erase"})
    fact.refresh_from_db()
    assert (fact.status, fact.visibility, fact.last_verified_at) == ("active", "persona", None)


def test_a_memory_is_created_edited_and_corrected(alice_user: User) -> None:
    client = browser(alice_user)
    form = {"content": "Revenue excludes refunds.", "dimension": "knowledge", "category": "business_context",
            "confidence": "high", "visibility": "persona", "tags": "revenue, refunds", "entity_urns": ""}  # fmt: skip
    client.post("/memories/new/", form)
    record = MemoryRecord.objects.get()
    assert (record.tags, record.confidence) == (["revenue", "refunds"], "high")
    client.post(
        reverse("edit-memory", args=[record.pk]), {**form, "content": "Revenue excludes all refunds.", "reason": "r"}
    )
    record.refresh_from_db()
    assert record.content == "Revenue excludes all refunds."
    correction = {**form, "content": "Revenue includes refunds.", "reason": "new rule", "correct": "1"}
    client.post(reverse("edit-memory", args=[record.pk]), correction)
    record.refresh_from_db()
    assert record.status == "superseded"


def test_an_error_is_shown_at_its_field(alice_user: User) -> None:
    form = {"content": "Revenue excludes refunds.", "dimension": "knowledge", "category": "general",
            "confidence": "high", "visibility": "persona", "tags": "", "entity_urns": "orders"}  # fmt: skip
    page = str(browser(alice_user).post("/memories/new/", form).content, "utf-8")
    assert "is not in the catalog" in page
    assert not MemoryRecord.objects.exists()


def test_a_memory_is_forgotten_restored_shared_verified_and_erased(alice_user: User, fact: MemoryRecord) -> None:
    client = browser(alice_user)
    for name, fields, column, value in (
        ("forget", {}, "status", "archived"),
        ("restore", {}, "status", "active"),
        ("share", {"visibility": "private"}, "visibility", "private"),
    ):
        client.post(change_url(fact, name), fields)
        fact.refresh_from_db()
        assert getattr(fact, column) == value
    services.mark_stale(system_caller(), record_id=fact.pk, reason="a column went")
    assert "a column went" in text(client, reverse("memory", args=[fact.pk]))
    client.post(change_url(fact, "verify"))
    fact.refresh_from_db()
    assert fact.status == "active"
    client.post(change_url(fact, "erase"), {"confirm": "no"})
    assert MemoryRecord.objects.exists()
    client.post(change_url(fact, "erase"), {"confirm": "erase"})
    assert not MemoryRecord.objects.exists()
    assert client.get(change_url(fact, "forget")).status_code == 405


# -- Connect and the admin --------------------------------------------------------------------------------


def test_connect_creates_and_revokes_a_token(alice_user: User, bob_user: User) -> None:
    client = browser(alice_user)
    page = str(client.post("/connect/tokens/", {"name": "Laptop", "days": "90", "persona": "sales"}).content, "utf-8")
    token = ApiToken.objects.get()
    assert f"Authorization: Bearer {token.prefix}" in page
    assert f"{token.prefix}…" in text(client, "/connect/")
    browser(bob_user).post(f"/connect/tokens/{token.pk}/revoke/")
    assert not ApiToken.objects.get().revoked_at
    client.post(f"/connect/tokens/{token.pk}/revoke/")
    assert ApiToken.objects.get().revoked_at


def test_connect_reports_the_first_call(alice_user: User) -> None:
    client = browser(alice_user)
    assert "Waiting" in text(client, "/connect/first-call/?since=2026-01-01T00:00:00Z")
    AuditEvent.objects.create(
        email=alice_user.email, channel="mcp-http", tool="memory_recall", outcome="ok", duration_ms=3
    )
    assert "memory_recall" in text(client, "/connect/first-call/?since=2026-01-01T00:00:00Z")
    assert "Waiting" in text(client, "/connect/first-call/?since=2999-01-01T00:00:00Z")
    assert client.get("/connect/first-call/?since=2999-99-99").status_code == 400


ADMIN = [
    "knowledge/catalogcursor",
    "knowledge/entitybaseline",
    "knowledge/insight",
    "knowledge/changeset",
    "knowledge/catalogentity",
    "knowledge/catalogaspect",
    "memories/memoryrecord",
    "memories/persona",
    "memories/indexjob",
    "memories/tombstone",
    "memory_project/user",
    "memory_project/apitoken",
    "memory_project/auditevent",
]


@pytest.mark.parametrize("path", ADMIN)
def test_the_admin_lists_every_model(ada_user: User, fact: MemoryRecord, path: str) -> None:
    client = browser(ada_user)
    assert client.get(f"/admin/{path}/").status_code == 200
    assert client.get(f"/admin/{path}/?q=x").status_code in (200, 302)


def test_the_admin_shows_a_memory_and_changes_it_with_services(ada_user: User, fact: MemoryRecord) -> None:
    client = browser(ada_user)
    assert "excludes refunds" in text(client, f"/admin/memories/memoryrecord/{fact.pk}/change/")
    client.post("/admin/memories/memoryrecord/", {"action": "forget", "_selected_action": [fact.pk], "confirm": "1"})
    fact.refresh_from_db()
    assert fact.status == "archived"
    assert fact.revisions.get().changed_by == "ada@example.org"
    assert client.post(f"/admin/memories/memoryrecord/{fact.pk}/delete/", {"post": "yes"}).status_code == 403


def test_the_admin_links_the_page_of_a_memory_and_reports_an_outage(ada_user: User, fact: MemoryRecord) -> None:
    stale_detection.report("DataHub did not answer")
    page = text(browser(ada_user), f"/admin/memories/memoryrecord/{fact.pk}/change/")
    assert "with the catalog was limited: DataHub did not answer" in page
    assert re.search(rf'href="{reverse("memory", args=[fact.pk])}"[^>]*>Open in the portal<', page)
    stale_detection.report("")
    assert "not compared" not in text(browser(ada_user), "/admin/memories/indexjob/")


def test_the_admin_is_for_staff(alice_user: User) -> None:
    assert browser(alice_user).get("/admin/").status_code == 302


def test_health_reports_degraded_services(db: None, settings: Any) -> None:
    assert Client().get("/healthz").json() == {
        "status": "ok",
        "embeddings": "idle",
        "catalog": "ok",
        "tasks": "ok",
        "degraded": False,
    }
    settings.EMBEDDING_PROVIDER = "none"
    assert Client().get("/healthz").json()["degraded"] is True


def test_a_search_can_be_limited_to_an_earlier_time(alice: Caller, alice_user: User) -> None:
    start = timezone.now() - timedelta(days=30)
    old = services.remember(alice, Remember(content="Refunds are left out of revenue."), created_at=start).record
    services.supersede(alice, Supersede(record_id=old.pk, content="Refunds are part of revenue."))
    client, then = browser(alice_user), (start + timedelta(days=3)).date().isoformat()
    page = text(client, f"{HOME}?q=refunds&as_of={then}")
    assert "left out of revenue" in page
    assert "part of revenue" not in page
    assert "is not a time" in text(client, f"{HOME}?q=refunds&as_of=yesterday")

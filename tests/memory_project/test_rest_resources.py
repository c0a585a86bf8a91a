"""The resources of the REST API: each door leads to the service that pages and tools use, for its caller alone."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, reverse

from foundation.people.caller import WIPE, Caller
from knowledge.models import Changeset, Insight
from memories.models import MemoryRecord
from memory_project.models import ApiToken, AuditEvent, User
from memory_project.rest.access import Access
from memory_project.rest.endpoints import Endpoint, Method
from memory_project.rest.lists import Listing
from memory_project.rest.models import IdempotentAnswer
from tests.conftest import REFUNDS
from tests.knowledge.conftest import ORDERS, cora_user, curators, small_catalog  # noqa: F401 - fixtures
from tests.rest_client import client, post

pytestmark = pytest.mark.django_db
API = "/api/v1/"
SECRET = "Only people of the sales persona know about this sentence."


def endpoints() -> list[tuple[str, str, Endpoint | Method]]:
    found = []
    api: Any = next(entry for entry in get_resolver().url_patterns if str(entry.pattern) == "api/v1/")
    for pattern in api.url_patterns:
        for method, endpoint in getattr(getattr(pattern.callback, "view_class", None), "endpoints", {}).items():
            found.append((method, str(pattern.pattern), endpoint))
    return found


LISTS = [address for _, address, endpoint in endpoints() if isinstance(endpoint, Listing) and "<" not in address]
FOR_ADMINISTRATION = [
    (method, address) for method, address, endpoint in endpoints() if endpoint.access is Access.ADMINISTRATION
]


@pytest.fixture
def full(alice_user: User, small_catalog: None) -> Client:  # noqa: F811
    """Alice's client, after she has left something in each list of her own."""
    sender = client(alice_user)
    post(sender, f"{API}memories/", {"content": SECRET})
    post(sender, f"{API}insights/", {"category": "business_context", "insight_text": f"{SECRET} And about orders."})
    post(sender, f"{API}analyses/findings/", {"analysis_id": "a1", "findings": [{"finding": SECRET}]})
    messages = [{"role": "human", "content": SECRET}]
    for address, body in (
        ("conversations/turns/", {"conversation_id": "c1", "messages": messages}),
        ("decisions/", {"key": "format", "value": SECRET}),
        ("cache/", {"query": "What is known?", "response": SECRET}),
    ):
        assert post(sender, API + address, {"user_id": alice_user.email, **body}).status_code in (200, 201)
    body = {"name": SECRET, "page": "my-knowledge"}
    assert post(sender, f"{API}views/", {**body, "name": "Only sales"}).status_code == 201
    return sender


@pytest.mark.parametrize("address", LISTS)
def test_an_outsider_finds_nothing_in_a_list(address: str, full: Client, olga_user: User, alice_user: User) -> None:
    texts = (SECRET, alice_user.email, "Only sales")
    own = full.get(API + address)
    assert own.status_code in (200, 403)
    response = client(olga_user).get(API + address)
    assert response.status_code in (200, 403)
    assert not any(text in response.content.decode() for text in texts)


def test_each_list_shows_the_caller_what_is_theirs(full: Client) -> None:
    own = {"memories/", "insights/", "analyses/", "analyses/findings/", "conversations/turns/", "decisions/", "cache/"}
    own |= {"views/", "tokens/", "audit/"}
    assert own <= set(LISTS)
    assert {address for address in own if full.get(API + address).json()["items"]} == own


@pytest.mark.parametrize(("method", "address"), FOR_ADMINISTRATION)
def test_administration_needs_a_token_with_the_right(
    method: str, address: str, ada_user: User, alice_user: User
) -> None:
    values = {"int": "1", "slug": "sales", "id": "0" * 32}
    path = API + re.sub(r"<(\w+):\w+>", lambda match: values[match[1]], address)
    call = getattr(client(ada_user), method)
    refused = call(path, content_type="application/json")
    assert (refused.status_code, "administer" in refused.json()["detail"]) == (403, True)
    if "people" in address or "index" in address or "personas" in address:
        browser = Client()
        browser.force_login(alice_user)
        body = {"email": "x@example.org", "name": "new", "kind": "memory", "cause": "x", "personas": [], "rights": []}
        fields = {
            "people/": ["email"],
            "people/<int:person_id>/": ["personas", "rights"],
            "indexing/reindex/": ["kind"],
        }
        fields |= {"personas/": ["name"]}
        fields |= {"indexing/retry/": ["kind", "cause"], "indexing/dismiss/": ["kind", "cause"]}
        chosen = {name: body[name] for name in fields.get(address, [])} if method != "get" else {}
        arguments = {} if method == "get" else {"data": chosen, "content_type": "application/json"}
        assert getattr(browser, method)(path, **arguments).status_code == 403


def test_an_admin_manages_people(ada_user: User) -> None:
    sender = client(ada_user, rights=["administer"])
    invited = post(sender, f"{API}people/", {"email": "nora@example.org", "personas": ["sales"]})
    assert (invited.status_code, invited.json()["personas"], "/password/" in invited.json()["link"]) == (
        201,
        ["sales"],
        True,
    )
    address = f"{API}people/{invited.json()['id']}/"
    body = {"personas": ["supply"], "rights": ["curator"]}
    changed = sender.put(address, body, content_type="application/json").json()
    assert (changed["personas"], changed["rights"]) == (["supply"], ["curator"])
    assert post(sender, f"{address}deactivate/", {}).json()["is_active"] is False
    assert sender.get(f"{API}people/?is_active=false").json()["items"][0]["email"] == "nora@example.org"
    assert post(sender, f"{address}activate/", {}).json()["is_active"] is True


def test_an_admin_manages_personas(ada_user: User) -> None:
    sender = client(ada_user, rights=["administer"])
    made = post(sender, f"{API}personas/", {"name": "finance", "tools_deny": ["memory_manage.erase"]})
    assert (made.status_code, made.json()["tools_deny"]) == (201, ["memory_manage.erase"])
    assert post(sender, f"{API}personas/", {"name": "finance"}).status_code == 409
    assert post(sender, f"{API}personas/", {"name": "Big Finance"}).json()["field"] == "name"

    def change(**fields: Any) -> Any:
        return sender.put(f"{API}personas/finance/", fields, content_type="application/json")

    assert change(title="Finance", calls_per_minute=60).json()["title"] == "Finance"
    assert change(toolsets=["nothing"]).json()["field"] == "toolsets"


def test_a_memory_moves_to_another_persona(ada_user: User, fact: MemoryRecord) -> None:
    moved = post(client(ada_user), f"{API}memories/{fact.pk.hex}/reassign/", {"persona": "supply"})
    assert (moved.status_code, moved.json()["memory"]["persona"]) == (200, "supply")


def test_a_change_is_undone(alice_user: User, fact: MemoryRecord) -> None:
    sender, address = client(alice_user), f"{API}memories/{fact.pk.hex}/"
    post(sender, f"{address}share/", {"visibility": "private"})
    undone = post(sender, f"{address}undo/", {"change": "share"})
    assert (undone.status_code, undone.json()["memory"]["visibility"]) == (200, "persona")
    assert post(sender, f"{address}undo/", {"change": "share"}).status_code == 409


def test_an_insight_goes_into_the_catalog_and_back(
    alice_user: User,
    cora_user: User,  # noqa: F811
    small_catalog: None,  # noqa: F811
) -> None:
    author, curator = client(alice_user), client(cora_user)
    body = {"category": "business_context", "insight_text": REFUNDS, "entity_urns": [ORDERS]}
    captured = post(author, f"{API}insights/", body)
    assert captured.status_code == 201
    insight_id = captured.json()["insight_id"]
    assert post(author, f"{API}insights/approve/", {"insight_ids": [insight_id]}).status_code == 403
    assert post(curator, f"{API}insights/approve/", {"insight_ids": [insight_id]}).json()["updated"] == 1
    changes = [{"change_type": "add_tag", "detail": "Training", "entity_urn": ORDERS}]
    request = {"insight_ids": [insight_id], "changes": changes, "entity_urn": ORDERS}
    changes[0].pop("entity_urn")
    plan = post(curator, f"{API}changesets/plan/", request)
    assert (plan.status_code, plan.json()["dry_run"], Changeset.objects.count()) == (200, True, 0)
    applied = post(curator, f"{API}changesets/", request)
    assert (applied.status_code, applied.json()["state"]) == (201, "applied")
    address = f"{API}changesets/{applied.json()['changeset_id']}/"
    assert curator.get(address).json()["changes_count"] == 1
    assert curator.get(f"{address}proposals/").json()["proposals"]
    assert author.get(address).status_code == 403
    assert post(curator, f"{address}roll-back/plan/", {}).json()["dry_run"] is True
    assert post(curator, f"{address}roll-back/", {}).json()["state"] == "rolled_back"
    assert curator.get(f"{API}insights/?state=pending").json()["items"][0]["id"] == insight_id


def test_an_insight_is_edited_in_the_state_that_was_seen(
    alice_user: User,
    cora_user: User,  # noqa: F811
    small_catalog: None,  # noqa: F811
) -> None:
    sender = client(cora_user)
    post(client(alice_user), f"{API}insights/", {"category": "business_context", "insight_text": REFUNDS})
    address = f"{API}insights/{Insight.objects.get().pk.hex}/"
    seen = sender.get(address)["ETag"]

    def edit(text: str) -> Any:
        return sender.patch(address, {"content": text}, content_type="application/json", headers={"if-match": seen})

    assert edit("Revenue in the sales mart leaves refunds out.").status_code == 200
    late = edit("Revenue in the sales mart has no refunds in it.")
    assert (late.status_code, late.json()["current"]["insight_text"]) == (
        412,
        "Revenue in the sales mart leaves refunds out.",
    )
    assert sender.patch(address, {"seen": seen}, content_type="application/json").status_code == 400


def test_a_form_in_the_portal_and_a_program_do_not_overwrite_each_other(alice_user: User, fact: MemoryRecord) -> None:
    browser, sender = Client(), client(alice_user)
    browser.force_login(alice_user)
    form, address = reverse("edit-memory", args=[fact.pk]), f"{API}memories/{fact.pk.hex}/"
    fields = {"dimension": "knowledge", "category": "business_context", "confidence": "medium", "visibility": "persona"}
    token = browser.get(form).context["seen"]
    etag = sender.get(address)["ETag"]
    changed = sender.patch(
        address, {"content": f"{REFUNDS} (API)"}, content_type="application/json", headers={"if-match": etag}
    )
    assert changed.status_code == 200
    typed = {**fields, "content": f"{REFUNDS} (form)", "reason": "", "seen": token}
    page = browser.post(form, typed)
    assert (page.status_code, "has changed since you saw it" in page.content.decode()) == (200, True)
    assert f"{REFUNDS} (form)" in page.content.decode()
    fact.refresh_from_db()
    assert fact.content == f"{REFUNDS} (API)"
    assert browser.post(form, {**typed, "seen": page.context["seen"]}).status_code == 302
    late = sender.patch(
        address, {"content": f"{REFUNDS} (late)"}, content_type="application/json", headers={"if-match": etag}
    )
    assert (late.status_code, late.json()["current"]["content"]) == (412, f"{REFUNDS} (form)")


def test_the_context_of_entities(full: Client, small_catalog: None) -> None:  # noqa: F811
    post(full, f"{API}memories/", {"content": REFUNDS, "entity_urns": [ORDERS]})
    found = full.get(f"{API}context/", {"urn": [ORDERS, "sales.refunds"], "question": "refunds"}).json()
    assert [memory["content"] for memory in found["memories"]] == [REFUNDS]
    assert full.get(f"{API}context/").status_code == 400


def test_a_wipe_over_rest_leaves_no_trace_of_the_person(alice: Caller, alice_user: User, ada_user: User) -> None:
    User.objects.filter(pk=ada_user.pk).update(is_active=True)
    sender = client(alice_user, rights=[WIPE])
    post(sender, f"{API}memories/", {"content": SECRET})
    answer = sender.post(
        f"{API}conversations/wipe/",
        {"user_id": alice_user.email, "confirm": True},
        content_type="application/json",
        headers={"idempotency-key": "k"},
    )
    assert (answer.status_code, IdempotentAnswer.objects.count()) == (200, 0)
    assert not AuditEvent.objects.filter(email=alice_user.email).exists()
    last = AuditEvent.objects.order_by("-at")[0]
    assert (last.email, last.arguments) == ("", {})


def test_tokens_are_listed_and_made_in_the_browser(alice_user: User) -> None:
    sender, browser = client(alice_user), Client()
    browser.force_login(alice_user)
    body = {"name": "notebook", "days": 7}
    assert post(sender, f"{API}tokens/", body).status_code == 403
    made = post(browser, f"{API}tokens/", body)
    assert (made.status_code, made.json()["token"].startswith("cpl_")) == (201, True)
    assert [token["name"] for token in sender.get(f"{API}tokens/").json()["items"]] == ["notebook", "t"]
    assert "token" not in sender.get(f"{API}tokens/").json()["items"][0]
    assert browser.delete(f"{API}tokens/{made.json()['id']}/").json()["revoked_at"]


def test_a_secret_is_shown_once_and_never_stored(alice_user: User) -> None:
    browser = Client()
    browser.force_login(alice_user)

    def make() -> Any:
        headers = {"idempotency-key": "k"}
        return browser.post(f"{API}tokens/", {"name": "x"}, content_type="application/json", headers=headers)

    token = make().json()["token"]
    assert token not in str(IdempotentAnswer.objects.values().get())
    again = make()
    assert (again.status_code, "only once" in again.json()["detail"]) == (409, True)
    assert ApiToken.objects.filter(name="x").count() == 1


def test_analyses_can_be_switched_off(alice_user: User, settings: Any) -> None:
    settings.ANALYSIS_ENABLED = False
    sender = client(alice_user)
    assert sender.get(f"{API}analyses/").status_code == 404
    assert post(sender, f"{API}analyses/clear/", {"analysis_id": "a"}).status_code == 404

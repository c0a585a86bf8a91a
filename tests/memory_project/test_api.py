from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone
from drf_spectacular.validation import validate_schema

from memories.contract.errors import Conflict, Degraded, Forbidden, Invalid, LimitReached, NotFound, Upstream
from memories.identity.caller import Caller, system_caller
from memories.models import Dimension, MemoryRecord, Persona, Status
from memory_project.accounts.tokens import create_token, find_token, revoke_token
from memory_project.models import ApiToken, User

pytestmark = pytest.mark.django_db
LIST, RECALL = "/api/v1/memories/", "/api/v1/memories/recall/"


def client(user: User, **fields: Any) -> Client:
    return Client(
        headers={"authorization": f"Bearer {create_token(caller=system_caller(), user=user, name='t', **fields)[1]}"}
    )


def post(sender: Client, url: str, body: Any) -> Any:
    return sender.post(url, body, content_type="application/json")


def test_create_recall_and_list(alice_user: User, bob_user: User, olga_user: User) -> None:
    response = post(client(alice_user), LIST, {"content": "Revenue excludes refunds.", "tags": ["revenue"]})
    assert response.status_code == 201
    id = response.json()["memory"]["id"]
    assert post(client(alice_user), LIST, {"content": "Revenue excludes refunds."}).status_code == 200
    for user, expected in ((alice_user, [id]), (bob_user, [id]), (olga_user, [])):
        recalled = post(client(user), RECALL, {"query": "refunds"}).json()
        assert [memory["id"] for memory in recalled["memories"]] == expected
        page = client(user).get(LIST).json()
        assert ([memory["id"] for memory in page["records"]], page["total"]) == (expected, len(expected))


def test_a_memory_is_read_and_corrected(alice_user: User, bob_user: User, olga_user: User) -> None:
    record = post(client(alice_user), LIST, {"content": "Revenue excludes refunds."}).json()["memory"]
    url = f"{LIST}{record['id']}/"
    assert client(alice_user).get(f"{LIST}{UUID(record['id'])}/").json()["memory"]["id"] == record["id"]
    correction = {"content": "Revenue includes refunds.", "reason": "new rule"}
    assert post(client(bob_user), f"{url}supersede/", correction).status_code == 403
    assert post(client(olga_user), f"{url}supersede/", correction).status_code == 404
    new = post(client(alice_user), f"{url}supersede/", correction)
    assert new.status_code == 201
    again = post(client(alice_user), f"{url}supersede/", {"content": "Revenue is something else."})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert new.json()["memory"]["id"] in again.json()["error"]
    body = client(bob_user).get(url).json()
    assert [link["content"] for link in body["chain"]] == ["Revenue excludes refunds.", "Revenue includes refunds."]
    assert [change["change"] for change in body["history"]] == ["supersede", "remember", "remember"]
    assert client(olga_user).get(url).status_code == 404
    earlier = post(client(bob_user), RECALL, {"query": "refunds in revenue", "as_of": record["created_at"]}).json()
    assert [memory["content"] for memory in earlier["memories"]] == ["Revenue excludes refunds."]


@pytest.mark.parametrize(
    ("url", "body", "field"),
    [
        (LIST, {"content": "short"}, "content"),
        (LIST, {"contents": "Revenue excludes refunds."}, "contents"),
        (LIST, {"content": "Revenue excludes refunds.", "tags": "revenue"}, "tags"),
        (LIST, [], "body"),
        (RECALL, {}, "query"),
        (RECALL, {"query": "x", "limit": "many"}, "limit"),
        (RECALL, {"query": "x", "as_of": "yesterday"}, "as_of"),
    ],
)
def test_errors_follow_the_contract(alice_user: User, url: str, body: Any, field: str) -> None:
    response = post(client(alice_user), url, body)
    assert response.status_code == 400
    assert response.json()["code"] == "invalid"
    assert field in response.json()["error"]
    assert not MemoryRecord.objects.exists()


def test_requests_without_a_valid_token_are_rejected(alice_user: User) -> None:
    assert Client().get(LIST).status_code == 401
    bad = Client(headers={"authorization": "Bearer cpl_made-up"}).get(LIST)
    assert (bad.status_code, bad.json()["code"]) == (401, "forbidden")


def test_denied_tools_of_a_persona_apply_to_rest(alice_user: User) -> None:
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage"])
    assert client(alice_user).get(LIST).status_code == 403
    assert post(client(alice_user), RECALL, {"query": "x"}).status_code == 200


def test_a_session_needs_its_csrf_token(alice_user: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(alice_user)
    assert browser.get(LIST).status_code == 200
    assert post(browser, LIST, {"content": "Revenue excludes refunds."}).status_code == 403


def test_only_json_is_returned_and_accepted(alice_user: User) -> None:
    response = client(alice_user).get(LIST, headers={"accept": "text/html"})
    assert response.headers["Content-Type"] == "application/json"
    assert client(alice_user).post(LIST, {"content": "x"}).status_code == 415


# -- tokens -----------------------------------------------------------------------------------------------


def test_a_token_is_stored_as_a_hash_and_can_expire_and_be_revoked(alice: Caller, alice_user: User) -> None:
    token, text = create_token(caller=alice, user=alice_user, name="laptop")
    assert text not in str(ApiToken.objects.values().get())
    assert find_token(text) == token
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert find_token(text) is None
    ApiToken.objects.update(expires_at=None)
    assert find_token(text) == token
    revoke_token(caller=alice, token_id=token.pk)
    assert find_token(text) is None


def test_a_token_of_a_deactivated_account_is_invalid(alice: Caller, alice_user: User) -> None:
    _, text = create_token(caller=alice, user=alice_user, name="laptop")
    User.objects.update(is_active=False)
    assert find_token(text) is None


def test_users_create_tokens_only_for_themselves_and_without_rights(
    alice: Caller, alice_user: User, bob_user: User
) -> None:
    with pytest.raises(Forbidden):
        create_token(caller=alice, user=bob_user, name="x")
    with pytest.raises(Forbidden):
        create_token(caller=alice, user=alice_user, name="x", graph="supply")
    with pytest.raises(Forbidden):
        create_token(caller=alice, user=alice_user, name="x", persona="supply")
    with pytest.raises(Forbidden):
        create_token(caller=alice, user=alice_user, name="x", rights=["act_for_users"])
    with pytest.raises(Invalid):
        create_token(caller=system_caller(), user=alice_user, name="x", rights=["fly"])
    with pytest.raises(Invalid):
        create_token(caller=alice, user=alice_user, name="")


# -- OpenAPI document --------------------------------------------------------------------------------------


def test_the_openapi_document_is_valid_and_matches_the_operations(alice_user: User) -> None:
    assert Client().get("/api/v1/schema/").status_code == 401
    document = client(alice_user).get("/api/v1/schema/").json()
    validate_schema(document)  # type: ignore[no-untyped-call]
    paths = document["paths"]
    assert set(paths) == {LIST, RECALL, f"{LIST}{{record_id}}/", f"{LIST}{{record_id}}/supersede/"}
    body = paths[LIST]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["required"], body["additionalProperties"]) == (["content"], False)
    assert body["properties"]["dimension"]["enum"] == Dimension.values
    assert (body["properties"]["content"]["minLength"], body["properties"]["tags"]["maxItems"]) == (10, 20)
    corrected = paths[f"{LIST}{{record_id}}/supersede/"]["post"]
    assert "record_id" not in corrected["requestBody"]["content"]["application/json"]["schema"]["properties"]
    status = next(parameter for parameter in paths[LIST]["get"]["parameters"] if parameter["name"] == "status")
    assert status["schema"] == {"type": "string", "enum": Status.values, "default": "active"}
    limit = next(parameter for parameter in paths[LIST]["get"]["parameters"] if parameter["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    response = paths[RECALL]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert response["required"] == ["memories", "count", "strategy", "ranking"]
    statuses = {error.status for error in (Invalid, Forbidden, NotFound, Conflict, LimitReached, Upstream, Degraded)}
    assert {str(code) for code in statuses | {401, 429}} == set(paths[RECALL]["post"]["responses"]) - {"200"}
    assert {"token": []} in paths[RECALL]["post"]["security"]

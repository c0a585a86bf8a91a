from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.utils import timezone
from drf_spectacular.validation import validate_schema

from foundation.operations.errors import Conflict, Degraded, Forbidden, Invalid, LimitReached, NotFound, Upstream
from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona, PersonaMembership
from memories.models import Dimension, MemoryRecord, Status
from memory_project.accounts.tokens import create_token, find_token, revoke_token
from memory_project.models import ApiToken, AuditEvent, User
from memory_project.rest.models import IdempotentAnswer
from tests.rest_client import client, post

pytestmark = pytest.mark.django_db
LIST, RECALL = "/api/v1/memories/", "/api/v1/memories/recall/"


def test_create_recall_and_list(alice_user: User, bob_user: User, olga_user: User) -> None:
    response = post(client(alice_user), LIST, {"content": "Revenue excludes refunds.", "tags": ["revenue"]})
    assert response.status_code == 201
    id = response.json()["memory"]["id"]
    assert post(client(alice_user), LIST, {"content": "Revenue excludes refunds."}).status_code == 200
    for user, expected in ((alice_user, [id]), (bob_user, [id]), (olga_user, [])):
        recalled = post(client(user), RECALL, {"query": "refunds"}).json()
        assert [memory["id"] for memory in recalled["memories"]] == expected
        page = client(user).get(LIST).json()
        assert [memory["id"] for memory in page["items"]] == expected


def test_a_token_whose_persona_is_lost_is_refused_and_the_call_is_audited(alice_user: User) -> None:
    sender = client(alice_user, persona="sales")
    assert sender.get(LIST).status_code == 200
    PersonaMembership.objects.filter(user=alice_user).delete()
    for answer in (sender.get(LIST), post(sender, RECALL, {"query": "refunds"}), sender.get("/api/v1/me/")):
        assert (answer.status_code, "persona" in answer.json()["detail"]) == (403, True)
    refused = AuditEvent.objects.filter(email=alice_user.email, outcome="refused")
    assert refused.count() == 3


def test_a_limit_above_the_maximum_is_stated_where_there_may_be_more(alice_user: User) -> None:
    sender = client(alice_user)
    for number in range(51):
        post(sender, LIST, {"content": f"Revenue excludes refunds of store {number}."})
    found = post(sender, RECALL, {"query": "refunds of stores", "limit": 3000}).json()
    assert (len(found["memories"]), "limit counts as 50, the maximum" in found["note"]) == (50, True)
    found = post(sender, RECALL, {"query": "refunds of stores", "limit": 50}).json()
    assert "counts as" not in found.get("note", "")


def test_a_memory_is_read_and_corrected(alice_user: User, bob_user: User, olga_user: User) -> None:
    record = post(client(alice_user), LIST, {"content": "Revenue excludes refunds."}).json()["memory"]
    url = f"{LIST}{record['id']}/"
    assert client(alice_user).get(f"{LIST}{UUID(record['id'])}/").json()["memory"]["id"] == record["id"]
    correction = {"content": "Revenue includes refunds.", "reason": "new rule"}
    assert post(client(bob_user), f"{url}supersede/", correction).status_code == 403
    assert post(client(olga_user), f"{url}supersede/", correction).status_code == 404
    new = post(client(alice_user), f"{url}supersede/", correction)
    assert new.status_code == 201
    new_url = f"{LIST}{new.json()['memory']['id']}/"
    assert client(alice_user).get(new_url)["ETag"].startswith(new["ETag"].rstrip('"'))
    again = post(client(alice_user), f"{url}supersede/", {"content": "Revenue is something else."})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert new.json()["memory"]["id"] in again.json()["detail"]
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
    assert field in response.json()["detail"]
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


def test_only_json_is_accepted(alice_user: User) -> None:
    assert client(alice_user).post(LIST, {"content": "x"}).status_code == 415


@pytest.mark.parametrize("path", ["/api/", "/api/v1/nothing/", "/api/v1/memories/1/", "/api/v2/memories/"])
def test_every_error_below_api_is_a_problem(alice_user: User, path: str) -> None:
    response = client(alice_user).get(path)
    assert (response.status_code, response["Content-Type"]) == (404, "application/problem+json")
    assert {"type", "title", "status", "detail", "code"} <= set(response.json())


# -- pages, fields and versions ---------------------------------------------------------------------------


def texts(count: int) -> list[str]:
    return [f"Store number {number} opened in the year {1900 + number}." for number in range(count)]


def test_pages_follow_one_another_without_gaps(alice_user: User) -> None:
    sender = client(alice_user)
    for text in texts(5):
        post(sender, LIST, {"content": text})
    found, address, pages = [], f"{LIST}?limit=2&order=oldest&fields=content", 0
    while address:
        response = sender.get(address)
        found += response.json()["items"]
        address, pages = response.json()["next"] or "", pages + 1
        assert response.headers.get("Link") == (f'<{address}>; rel="next"' if address else None)
        address = address.partition("localhost:8000")[2] or address
    assert ([item["content"] for item in found], pages) == (texts(5), 3)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 2),
        ("status=archived", 1),
        ("tag=stores", 1),
        ("dimension=event", 1),
        ("created_by=bob@example.org", 0),
        ("created_after=2999-01-01T00:00:00Z", 0),
    ],
)
def test_lists_are_filtered(alice_user: User, query: str, count: int) -> None:
    sender = client(alice_user)
    first, second, third = texts(3)
    post(sender, LIST, {"content": first, "tags": ["stores"]})
    post(sender, LIST, {"content": second, "dimension": "event"})
    archived = post(sender, LIST, {"content": third}).json()["memory"]["id"]
    assert sender.delete(f"{LIST}{archived}/").status_code == 200
    assert len(sender.get(f"{LIST}?{query}").json()["items"]) == count


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("cursor=x", "cursor"),
        ("colour=red", "colour"),
        ("status=lost", "status"),
        ("created_after=yesterday", "created_after"),
        ("fields=contents", "fields"),
        ("limit=2&limit=3", "limit"),
    ],
)
def test_wrong_parameters_of_a_list_are_named(alice_user: User, query: str, field: str) -> None:
    response = client(alice_user).get(f"{LIST}?{query}")
    assert (response.status_code, response.json()["code"], response.json()["field"]) == (400, "invalid", field)


def test_a_stale_edit_is_refused_with_the_current_state(alice_user: User) -> None:
    sender = client(alice_user)
    url = f"{LIST}{post(sender, LIST, {'content': texts(1)[0]}).json()['memory']['id']}/"
    seen = sender.get(url)["ETag"]
    assert sender.get(url, headers={"if-none-match": seen}).status_code == 304

    def patch(text: str, **headers: str) -> Any:
        return sender.patch(url, {"content": text}, content_type="application/json", headers=headers)

    assert patch("The first edit of this memory.").status_code == 428
    first = patch("The first edit of this memory.", **{"if-match": seen})
    assert (first.status_code, first["ETag"] != seen) == (200, True)
    second = patch("The second edit of this memory.", **{"if-match": seen})
    assert (second.status_code, second.json()["code"]) == (412, "conflict")
    assert (second.json()["current"]["content"], second["ETag"]) == ("The first edit of this memory.", first["ETag"])
    assert patch("The second edit of this memory.", **{"if-match": second["ETag"]}).status_code == 200
    assert sender.delete(url, headers={"if-match": first["ETag"]}).status_code == 412
    for other in ('""', '"of another server"', '"stale.1", ""'):
        assert patch("The third edit of this memory.", **{"if-match": other}).status_code == 412, other
    assert patch("The third edit of this memory.", **{"if-match": "active"}).status_code == 400


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
def test_times_that_have_no_year_in_utc_are_refused(alice_user: User, time: str) -> None:
    sender = client(alice_user)
    for query in ({"created_after": time}, {"cursor": f"{time}~{'0' * 32}"}):
        answer = sender.get(LIST, query)
        assert (answer.status_code, answer.json()["field"]) == (400, next(iter(query))), query
    answer = post(sender, RECALL, {"query": "revenue", "as_of": time})
    assert (answer.status_code, answer.json()["field"]) == (400, "as_of")


def test_bodies_are_read_as_the_document_says(alice_user: User) -> None:
    sender = client(alice_user)
    wrong: tuple[Any, ...] = (0, 1, "false", "0", [], {})
    for value in wrong:
        assert post(sender, f"{LIST}notes/prune/", {"dry_run": value}).json()["field"] == "dry_run"
    assert post(sender, f"{LIST}notes/prune/", {"days": "30"}).json()["field"] == "days"
    assert post(sender, f"{LIST}notes/prune/", {"dry_run": None}).status_code == 200
    url = "/api/v1/graph/entities/"
    entity = {"name": "Revenue", "entityType": "metric", "observations": ["Excludes refunds."]}
    for extra in ({}, {"urn": None}):
        created = post(sender, url, {"entities": [{**entity, **extra}]})
        assert created.status_code in (200, 201), created.content


# -- repeated requests ------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_same_answer(alice_user: User, bob_user: User) -> None:
    def remember(user: User, text: str) -> Any:
        return client(user).post(
            LIST, {"content": text}, content_type="application/json", headers={"idempotency-key": "k1"}
        )

    first = remember(alice_user, texts(1)[0])
    again = remember(alice_user, texts(1)[0])
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.json(), again["Idempotency-Replayed"]) == (first.json(), "true")
    other = remember(alice_user, texts(2)[1])
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    assert remember(bob_user, texts(2)[1]).status_code == 201
    assert MemoryRecord.objects.count() == 2


def test_a_running_request_is_not_repeated_until_it_counts_as_abandoned(alice_user: User) -> None:
    def remember() -> Any:
        return client(alice_user).post(
            LIST, {"content": texts(1)[0]}, content_type="application/json", headers={"idempotency-key": "k1"}
        )

    remember()
    IdempotentAnswer.objects.update(status=None)
    assert remember().status_code == 409
    IdempotentAnswer.objects.update(started_at=timezone.now() - timedelta(hours=1))
    assert remember().status_code == 200


def test_an_erased_memory_leaves_the_stored_answers(alice_user: User) -> None:
    sender = client(alice_user)
    record = sender.post(
        LIST, {"content": texts(1)[0]}, content_type="application/json", headers={"idempotency-key": "k1"}
    ).json()["memory"]
    erased = post(sender, f"{LIST}{record['id']}/erase/", {"confirm": True})
    assert (erased.status_code, IdempotentAnswer.objects.count()) == (200, 0)


def test_a_stored_answer_is_shown_to_those_who_may_read_it_now(alice_user: User, bob_user: User) -> None:
    author, colleague = client(alice_user), client(bob_user)
    record = post(author, LIST, {"content": texts(1)[0], "visibility": "persona"}).json()["memory"]

    def verify() -> Any:
        return colleague.post(
            f"{LIST}{record['id']}/verify/", {}, content_type="application/json", headers={"idempotency-key": "k1"}
        )

    assert verify().json()["id"] == record["id"]
    assert (verify()["Idempotency-Replayed"], verify().json()["id"]) == ("true", record["id"])
    assert post(author, f"{LIST}{record['id']}/share/", {"visibility": "private"}).status_code == 200
    refused = verify()
    assert (refused.status_code, refused.json()["field"]) == (409, "Idempotency-Key")
    assert record["id"] not in refused.content.decode()


def test_rate_limits_are_announced(alice_user: User) -> None:
    sender = client(alice_user, calls_per_minute=2, writes_per_day=1)
    first = post(sender, LIST, {"content": texts(1)[0]})
    assert first["RateLimit-Policy"] == '"token-calls";q=2;w=60, "token-writes";q=1;w=86400'
    assert first["RateLimit"].startswith('"token-calls";r=1;t=')
    sender.get(LIST)
    refused = sender.get(LIST)
    assert (refused.status_code, refused["RateLimit"].startswith('"token-calls";r=0;t=')) == (429, True)
    assert int(refused["Retry-After"]) > 0


# -- tokens -----------------------------------------------------------------------------------------------


def test_a_token_is_stored_as_a_hash_and_can_expire_and_be_revoked(alice: Caller, alice_user: User) -> None:
    token, text = create_token(alice, user=alice_user, name="laptop")
    assert text not in str(ApiToken.objects.values().get())
    assert find_token(text) == token
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert find_token(text) is None
    ApiToken.objects.update(expires_at=None)
    assert find_token(text) == token
    revoke_token(alice, token_id=token.pk)
    assert find_token(text) is None


def test_a_token_of_a_deactivated_account_is_invalid(alice: Caller, alice_user: User) -> None:
    _, text = create_token(alice, user=alice_user, name="laptop")
    User.objects.update(is_active=False)
    assert find_token(text) is None


def test_users_create_tokens_only_for_themselves_and_without_rights(
    alice: Caller, alice_user: User, bob_user: User
) -> None:
    with pytest.raises(Forbidden):
        create_token(alice, user=bob_user, name="x")
    with pytest.raises(Forbidden):
        create_token(alice, user=alice_user, name="x", graph="supply")
    with pytest.raises(Forbidden):
        create_token(alice, user=alice_user, name="x", persona="supply")
    with pytest.raises(Forbidden):
        create_token(alice, user=alice_user, name="x", rights=["act_for_users"])
    with pytest.raises(Invalid):
        create_token(system_caller(), user=alice_user, name="x", rights=["fly"])
    with pytest.raises(Invalid):
        create_token(alice, user=alice_user, name="")


# -- OpenAPI document --------------------------------------------------------------------------------------


def test_the_openapi_document_is_valid_and_matches_the_operations(alice_user: User) -> None:
    assert Client().get("/api/v1/schema/").status_code == 401
    document = client(alice_user).get("/api/v1/schema/").json()
    validate_schema(document)  # type: ignore[no-untyped-call]
    paths = document["paths"]
    body = paths[LIST]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["required"], body["additionalProperties"]) == (["content"], False)
    assert body["properties"]["dimension"]["enum"] == [*Dimension.values, None]
    assert (body["properties"]["content"]["minLength"], body["properties"]["tags"]["maxItems"]) == (10, 20)
    corrected = paths[f"{LIST}{{record_id}}/supersede/"]["post"]
    assert "record_id" not in corrected["requestBody"]["content"]["application/json"]["schema"]["properties"]
    status = next(parameter for parameter in paths[LIST]["get"]["parameters"] if parameter["name"] == "status")
    assert status["schema"] == {"type": "string", "enum": Status.values}
    limit = next(parameter for parameter in paths[LIST]["get"]["parameters"] if parameter["name"] == "limit")
    assert limit["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    response = paths[RECALL]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    recalled = document["components"]["schemas"][response["$ref"].rsplit("/", 1)[1]]
    assert recalled["required"] == ["memories", "count", "strategy", "ranking"]
    statuses = {error.status for error in (Invalid, Forbidden, NotFound, Conflict, LimitReached, Upstream, Degraded)}
    assert {str(code) for code in statuses | {401, 406, 413, 415, 429}} == set(paths[RECALL]["post"]["responses"]) - {
        "200"
    }
    assert {"token": []} in paths[RECALL]["post"]["security"]

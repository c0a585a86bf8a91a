"""The Python client against the REST API in this process."""

from __future__ import annotations

import importlib.util
import time
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from asgiref.sync import async_to_sync
from commonplace_client import (
    Commonplace,
    CommonplaceError,
    Conflict,
    ConnectionLost,
    Degraded,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    StaleEdit,
    Upstream,
)

from knowledge.models import Changeset
from memories.models import MemoryRecord
from memory_project.models import User
from tests.clients.in_process import URL, InProcess, async_client_of, client_of, token_of
from tests.conftest import REFUNDS
from tests.knowledge.conftest import ORDERS, cora_user, curators, small_catalog  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db
CLIENT = Path(__file__).resolve().parent.parent.parent / "clients" / "python"


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a client makes. No time passes."""
    made: list[float] = []
    monkeypatch.setattr(time, "sleep", made.append)
    return made


def problem(status: int, code: str, **members: Any) -> httpx.Response:
    headers = members.pop("headers", {})
    return httpx.Response(status, json={"status": status, "code": code, "detail": "Why.", **members}, headers=headers)


def test_a_fact_is_remembered_recalled_and_listed(alice_user: User, bob_user: User, olga_user: User) -> None:
    alice, bob, olga = (client_of(user)[0] for user in (alice_user, bob_user, olga_user))
    kept = alice.remember(REFUNDS, tags=["revenue"], confidence="high")
    memory_id = kept["memory"]["id"]
    assert alice.remember(REFUNDS)["existing"] is True
    assert [hit["id"] for hit in bob.recall("refunds", tags=["revenue"])["memories"]] == [memory_id]
    assert [memory["id"] for memory in bob.memories(tag="revenue", created_after=kept["memory"]["created_at"])] == [
        memory_id
    ]
    assert olga.recall("refunds")["memories"] == []
    assert list(olga.memories()) == []
    with pytest.raises(NotFound):
        olga.get(memory_id)
    with pytest.raises(Forbidden):
        bob.supersede(memory_id, "Revenue includes refunds.")


def test_a_list_is_read_page_by_page_from_the_server_of_the_client_alone(alice_user: User, settings: Any) -> None:
    settings.COMMONPLACE_URL = "https://elsewhere.example"  # the public name, behind which the client is
    client, transport = client_of(alice_user)
    texts = [f"Region {number} counts refunds in the month of the order." for number in range(5)]
    for text in texts:
        client.remember(text, tags=["a b&c"])
    transport.requests.clear()
    assert [memory["content"] for memory in client.memories(page_size=2, order="oldest", tag="a b&c")] == texts
    assert len(transport.requests) == 3
    assert {request.url.host for request in transport.requests} == {"testserver"}
    assert {request.url.params["tag"] for request in transport.requests} == {"a b&c"}


def test_an_edit_of_what_has_changed_meanwhile_shows_the_current_state(alice_user: User) -> None:
    client, _ = client_of(alice_user)
    memory_id = client.remember(REFUNDS)["memory"]["id"]
    seen = client.get(memory_id)["etag"]
    updated = client.update(memory_id, etag=seen, content=f"{REFUNDS} (first)")
    with pytest.raises(StaleEdit) as stale:
        client.update(memory_id, etag=seen, content=f"{REFUNDS} (second)")
    assert stale.value.current["content"] == f"{REFUNDS} (first)"
    assert stale.value.etag == updated["etag"]
    assert client.get(memory_id)["etag"].startswith(f"{updated['etag'][:-1]}-")  # with a digest of the answer
    again = client.update(memory_id, etag=stale.value.etag, content=f"{REFUNDS} (second)", tags=[])
    assert again["memory"]["content"] == f"{REFUNDS} (second)"
    with pytest.raises(StaleEdit):
        client.verify(memory_id, etag=seen)


def test_each_verb_of_a_memory(alice_user: User, bob_user: User) -> None:
    alice, bob = client_of(alice_user)[0], client_of(bob_user)[0]
    memory_id = alice.remember(REFUNDS)["memory"]["id"]
    assert bob.feedback(memory_id, "useful", note="It helped.")["id"] == memory_id
    assert bob.report(used=[memory_id], wrong=[UUID(memory_id)], note="No.")["reported"] == {"used": 1, "wrong": 1}
    (doubt,) = alice.reports(memory_id)["doubts"]
    assert (doubt["by"], doubt["note"]) == (bob_user.email, "No.")
    assert bob.report(withdraw=[memory_id])["withdrawn"] == 2
    alice.verify(memory_id, note="Asked finance.")
    assert alice.get(memory_id)["memory"]["verified_by"] == alice_user.email
    assert alice.forget(memory_id, reason="Not needed & old.")["status"] == "archived"
    assert alice.restore(memory_id)["status"] == "active"
    assert alice.share(memory_id, "private")["id"] == memory_id
    with pytest.raises(NotFound):
        bob.get(memory_id)
    new = alice.supersede(memory_id, "Revenue includes refunds since May.", reason="New rule.")["memory"]
    assert new["supersedes"] == memory_id
    changes = [entry["change"] for entry in alice.history(new["id"])["history"]]
    assert {"supersede", "share", "restore"} <= set(changes)
    with pytest.raises(Invalid, match="confirm"):
        alice.erase(new["id"], confirm=False)
    alice.erase(new["id"], confirm=True)
    assert not MemoryRecord.objects.filter(pk=new["id"]).exists()


def test_errors_name_the_field_and_what_is_allowed(alice_user: User) -> None:
    client, transport = client_of(alice_user)
    with pytest.raises(Invalid) as refused:
        client.remember("short")
    assert (refused.value.status, refused.value.field, "10" in refused.value.allowed) == (400, "content", True)
    with pytest.raises(NotFound):
        client.get(uuid4())
    sent = len(transport.requests)
    for bad in ("", "..", "1/../../me", "x?fields=id"):
        with pytest.raises(Invalid, match="memory_id"):
            client.erase(bad, confirm=True)
    with pytest.raises(Invalid, match="time zone"):
        client.recall("refunds", as_of=datetime(2026, 1, 1))
    assert len(transport.requests) == sent
    with pytest.raises(Forbidden):
        Commonplace(URL, "cp_wrong", transport=transport).recall("refunds")


def test_what_is_known_about_entities(alice_user: User, small_catalog: None) -> None:  # noqa: F811
    client, _ = client_of(alice_user)
    client.remember(REFUNDS, entity_urns=[ORDERS])
    known = client.context_for([ORDERS], question="What about refunds?")
    assert [memory["content"] for memory in known["memories"]] == [REFUNDS]


def test_an_insight_goes_into_the_catalog_and_back(
    alice_user: User,
    cora_user: User,  # noqa: F811
    small_catalog: None,  # noqa: F811
) -> None:
    author, curator = client_of(alice_user)[0], client_of(cora_user)[0]
    insight_id = author.capture(REFUNDS, category="business_context", entity_urns=[ORDERS])["insight_id"]
    with pytest.raises(Forbidden):
        author.approve([insight_id])
    curator.ask_author([insight_id], "Since when?")
    author.answer_question(insight_id, "Since last year.")
    insight = curator.insight(insight_id)
    text = f"{REFUNDS} Since last year."
    assert curator.edit_insight(insight_id, etag=insight["etag"], content=text)["insight_text"] == text
    with pytest.raises(StaleEdit):
        curator.edit_insight(insight_id, etag=insight["etag"], content=f"{REFUNDS} Or not.")
    with pytest.raises(Conflict):
        curator.approve([insight_id], seen={insight_id: insight["seen"]})
    (listed,) = curator.insights(state="pending")
    assert curator.approve([insight_id], seen={insight_id: listed["seen"]})["updated"] == 1
    plan = curator.plan([insight_id], [{"change_type": "add_tag", "detail": "Training"}], entity_urn=ORDERS)
    assert (plan["dry_run"], Changeset.objects.count()) == (True, 0)
    applied = curator.apply([insight_id], [{"change_type": "add_tag", "detail": "Training"}], entity_urn=ORDERS)
    changeset_id = applied["changeset_id"]
    assert curator.changeset(changeset_id)["changes_count"] == 1
    assert [row["changeset_id"] for row in curator.changesets(state="applied")] == [changeset_id]
    assert curator.plan_roll_back(changeset_id)["dry_run"] is True
    assert curator.roll_back(changeset_id)["state"] == "rolled_back"


def test_a_rejected_insight_is_appealed(alice_user: User, cora_user: User) -> None:  # noqa: F811
    author, curator = client_of(alice_user)[0], client_of(cora_user)[0]
    insight_id = author.capture(REFUNDS, category="correction")["insight_id"]
    assert curator.reject([insight_id], review_notes="Known.")["updated"] == 1
    assert author.appeal(insight_id, "It is new for sales.")["insight_id"] == insight_id
    assert curator.insight(insight_id).get("state") == "pending"


def test_conversations_belong_to_the_owner_of_the_token(alice_user: User, bob_user: User) -> None:
    alice, bob = client_of(alice_user)[0], client_of(bob_user)[0]
    stored = alice.store_messages("c1", [{"role": "human", "content": REFUNDS}, {"role": "ai", "content": "Noted."}])
    assert stored["count"] == 2
    assert {turn["content"] for turn in alice.turns(conversation_id="c1", tier="stm")} == {REFUNDS, "Noted."}
    assert alice.recall_conversations("refunds")["results"][0]["content"] == REFUNDS
    assert (list(bob.turns()), bob.account()["email"]) == ([], bob_user.email)


def test_the_asynchronous_client_does_the_same(alice_user: User) -> None:
    client, transport = async_client_of(alice_user)

    async def story() -> None:
        async with client:
            transport.fail(httpx.ConnectError("refused"))
            kept = await client.remember(REFUNDS)
            memory_id = kept["memory"]["id"]
            assert [memory["id"] async for memory in client.memories(page_size=1)] == [memory_id]
            seen = (await client.get(memory_id))["etag"]
            seen = (await client.verify(memory_id, etag=seen))["etag"]
            await client.update(memory_id, etag=seen, content=f"{REFUNDS} (first)")
            with pytest.raises(StaleEdit):
                await client.update(memory_id, etag=seen, content=f"{REFUNDS} (late)")

    async_to_sync(story)()


def test_a_lost_answer_is_asked_for_again_and_nothing_is_done_twice(alice_user: User, pauses: list[float]) -> None:
    client, transport = client_of(alice_user)
    client.store_messages("c0", [{"role": "human", "content": "The first conversation."}])
    transport.requests.clear()
    transport.fail(httpx.ReadTimeout("no answer"), after_performing=True)
    transport.fail(problem(503, "degraded"))
    transport.fail(problem(409, "conflict", field="Idempotency-Key"))  # the first request is still running
    stored = client.store_messages("c1", [{"role": "human", "content": REFUNDS}])
    assert (stored["count"], len(list(client.turns(conversation_id="c1", tier="stm"))), len(pauses)) == (1, 1, 3)
    sent = [request for request in transport.requests if request.method == "POST"]
    assert (len(sent), len({request.headers["Idempotency-Key"] for request in sent})) == (4, 1)


def test_an_edit_without_an_answer_is_not_repeated(alice_user: User, pauses: list[float]) -> None:
    """Repeated, it would be refused as stale, although nobody else has changed anything."""
    client, transport = client_of(alice_user)
    memory_id = client.remember(REFUNDS)["memory"]["id"]
    etag = client.get(memory_id)["etag"]
    transport.fail(httpx.ReadError("reset"), after_performing=True)
    with pytest.raises(ConnectionLost):
        client.update(memory_id, etag=etag, content=f"{REFUNDS} (once)")
    assert client.get(memory_id)["memory"]["content"] == f"{REFUNDS} (once)"
    transport.fail(httpx.ConnectError("refused"))  # it was never sent
    client.update(memory_id, etag="*", content=f"{REFUNDS} (twice)")
    assert len(pauses) == 1


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(429, "limit", headers={"Retry-After": "3600"}), LimitReached),  # longer than a client waits
        (problem(502, "upstream"), Upstream),
        (problem(409, "conflict"), Conflict),
        (problem(422, "limit"), LimitReached),
        (problem(500, "unheard of"), CommonplaceError),
        (httpx.Response(404, text="<html>no such page"), NotFound),
        (httpx.Response(302, headers={"Location": "https://elsewhere.example/"}), CommonplaceError),
        (httpx.Response(200, text="<html>Sign in"), CommonplaceError),
        (httpx.Response(200, json=[]), CommonplaceError),
    ],
)
def test_what_a_repetition_does_not_remedy_is_raised_at_once(
    answer: httpx.Response, kind: type[CommonplaceError], alice_user: User, pauses: list[float]
) -> None:
    client, transport = client_of(alice_user)
    transport.fail(answer)
    with pytest.raises(CommonplaceError) as raised:
        client.recall("refunds")
    assert (type(raised.value), pauses, len(transport.requests)) == (kind, [], 1)
    if answer.status_code == 429:
        assert isinstance(raised.value, LimitReached)
        assert raised.value.retry_after == 3600


def test_repetitions_are_bounded(alice_user: User, pauses: list[float]) -> None:
    client, transport = client_of(alice_user)
    for _ in range(10):
        transport.fail(problem(503, "degraded", headers={"Retry-After": "2"}))
    with pytest.raises(Degraded):
        client.recall("refunds")
    assert (len(transport.requests), len(pauses), min(pauses)) == (4, 3, 2)
    with pytest.raises(Degraded):
        Commonplace(URL, "token", transport=transport, max_wait=3).recall("refunds")
    assert len(pauses) == 4


def test_the_limit_of_a_token_says_when_it_ends(alice_user: User, pauses: list[float]) -> None:
    client = Commonplace(URL, token_of(alice_user, calls_per_minute=1), transport=InProcess())
    client.account()
    with pytest.raises(LimitReached) as reached:
        client.account()
    assert reached.value.status == 429
    assert reached.value.retry_after
    assert 0 < reached.value.retry_after <= 60


def test_address_and_token_come_from_the_environment(alice_user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COMMONPLACE_URL", "COMMONPLACE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="COMMONPLACE_URL"):
        Commonplace()
    monkeypatch.setenv("COMMONPLACE_URL", f"{URL}/")
    with pytest.raises(ValueError, match="COMMONPLACE_TOKEN"):
        Commonplace()
    for address in ("commonplace.example.org", "ftp://host", "https://", "https://me:secret@host", "https://host/?a=b"):
        with pytest.raises(ValueError, match="address"):
            Commonplace(address, "token")
    monkeypatch.setenv("COMMONPLACE_TOKEN", token_of(alice_user))
    transport = client_of(alice_user)[1]
    assert Commonplace(transport=transport).account()["email"] == alice_user.email


@pytest.mark.parametrize(
    "path", ["https://elsewhere.example/", "//elsewhere.example/", "me/../../../admin/", "", "/me/"]
)
def test_the_token_is_sent_below_the_api_alone(path: str, alice_user: User) -> None:
    client, transport = client_of(alice_user)
    with pytest.raises(ValueError, match="/api/v1/"):
        client.request("GET", path)
    assert transport.requests == []


def script(name: str) -> Any:
    """Import a script that writes a part of the client."""
    specification = importlib.util.spec_from_file_location(name, CLIENT / f"{name}.py")
    assert specification
    assert specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_ordinary_client_is_written_from_the_asynchronous_one() -> None:
    written = script("write_sync").written()
    assert {file: file.read_text() for file in written} == written


def test_the_types_of_answers_are_written_from_the_document() -> None:
    module = script("write_types")
    assert module.FILE.read_text() == module.written()

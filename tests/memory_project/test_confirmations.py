"""Confirmation by elicitation, through the SDK's client: in memory with both kinds of revision, and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from django.db import connections
from django.test import override_settings
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

from analysis.models import Action
from foundation.people.caller import Caller, system_caller
from knowledge.models import Changeset
from memories import services
from memories.conversation import turns
from memories.conversation.models import WipeRequest
from memories.conversation.operations import StoreMessages
from memories.models import MemoryRecord, Status, Tombstone
from memories.operations import Revise
from memory_project.accounts.tokens import create_token
from memory_project.mcp import confirmations
from memory_project.models import AuditEvent, User
from tests.analysis.conftest import api
from tests.fake_rest_api import Api
from tests.knowledge.conftest import ORDERS
from tests.mcp_client import as_caller, content_of

__all__ = ["api"]
pytestmark = pytest.mark.django_db(transaction=True)

MODES = ["auto", "legacy"]  # the question is the result of the call, or a request of the server


class Person:
    """Answers the questions of a client, and keeps them."""

    def __init__(self, action: Any = "accept", content: Any = None, before: Callable[[], Any] | None = None) -> None:
        self.action, self.content, self.before = action, {"confirm": True} if content is None else content, before
        self.questions: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.questions.append(params)
        if self.before:
            await asyncio.to_thread(self._run_before)
        return ElicitResult(action=self.action, content=self.content if self.action == "accept" else None)

    def _run_before(self) -> None:
        assert self.before
        try:
            self.before()
        finally:
            connections.close_all()

    def call(self, caller: Caller, tool: str, arguments: dict[str, Any], mode: str = "auto") -> Any:
        return as_caller(caller, lambda c: c.call_tool(tool, arguments), mode, ["all"], elicitation_callback=self)


def erase(record: MemoryRecord) -> dict[str, Any]:
    return {"command": "erase", "id": record.pk.hex}


@pytest.mark.parametrize("mode", MODES)
def test_the_person_is_asked_before_a_memory_is_erased(alice: Caller, fact: MemoryRecord, mode: str) -> None:
    person = Person()
    result = person.call(alice, "memory_manage", erase(fact), mode)
    assert not result.is_error, result.content
    assert Tombstone.objects.filter(record_id=fact.pk).exists()
    (question,) = person.questions
    assert "can't be undone" in question.message
    assert f'"{fact.content}"' in question.message
    event = AuditEvent.objects.get(tool="memory_manage", outcome="ok")
    assert event.arguments["confirmed_by"] == "elicitation"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("action", "content"), [("decline", None), ("cancel", None), ("accept", {"confirm": False}), ("accept", {})]
)
def test_without_consent_nothing_happens(
    alice: Caller, fact: MemoryRecord, mode: str, action: str, content: Any
) -> None:
    result = Person(action, content).call(alice, "memory_manage", erase(fact), mode)
    assert (result.is_error, content_of(result)["code"]) == (True, "declined")
    assert "nothing was done" in content_of(result)["error"]
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()
    assert AuditEvent.objects.get(tool="memory_manage").outcome == "refused"


@pytest.mark.parametrize("mode", MODES)
def test_what_changed_while_the_person_thought_is_asked_anew(alice: Caller, fact: MemoryRecord, mode: str) -> None:
    def revise() -> None:
        services.revise(alice, Revise(record_id=fact.pk, content="Revenue includes refunds."))

    result = Person(before=revise).call(alice, "memory_manage", erase(fact), mode)
    assert content_of(result)["code"] == "conflict"
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()


def test_explicit_confirmation_and_refused_calls_ask_nobody(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    person = Person()
    assert content_of(person.call(bob, "memory_manage", erase(fact)))["code"] == "forbidden"
    unknown = {"command": "erase", "id": "0" * 32}
    assert content_of(person.call(alice, "memory_manage", unknown))["code"] == "not_found"
    assert not person.call(alice, "memory_manage", {**erase(fact), "confirm": True}).is_error
    assert person.questions == []
    assert "confirmed_by" not in AuditEvent.objects.get(outcome="ok").arguments


def test_a_client_without_elicitation_passes_confirm(alice: Caller, fact: MemoryRecord) -> None:
    result = as_caller(alice, lambda client: client.call_tool("memory_manage", erase(fact)))
    assert content_of(result)["error"].startswith("confirm: is not set")
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()


def test_a_text_cannot_imitate_the_question(alice: Caller, fact: MemoryRecord) -> None:
    hostile = 'x"\n\nNothing will be erased.\u202e'
    services.revise(alice, Revise(record_id=fact.pk, content=hostile))
    person = Person("decline")
    person.call(alice, "memory_manage", erase(fact))
    (question,) = person.questions
    assert "\n" not in question.message
    assert '"x\\"\\n\\nNothing' in question.message
    assert "\u202e" not in question.message


@pytest.mark.parametrize("mode", MODES)
def test_deleting_and_wiping_conversations(alice: Caller, mode: str) -> None:
    messages = [{"role": "human", "content": "I always report revenue without refunds."}]
    operation = StoreMessages.read({"user_id": alice.email, "conversation_id": "s1", "messages": messages})
    turns.store_messages(alice, operation)
    person = Person()
    window = {"user_id": alice.email, "time_range": {"start": "2020-01-01T00:00:00Z"}}
    deleted = person.call(alice, "delete_memory", window, mode)
    assert content_of(deleted)["deleted_count"] >= 1, content_of(deleted)
    assert not MemoryRecord.objects.exclude(status=Status.ARCHIVED).exists()
    wiped = person.call(alice, "wipe_user_data", {"user_id": alice.email}, mode)
    assert content_of(wiped)["status"] == "waits_for_confirmation", content_of(wiped)
    assert WipeRequest.objects.exists()
    assert ["conversation memories" in asked.message for asked in person.questions] == [True, False]


@pytest.mark.parametrize("mode", MODES)
def test_acting_on_more_than_fifty_records(api: Api, alice: Caller, mode: str) -> None:
    base = {"analysis_id": "audit", "model": "book"}
    person = Person()
    person.call(alice, "analysis_ingest", {**base, "ingest_all": True}, mode)
    change = {**base, "action": "update", "attributes": {"status": "unread"}}
    declined = Person("decline").call(alice, "analysis_act", change, mode)
    assert content_of(declined)["code"] == "declined"
    assert not Action.objects.exists()
    acted = person.call(alice, "analysis_act", change, mode)
    assert content_of(acted)["summary"]["succeeded"] == 120, content_of(acted)
    assert "120 book records" in person.questions[0].message


@pytest.mark.parametrize("mode", MODES)
def test_applying_and_rolling_back(small_catalog: None, alice: Caller, cora: Caller, mode: str) -> None:
    captured = {"category": "data_quality", "insight_text": "This table holds test stores.", "entity_urns": [ORDERS]}
    insight_id = content_of(as_caller(alice, lambda c: c.call_tool("capture_insight", captured)))["insight_id"]
    person, declining = Person(), Person("decline")

    def curate(who: Person, action: str, **arguments: Any) -> dict[str, Any]:
        return content_of(who.call(cora, "apply_knowledge", {"action": action, **arguments}, mode))

    curate(person, "approve", insight_ids=[insight_id])
    changes = [{"change_type": "add_tag", "detail": "Training"}]
    plan = {"entity_urn": ORDERS, "insight_ids": [insight_id], "changes": changes}
    assert curate(declining, "apply", **plan)["code"] == "declined"
    assert not Changeset.objects.exists()
    assert curate(person, "apply", **plan, dry_run=True)["dry_run"] is True
    assert person.questions == []  # nothing is written, so nobody is asked
    applied = curate(person, "apply", **plan)
    assert applied.get("state") == "applied", applied
    assert curate(declining, "rollback", changeset_id=applied["changeset_id"])["code"] == "declined"
    assert Changeset.objects.get().state == "applied"
    assert curate(person, "rollback", changeset_id=applied["changeset_id"]).get("state") == "rolled_back"
    assert curate(person, "rollback", changeset_id=applied["changeset_id"])["code"] == "conflict"
    write, undo = (question.message for question in person.questions)
    assert write.startswith("Write ")
    assert undo.startswith("Roll back the changeset of ")


def over_http(
    address: str, token: str, tool: str, arguments: dict[str, Any], person: Person, mode: str = "auto"
) -> Any:
    async def main() -> Any:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http_client:
            transport = streamable_http_client(f"{address}/mcp", http_client=http_client)
            async with Client(transport, mode=mode, elicitation_callback=person) as client:
                return await client.call_tool(tool, arguments)

    return asyncio.run(main())


def test_the_stateless_server_asks_in_the_result(http: str, alice_user: User, fact: MemoryRecord) -> None:
    with override_settings(ALLOWED_HOSTS=["127.0.0.1"]):
        _, token = create_token(system_caller(), user=alice_user, name="agent")
        person = Person()
        assert over_http(http, token, "memory_manage", erase(fact), person, "legacy").is_error
        assert person.questions == []  # no request of the server reaches a client of an earlier revision
        assert not over_http(http, token, "memory_manage", erase(fact), person).is_error
    assert len(person.questions) == 1
    assert not MemoryRecord.objects.filter(pk=fact.pk).exists()


def test_the_answer_of_another_connection_is_refused(
    http: str, alice_user: User, ada_user: User, fact: MemoryRecord
) -> None:
    async def round_trip(token: str, **answer: Any) -> Any:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http_client:
            transport = streamable_http_client(f"{http}/mcp", http_client=http_client)
            async with Client(transport, elicitation_callback=Person()) as client:
                try:
                    return await client.session.call_tool(
                        "memory_manage", erase(fact), allow_input_required=True, **answer
                    )
                except MCPError as error:
                    return error

    _, own = create_token(system_caller(), user=alice_user, name="agent")
    _, admins = create_token(system_caller(), user=ada_user, name="agent")
    asked = asyncio.run(round_trip(own))
    answer = {"input_responses": {"confirm": ElicitResult(action="accept", content={"confirm": True})}}
    refused = asyncio.run(round_trip(admins, request_state=asked.request_state, **answer))
    assert (refused.code, refused.message) == (-32602, "Invalid or expired requestState")
    forged = asyncio.run(round_trip(own, **answer))  # an answer without the state is an answer to nothing
    assert forged.result_type == "input_required"
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()
    assert not asyncio.run(round_trip(own, request_state=asked.request_state, **answer)).is_error


def test_a_person_who_does_not_answer(alice: Caller, fact: MemoryRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirmations, "ANSWER_S", 0.2)

    async def think(context: Any, params: Any) -> ElicitResult:
        await asyncio.sleep(30)
        raise AssertionError

    def call(client: Any) -> Any:
        return client.call_tool("memory_manage", erase(fact))

    result = as_caller(alice, call, "legacy", elicitation_callback=think)
    assert content_of(result)["code"] == "declined"
    assert "did not answer" in content_of(result)["error"]
    assert MemoryRecord.objects.filter(pk=fact.pk).exists()

"""MCP resources, subscriptions to their changes, and the prompt for the start of a session."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import anyio
import pytest
from django.db import connections, transaction
from django.utils import timezone
from mcp import MCPError
from mcp.types import ResourceTemplateReference, ResourceUpdatedNotification

from foundation.people.caller import Caller, system_caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord
from memories.operations import MarkFeedback, Remember, Revise
from memories.writing import feedback
from memory_project.accounts.tokens import create_token
from memory_project.mcp import resource_watch, resources_and_prompts
from memory_project.models import AuditEvent, User
from tests.knowledge.conftest import ORDERS, put
from tests.mcp_client import as_caller, over_http

pytestmark = pytest.mark.django_db(transaction=True)
MINE = "commonplace://insights/mine"
ENTITY = f"commonplace://entity/{ORDERS}"


def test_resources_are_limited_to_what_the_caller_may_read(alice: Caller, olga: Caller, small_catalog: None) -> None:
    record = services.remember(alice, Remember(content="Orders <close> at ten.", entity_urns=[ORDERS])).record
    uri = f"commonplace://memory/{record.pk.hex}"

    async def read_all(client: Any) -> Any:
        offers = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        memory = json.loads((await client.read_resource(uri)).contents[0].text)
        entity = json.loads((await client.read_resource(f"commonplace://entity/{ORDERS}")).contents[0].text)
        insights = json.loads((await client.read_resource("commonplace://insights/mine")).contents[0].text)
        return offers, templates, memory, entity, insights

    offers, templates, memory, entity, insights = as_caller(alice, read_all)
    assert [str(offer.uri) for offer in offers] == ["commonplace://insights/mine", uri]
    assert {template.uri_template for template in templates} == {
        "commonplace://memory/{id}", "commonplace://entity/{urn}",
    }  # fmt: skip
    assert (memory["memory"]["content"], len(memory["history"])) == ("Orders <close> at ten.", 1)
    assert ([entry["id"] for entry in entity["memories"]], entity["entity"]["name"]) == (
        [record.pk.hex],
        "sales.orders",
    )
    assert insights["insights"] == []
    assert [str(o.uri) for o in as_caller(olga, lambda client: client.list_resources()).resources] == [
        "commonplace://insights/mine"
    ]
    for address in (uri, "commonplace://nothing/x", "commonplace://memory/x", "commonplace://insights/all"):

        async def read_error(client: Any, address: str = address) -> str:
            try:
                await client.read_resource(address)
            except MCPError as error:
                return str(error)
            return ""

        assert re.search("no such|no resource|is not", as_caller(olga, read_error)), address


def test_arguments_of_templates_are_completed(alice: Caller, olga: Caller, small_catalog: None) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten.")).record
    entity = ResourceTemplateReference(type="ref/resource", uri="commonplace://entity/{urn}")
    memory = ResourceTemplateReference(type="ref/resource", uri="commonplace://memory/{id}")

    def complete(caller: Caller, ref: Any, name: str, text: str) -> list[str]:
        response = as_caller(caller, lambda client: client.complete(ref, {"name": name, "value": text}))
        return list(response.completion.values)

    assert complete(alice, entity, "urn", "sales.ord") == [ORDERS]
    assert complete(alice, memory, "id", record.pk.hex[:4]) == [record.pk.hex]
    assert complete(olga, memory, "id", "") == []


async def fault_of(client: Any, uri: str) -> str:
    try:
        await client.read_resource(uri)
    except MCPError as error:
        return str(error)
    return ""


def test_a_resource_is_denied_to_callers_who_may_not_use_its_tool(alice: Caller, small_catalog: None) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten.", entity_urns=[ORDERS])).record
    closed = replace(alice, tools_deny=("memory_*", "capture_*"))

    async def read_all(client: Any) -> Any:
        links = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        reference = ResourceTemplateReference(type="ref/resource", uri="commonplace://memory/{id}")
        with pytest.raises(MCPError):
            await client.complete(reference, {"name": "id", "value": ""})
        faults = [await fault_of(client, uri) for uri in (f"commonplace://memory/{record.pk.hex}", MINE, ENTITY)]
        return [str(link.uri) for link in links], [template.name for template in templates], faults

    links, templates, faults = as_caller(closed, read_all)
    assert (links, templates) == ([], ["entity"])
    assert ("memory_manage" in faults[0], "capture_insight" in faults[1], faults[2]) == (True, True, "")


def test_each_read_is_audited(alice: Caller, olga: Caller, small_catalog: None) -> None:
    record = services.remember(alice, Remember(content="Orders close at ten.")).record
    uri = f"commonplace://memory/{record.pk.hex}"
    as_caller(alice, lambda client: client.read_resource(uri))
    as_caller(olga, lambda client: fault_of(client, uri))
    events = AuditEvent.objects.filter(tool="resources/read").order_by("at")
    assert [(event.email, event.outcome, event.code) for event in events] == [
        ("alice@example.org", "ok", ""),
        ("olga@example.org", "error", "not_found"),
    ]
    assert (events[0].record_ids, events[1].record_ids, events[0].arguments) == ([record.pk], [], {"uri": uri})


# -- subscriptions -------------------------------------------------------------------------------------------


async def in_another_thread(change: Callable[[], Any]) -> None:
    """Make the change in another thread with its own connections, as another process would."""

    def run() -> None:
        try:
            change()
        finally:
            connections.close_all()

    await anyio.to_thread.run_sync(run)


async def events_of(
    client: Any, uris: list[str], change: Any, *, count: int | None = None, within_s: float = 60
) -> list[str]:
    """Return the URIs of the first `count` events after the change, or of those that arrive within these seconds.

    An empty string stands for the list of resources. As a rule, each URI and the list have an event.
    """
    received: list[str] = []
    async with client.listen(resources_list_changed=True, resource_subscriptions=uris) as events:
        await in_another_thread(change)
        with anyio.move_on_after(within_s):
            async for event in events:
                received.append(getattr(event, "uri", ""))
                if len(received) == (count or len(uris) + 1):
                    break
    return received


def test_a_subscriber_receives_changes_of_readable_resources(
    alice: Caller, olga: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    record = services.remember(alice, Remember(content="Orders close at ten.", entity_urns=[ORDERS])).record
    uris = [f"commonplace://memory/{record.pk.hex}", ENTITY]

    @transaction.atomic  # so that an entity with two changes has one event
    def change() -> None:
        services.revise(alice, Revise(record_id=record.pk, content="Orders close at eleven."))
        services.remember(alice, Remember(content="Orders are counted at night.", entity_urns=[ORDERS]))

    received = as_caller(alice, lambda client: events_of(client, uris, change))
    assert sorted(received) == sorted([*uris, ""])
    assert as_caller(olga, lambda client: events_of(client, uris, change, within_s=3)) == []


def test_a_subscriber_learns_that_a_memory_has_ended(
    alice: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    ends = timezone.now() + timedelta(days=1)
    fact = Remember(content="Orders close at ten.", entity_urns=[ORDERS], valid_until=ends)
    uris = [f"commonplace://memory/{services.remember(alice, fact).record.pk.hex}", ENTITY]

    def let_it_end() -> None:
        MemoryRecord.objects.update(valid_until=timezone.now())  # as a day later, for no row is written when it ends

    received = as_caller(alice, lambda client: events_of(client, uris, let_it_end))
    assert set(received) >= set(uris)  # the list of resources changes, too


def test_a_subscriber_learns_of_a_mark_on_a_memory_about_an_entity(
    alice: Caller, bob: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    fact = Remember(content="Orders close at ten.", entity_urns=[ORDERS])
    record = services.remember(alice, fact).record
    mark = MarkFeedback.read({"record_id": record.pk, "verdict": "wrong", "note": "They close at nine."})
    received = as_caller(alice, lambda client: events_of(client, [ENTITY], lambda: feedback.mark(bob, mark), count=1))
    assert ENTITY in received


def test_a_subscriber_over_http_receives_changes(
    http: str, alice: Caller, alice_user: User, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    token = create_token(system_caller(), user=alice_user, name="test")[1]

    def propose() -> None:
        capture(alice, Capture(insight_text="Refunds are late.", category="data_quality"))

    received = over_http(http, token, lambda client: events_of(client, [MINE], propose))
    assert sorted(received) == ["", MINE]


def test_an_event_stream_ends_without_error(
    alice: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    monkeypatch.setattr(resource_watch, "LISTEN_FOR_S", 0.3)

    async def listen(client: Any) -> list[Any]:
        async with client.listen(resources_list_changed=True) as events:
            return [event async for event in events]

    assert as_caller(alice, listen) == []


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
def test_a_client_of_the_old_protocol_can_subscribe(
    alice: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    record = services.remember(alice, Remember(content="Orders close at ten.")).record
    uri = f"commonplace://memory/{record.pk.hex}"
    received: list[str] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            received.append(str(message.params.uri))

    async def follow(client: Any) -> None:
        await client.subscribe_resource(uri)
        await in_another_thread(
            lambda: services.revise(alice, Revise(record_id=record.pk, content="Orders close at eleven."))
        )
        with anyio.move_on_after(60):
            while not received:
                await anyio.sleep(0.05)
        await client.unsubscribe_resource(uri)

    as_caller(alice, follow, mode="legacy", message_handler=on_message)
    assert received == [uri]


# -- start of a session --------------------------------------------------------------------------------------


def test_the_session_prompt_lists_changes_about_the_caller_s_entities(
    alice: Caller, bob: Caller, olga: Caller, cora: Caller, small_catalog: None
) -> None:
    services.remember(bob, Remember(content="Orders close at ten.", entity_urns=[ORDERS]))
    proposal = capture(
        bob, Capture(insight_text="Amounts are gross.", category="data_quality", entity_urns=[ORDERS])
    ).insight
    fact = services.remember(alice, Remember(content="Orders are counted at night.", entity_urns=[ORDERS])).record
    old = services.remember(alice, Remember(content="Orders have no status.", entity_urns=[ORDERS])).record
    services.mark_stale(alice, record_id=old.pk, reason="they do now")
    services.remember(alice, Remember(content="Not about what Bob knows.", entity_urns=["urn:li:tag:x"]))
    services.remember(olga, Remember(content="A text for every agent.", entity_urns=[ORDERS], visibility="everyone"))
    put(ORDERS, "deprecation", {"deprecated": False, "note": "", "actor": "urn:li:corpuser:x"})
    put(ORDERS, "deprecation", {"deprecated": True, "note": "", "actor": "urn:li:corpuser:x"})
    decisions.approve(cora, insight_id=proposal.pk, notes="Seen in the ledger.")

    prompt = as_caller(bob, lambda client: client.get_prompt("start_of_session"))
    request, news = (message.content.text for message in prompt.messages)
    assert "not instructions" in request
    lines = [line for line in news.splitlines() if line.startswith("- ")]
    assert [line for line in lines if proposal.pk.hex in line and "approved by cora@example.org" in line]
    assert "Seen in the ledger." in news
    assert news.index("Corrected or outdated") < news.index(old.pk.hex)
    assert "deprecation" in news
    assert news.index("New from colleagues") < news.index(fact.pk.hex)
    assert "Not about what Bob knows." not in news
    assert "A text for every agent." not in news
    nothing = as_caller(olga, lambda client: client.get_prompt("start_of_session")).messages[1].content.text
    assert "Orders are counted at night." not in nothing
    for tool in ("memory_recall", "memory_briefing"):
        closed = replace(bob, tools_deny=(tool,))
        assert len(as_caller(closed, lambda client: client.get_prompt("start_of_session")).messages) == 1


def test_a_stream_that_has_ended_makes_room_for_another(
    alice: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_watch, "POLL_S", 0.1)
    monkeypatch.setattr(resource_watch, "LISTEN_FOR_S", 0.3)
    monkeypatch.setattr(resources_and_prompts, "MAX_STREAMS", 1)

    async def listen_twice(client: Any) -> None:
        for _ in range(2):
            async with client.listen(resources_list_changed=True) as events:
                assert [event async for event in events] == []

    as_caller(alice, listen_twice)

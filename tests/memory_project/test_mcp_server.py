"""The MCP server through the SDK's own client: in memory, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.core.management import CommandError, call_command
from django.test import Client as RestClient
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from foundation.people.caller import Caller, system_caller
from foundation.people.models import Persona
from memories import extensions, services
from memories.extensions import MemoryExtension
from memories.models import MemoryRecord
from memories.operations import Erase, Remember
from memories.writing import erasure
from memory_project.accounts.tokens import create_token, revoke_token
from memory_project.mcp.responses import CONTEXT_KEY
from memory_project.models import AuditEvent, User
from tests.knowledge.conftest import ORDERS
from tests.mcp_client import as_caller, content_of, environment, over_http

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parent.parent.parent


# -- the contract -----------------------------------------------------------------------------------------


def test_tools_are_advertised_with_schemas_titles_and_hints(alice: Caller, cora: Caller) -> None:
    tools = {tool.name: tool for tool in as_caller(cora, lambda client: client.list_tools()).tools}
    offered_to_alice = {tool.name for tool in as_caller(alice, lambda client: client.list_tools()).tools}
    assert set(tools) - offered_to_alice == {"apply_knowledge"}  # not offered to Alice, for whom it would always fail
    suggestions, _ = tools["capture_insight"].input_schema["properties"]["suggested_actions"]["anyOf"]
    assert "add_documentation: URL | label" in suggestions["items"]["properties"]["action_type"]["description"]
    assert list(tools)[:2] == ["memory_manage", "memory_recall"]
    assert set(list(tools)[2:]) == {
        "memory_briefing",
        "capture_insight",
        "apply_knowledge",
        "catalog_search",
        "catalog_entity",
        "catalog_lineage",
        "analysis_ingest",
        "analysis_store",
        "analysis_query",
        "analysis_clear",
        "analysis_export",
    }
    assert all(tool.title and tool.output_schema is None for tool in tools.values())
    recall = tools["memory_recall"]
    assert "caller" not in recall.input_schema["properties"]
    assert recall.input_schema["properties"]["limit"]["maximum"] == 50
    assert "required" not in recall.input_schema
    assert (recall.title, recall.annotations.read_only_hint) == ("Recall memories", True)
    assert tools["memory_manage"].annotations.destructive_hint is True


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_remember_and_recall(alice: Caller, mode: str) -> None:
    async def action(client: Any) -> Any:
        fact = {"command": "remember", "content": "Revenue excludes refunds."}
        await client.call_tool("memory_manage", fact)
        return await client.call_tool("memory_recall", {"query": "refunds", "k": 1})

    response = as_caller(alice, action, mode)
    (memory,) = response.structured_content["memories"]
    assert all(memory[key] in response.content[0].text for key in ("id", "content", "created_by"))
    assert response.structured_content["memories"][0]["content"] == "Revenue excludes refunds."


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "message"),
    [
        (
            "memory_recall",
            {"query": "x", "limmit": 1},
            "invalid",
            "limmit: is not an argument of this tool: did you mean limit?; allowed: query",
        ),
        ("memory_recall", {"query": "x", "limit": "many"}, "invalid", "limit: "),
        ("memory_recall", {"query": ["x"]}, "invalid", "query: "),
        ("memory_manage", {"command": "remember", "content": "short"}, "invalid", "10 to 4000"),
        ("memory_manage", {"command": "forget", "id": "0" * 32}, "not_found", "no such memory"),
        ("memory_manage", {"command": "forget", "id": "nonsense"}, "invalid", "hexadecimal"),
    ],
)
def test_an_error_names_the_field_the_problem_and_the_allowed_values(
    alice: Caller, tool: str, arguments: dict[str, Any], code: str, message: str
) -> None:
    response = as_caller(alice, lambda client: client.call_tool(tool, arguments))
    assert response.is_error
    assert content_of(response)["code"] == code
    assert message in content_of(response)["error"]


def crash(*arguments: Any, **options: Any) -> None:
    raise RuntimeError("SELECT secret FROM table")


@pytest.mark.parametrize("function", ["memories.mcp_tools.recall", "memory_project.mcp.server.CommonplaceServer._call"])
def test_an_internal_error_reveals_no_details_to_the_client(
    function: str, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(function, crash)
    response = as_caller(alice, lambda client: client.call_tool("memory_recall", {"query": "x"}))
    assert content_of(response)["code"] == "internal"
    assert "secret" not in response.content[0].text


def test_a_failing_audit_does_not_affect_the_response(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_project.audit.record", crash)
    response = as_caller(alice, lambda client: client.call_tool("memory_recall", {"query": "x"}))
    assert not response.is_error


def test_a_persona_sees_and_calls_only_its_allowed_tools(alice_user: User) -> None:
    from foundation.people.permissions import build_caller

    Persona.objects.filter(name="sales").update(tools_allow=["memory_*"], tools_deny=["memory_manage"])
    caller = build_caller(alice_user, channel="test")

    async def action(client: Any) -> Any:
        tools = await client.list_tools()
        return [tool.name for tool in tools.tools], await client.call_tool("memory_manage", {"command": "list"})

    names, response = as_caller(caller, action)
    assert names == ["memory_recall", "memory_briefing"]
    assert content_of(response)["code"] == "forbidden"
    assert AuditEvent.objects.get().outcome == "refused"


def test_every_call_is_audited_without_long_texts_and_secrets(alice: Caller) -> None:
    secret = {"command": "remember", "content": "x" * 300, "metadata": {"api_key": "s3cret", "about": "fine"}}
    as_caller(alice, lambda client: client.call_tool("memory_manage", secret))
    event = AuditEvent.objects.get()
    assert (event.email, event.persona, event.tool, event.outcome) == (
        "alice@example.org",
        "sales",
        "memory_manage",
        "ok",
    )
    assert event.arguments["content"] == "[300 characters]"
    assert event.arguments["metadata"] == {"api_key": "[secret]", "about": "fine"}
    assert event.record_ids == [MemoryRecord.objects.get().pk]
    assert event.duration_ms > 0


def test_erasing_a_memory_removes_it_from_the_audit(alice: Caller) -> None:
    async def action(client: Any) -> None:
        response = await client.call_tool("memory_manage", {"command": "remember", "content": "A short secret."})
        id = response.structured_content["id"]
        await client.call_tool("memory_manage", {"command": "erase", "id": id, "confirm": True})

    as_caller(alice, action)
    assert not [event for event in AuditEvent.objects.all() if "secret" in json.dumps(event.arguments)]


# -- over stdio and HTTP ----------------------------------------------------------------------------------


def test_stdio_serves_the_user_it_was_started_for(alice_user: User) -> None:
    server = StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "manage.py"), "mcp", "--as", alice_user.email],
        env=environment(),
        cwd=str(ROOT),
    )

    async def main() -> Any:
        async with Client(stdio_client(server)) as client:
            await client.call_tool("memory_manage", {"command": "remember", "content": "Said over stdio, by Alice."})
            return await client.call_tool("memory_recall", {"query": "stdio"})

    response = asyncio.run(main())
    assert response.structured_content["memories"][0]["created_by"] == "alice@example.org"
    assert set(AuditEvent.objects.values_list("channel", flat=True)) == {"mcp-stdio"}


def test_the_audit_of_a_read_survives_a_kill_and_is_cleared_by_erase(
    alice_user: User, alice: Caller, fact: MemoryRecord
) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "mcp", "--as", alice_user.email]
    pipe = subprocess.PIPE
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    history = {"name": "memory_manage", "arguments": {"command": "history", "id": fact.pk.hex}}
    recall = {"name": "memory_recall", "arguments": {"query": "refunds"}}
    with subprocess.Popen(command, env=environment(), cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        messages: list[dict[str, Any]] = [
            {"id": 1, "method": "initialize", "params": client},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": history},
            {"id": 3, "method": "tools/call", "params": recall},
        ]
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            process.stdin.flush()
            while "id" in message and json.loads(process.stdout.readline()).get("id") != message["id"]:
                pass
        process.kill()
    assert sorted(AuditEvent.objects.values_list("tool", flat=True)) == ["memory_manage", "memory_recall"]
    erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert AuditEvent.objects.get(tool="memory_manage").arguments == {"erased": True}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--as EMAIL"),
        (["--as", "nobody@example.org"], "nobody@example.org"),
        (["--as", "alice@example.org", "--persona", "supply"], "supply"),
    ],
)
def test_stdio_does_not_start_without_identity(alice_user: User, arguments: list[str], message: str) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "mcp", *arguments]
    process = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert process.returncode == 1
    assert process.stdout == ""
    assert message in process.stderr
    assert "Traceback" not in process.stderr


def test_http_serves_the_owner_of_the_token(http: str, alice_user: User, bob_user: User, olga_user: User) -> None:
    def token(user: User) -> str:
        return create_token(system_caller(), user=user, name="test")[1]

    remember = {"command": "remember", "content": "Said over HTTP, by Alice."}
    over_http(http, token(alice_user), lambda client: client.call_tool("memory_manage", remember))

    def recalled(user: User) -> list[str]:
        response = over_http(http, token(user), lambda client: client.call_tool("memory_recall", {"query": "HTTP"}))
        return [memory["created_by"] for memory in response.structured_content["memories"]]

    assert recalled(alice_user) == recalled(bob_user) == ["alice@example.org"]
    assert recalled(olga_user) == []

    # With the same server: revoked, made-up and missing tokens, and requests of a foreign page or host.
    api_token, text = create_token(system_caller(), user=alice_user, name="test")
    revoke_token(system_caller(), token_id=api_token.pk)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for wrong in ({"Authorization": f"Bearer {text}"}, {"Authorization": "Bearer cpl_made-up"}, {}):
        refused = httpx2.post(f"{http}/mcp", json=body, headers=wrong, timeout=60)
        assert refused.status_code == 401
        assert refused.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
        assert "createtoken" in refused.json()["error"]
    good = {"Authorization": f"Bearer {token(alice_user)}", "Accept": "application/json, text/event-stream"}
    foreign_page, foreign_host = (
        httpx2.post(f"{http}/mcp", json=body, headers={**good, **wrong}, timeout=60)
        for wrong in ({"Origin": "https://evil.example"}, {"Host": "evil.example"})
    )
    assert (foreign_page.status_code, foreign_host.status_code) == (403, 421)


def test_http_connections_choose_their_tools(http: str, alice_user: User) -> None:
    token = create_token(system_caller(), user=alice_user, name="test")[1]

    def tools(path: str = "", **headers: str) -> set[str]:
        listing = over_http(http, token, lambda client: client.list_tools(), path, **headers)
        return {tool.name for tool in listing.tools}

    default = tools()
    assert "memory_recall" in default
    assert "create_entities" not in default
    graph = tools("/x/graph")
    assert "create_entities" in graph
    assert "memory_recall" not in graph
    assert tools(**{"X-MCP-Toolsets": "graph"}) == graph
    reading = tools("/x/memory,graph/readonly")
    assert {"memory_recall", "memory_manage", "catalog_entity", "search_nodes"} <= reading
    assert not {"memory_store", "create_entities", "capture_insight"} & reading
    assert tools("/x/memory,graph", **{"X-MCP-Readonly": "true"}) == reading
    for value in ("on", "Yes", "1", "TRUE"):
        assert tools("/x/memory,graph", **{"X-MCP-Readonly": value}) == reading
    assert "memory_manage" in tools("/x/memory", **{"X-MCP-Readonly": "off"})
    assert "memory_store" not in tools("/x/memory/readonly", **{"X-MCP-Readonly": "off"})  # a selection only narrows
    authorization = {"Authorization": f"Bearer {token}"}
    for path in ("/x/bogus", "/x/memory/writeonly"):
        missing = httpx2.post(f"{http}/mcp{path}", json={}, headers=authorization, timeout=60)
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_reading_connections_offer_only_the_commands_that_read(http: str, alice_user: User) -> None:
    token = create_token(system_caller(), user=alice_user, name="test")[1]
    path = "/x/memory/readonly"
    listing = over_http(http, token, lambda client: client.list_tools(), path)
    manage = next(tool for tool in listing.tools if tool.name == "memory_manage")
    assert manage.input_schema["properties"]["command"]["enum"] == ["history", "get", "list", "review_stale", None]
    assert not {"content", "verdict", "reason"} & set(manage.input_schema["properties"])
    assert manage.annotations is not None
    assert manage.annotations.read_only_hint is True
    remember = {"command": "remember", "content": "Not by this connection."}
    refused = over_http(http, token, lambda client: client.call_tool("memory_manage", remember), path)
    assert content_of(refused)["code"] == "forbidden"
    assert not MemoryRecord.objects.exists()
    listed = over_http(http, token, lambda client: client.call_tool("memory_manage", {"command": "list"}), path)
    assert listed.structured_content["total"] == 0
    usage = over_http(http, token, lambda client: client.call_tool("memory_manage", {}), path)
    assert set(content_of(usage)["commands"]) == {"history", "get", "list", "review_stale"}


def test_a_tool_of_another_toolset_names_the_way_to_it(http: str, alice_user: User) -> None:
    token = create_token(system_caller(), user=alice_user, name="test")[1]
    call = {"query": "orders"}
    refused = over_http(http, token, lambda client: client.call_tool("catalog_search", call), "/x/memory")
    assert refused.is_error
    assert "/mcp/x/memory,knowledge" in content_of(refused)["error"]


def test_schemas_of_responses_are_listed_on_request(http: str, alice_user: User) -> None:
    token = create_token(system_caller(), user=alice_user, name="test")[1]
    for query, is_listed in (("", False), ("?output_schemas=true", True), ("?output_schemas=no", False)):
        tools = over_http(http, token, lambda client: client.list_tools(), query).tools
        assert {tool.output_schema is not None for tool in tools} == {is_listed}


def test_a_persona_denies_single_commands_and_has_toolsets_of_its_own(http: str, alice_user: User) -> None:
    Persona.objects.filter(name="sales").update(toolsets=["graph", "memory"], tools_deny=["memory_manage.e*"])
    token = create_token(system_caller(), user=alice_user, name="test", persona="sales")[1]
    tools = {tool.name: tool for tool in over_http(http, token, lambda client: client.list_tools()).tools}
    assert "create_entities" in tools
    assert "capture_insight" not in tools
    commands = tools["memory_manage"].input_schema["properties"]["command"]["enum"]
    assert ("erase" in commands, "remember" in commands) == (False, True)
    chosen = over_http(http, token, lambda client: client.list_tools(), "/x/knowledge").tools
    assert "capture_insight" in {tool.name for tool in chosen}  # a client's own choice counts


def test_a_denied_command_is_denied_over_rest_and_as_a_resource_too(alice: Caller, alice_user: User) -> None:
    record = services.remember(alice, Remember(content="Revenue excludes refunds.")).record
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage.remember", "memory_manage.get"])
    token = create_token(system_caller(), user=alice_user, name="test", persona="sales")[1]
    rest = RestClient(headers={"authorization": f"Bearer {token}"})
    fact = {"content": "Not by this persona."}
    assert rest.post("/api/v1/memories/", fact, content_type="application/json").status_code == 403
    assert rest.get(f"/api/v1/memories/{record.pk}/").status_code == 403
    assert rest.get("/api/v1/memories/").status_code == 200
    closed = replace(alice, tools_deny=("memory_manage.get",))
    assert not any("memory/" in str(link.uri) for link in as_caller(closed, lambda c: c.list_resources()).resources)


def test_a_persona_may_allow_single_commands() -> None:
    caller = Caller(email="a", persona="p", personas=frozenset(), tools_allow=("memory_manage.list", "catalog_*"))
    assert caller.may_use("memory_manage")
    assert (caller.may_use("memory_manage", "list"), caller.may_use("memory_manage", "erase")) == (True, False)
    assert (caller.may_use("catalog_search"), caller.may_use("memory_recall")) == (True, False)


# -- reports ------------------------------------------------------------------------------------


def test_a_connection_is_asked_once_for_reports_and_a_reading_one_never(alice: Caller, fact: MemoryRecord) -> None:
    def texts(caller: Caller, toolsets: Sequence[str] = ("memory", "reports")) -> list[str]:
        call = partial(Client.call_tool, name="memory_recall", arguments={"query": "refunds"})
        result = as_caller(caller, call, toolsets=list(toolsets))
        assert "memory_feedback" not in str(result.structured_content)
        return [block.text for block in result.content if "memory_feedback" in block.text]

    caller = replace(alice, connection="token 1")
    assert texts(replace(caller, tools_deny=("memory_feedback",))) == []
    assert texts(replace(caller, wants_context=False)) == []
    assert texts(caller, ["memory"]) == []
    assert [len(texts(caller)) for _ in range(2)] == [1, 0]
    assert len(texts(replace(alice, connection="token 2"))) == 1


def test_reports_over_mcp_and_rest_need_a_connection_that_may_write(
    http: str, alice_user: User, bob_user: User, olga_user: User, fact: MemoryRecord
) -> None:
    used = {"used": [fact.pk.hex], "outdated": [fact.pk.hex], "note": "since May"}
    tokens = {
        user.email: create_token(system_caller(), user=user, name="test")[1]
        for user in (alice_user, bob_user, olga_user)
    }

    def called(user: User, path: str = "/x/memory,reports") -> dict[str, Any]:
        call = partial(Client.call_tool, name="memory_feedback", arguments=used)
        return content_of(over_http(http, tokens[user.email], call, path))

    def post(token: str) -> Any:
        rest = RestClient(headers={"authorization": f"Bearer {token}"})
        return rest.post("/api/v1/memories/reports/", used, content_type="application/json")

    assert called(bob_user, "/x/memory,reports/readonly")["code"] == "forbidden"
    assert "/mcp/x/memory,analysis,knowledge,reports" in called(bob_user, "")["error"]
    Persona.objects.filter(name="sales").update(tools_deny=["memory_feedback"])
    assert post(tokens[bob_user.email]).status_code == 403
    Persona.objects.filter(name="sales").update(tools_deny=[])
    assert called(olga_user)["error"] == f"used: no such memory: {fact.pk.hex}"
    assert post(tokens[olga_user.email]).status_code == 404
    assert called(bob_user) == {"reported": {"used": 1, "outdated": 1}, "repeated": 0, "withdrawn": 0}
    assert post(tokens[bob_user.email]).json() == {"reported": {}, "repeated": 2, "withdrawn": 0}
    seen = {
        user.email: RestClient(headers={"authorization": f"Bearer {tokens[user.email]}"}).get(
            f"/api/v1/memories/{fact.pk.hex}/reports/"
        )
        for user in (alice_user, olga_user)
    }
    assert seen[olga_user.email].status_code == 404
    answer = seen[alice_user.email].json()
    assert (answer["used"], answer["used_by"], answer["doubts"][0]["by"]) == (1, 1, bob_user.email)


# -- memory context ---------------------------------------------------------------------------


def test_memories_are_attached_to_a_response_unless_the_call_declines(
    alice: Caller, bob: Caller, small_catalog: None
) -> None:
    services.remember(alice, Remember(content="Orders close at ten.", entity_urns=[ORDERS]))

    async def call(client: Any) -> Any:
        return await client.call_tool("catalog_entity", {"urn": ORDERS})

    async def call_without(client: Any) -> Any:
        return await client.call_tool("catalog_entity", {"urn": ORDERS}, meta={CONTEXT_KEY: False})

    response = as_caller(bob, call)
    assert json.loads(response.content[1].text)["memory_context"][0]["content"] == "Orders close at ten."
    assert "memory_context" not in response.structured_content
    event = AuditEvent.objects.get(tool="catalog_entity")
    assert (event.context_count, event.context_ms > 0, event.record_ids) == (1, True, [])
    assert len(as_caller(bob, call_without).content) == 1


def test_a_failing_extension_does_not_affect_the_response(
    alice: Caller, small_catalog: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(MemoryExtension):
        def after_call(self, caller: Caller, call: Any) -> list[Any]:
            raise RuntimeError("the power went")

    monkeypatch.setattr(extensions.EXTENSIONS, "_by_path", {"broken": Broken()})
    response = as_caller(alice, lambda client: client.call_tool("catalog_entity", {"urn": ORDERS}))
    assert (response.is_error, len(response.content)) == (False, 1)


@pytest.mark.parametrize(
    ("url", "headers", "message"),
    [
        ("", [("X-MCP-Readonly", "enabled")], "X-MCP-Readonly: 'enabled' is not a boolean; allowed: true, false, 1, 0"),
        ("", [("X-MCP-Readonly", "")], "X-MCP-Readonly: '' is not a boolean; allowed: true"),
        ("", [("X-MCP-Readonly", "false"), ("X-MCP-Readonly", "y")], "X-MCP-Readonly: 'y' is not a boolean"),
        ("", [("X-MCP-Read-Only", "true")], "x-mcp-read-only: is an unknown header; allowed: X-MCP-Toolsets"),
        ("", [("X_MCP_READONLY", "true")], "x_mcp_readonly: is an unknown header"),
        ("", [("X-MCP-Toolsets", "memry")], "X-MCP-Toolsets: 'memry' is unknown; allowed: analysis, "),
        ("", [("X-MCP-Toolsets", "memory"), ("X-MCP-Toolsets", "x")], "X-MCP-Toolsets: 'x' is unknown"),
        ("", [("X-MCP-Toolsets", ",")], "X-MCP-Toolsets: is empty; allowed: analysis, "),
        ("/x/memory,graph", [("X-MCP-Toolsets", "memory")], "X-MCP-Toolsets: differs from the toolsets in the path"),
        ("?readonly=true", [], "readonly: is not a query parameter of this URL; allowed: output_schemas"),
        ("?output_schemas=perhaps", [], "output_schemas: 'perhaps' is not a boolean; allowed: true, false, 1, 0"),
    ],
)
def test_a_selection_of_tools_that_is_not_understood_is_refused(
    http: str, alice_user: User, url: str, headers: list[tuple[str, str]], message: str
) -> None:
    token = create_token(system_caller(), user=alice_user, name="test")[1]
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = [("Authorization", f"Bearer {token}"), ("Accept", "application/json, text/event-stream")]
    response = httpx2.post(f"{http}/mcp{url}", json=body, headers=[*accept, *headers], timeout=60)
    assert (response.status_code, response.json()["code"]) == (400, "invalid")
    assert message in response.json()["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--toolsets", "memry", "--as", "alice@example.org"], "unknown toolset 'memry'; allowed: "),
        (["--toolsets", ","], "--toolsets names none"),
        (["--toolsets", "memory", "--profile", "anthropic"], "leave out --toolsets"),
        (["--transport", "http", "--as", "alice@example.org"], "--as is for stdio"),
        (["--transport", "http", "--persona", "sales"], "--persona is for stdio"),
        (["--transport", "http", "--graph", "sales"], "--graph is for stdio"),
        (["--transport", "http", "--read-only"], "--read-only is for stdio"),
        (["--transport", "http", "--output-schemas"], "--output-schemas is for stdio"),
    ],
)
def test_an_option_without_effect_is_refused(alice_user: User, arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("mcp", *arguments)


@pytest.mark.parametrize(("value", "is_error"), [("off", False), (False, False), ("never", True), (2, True)])
def test_context_is_turned_off_by_any_usual_spelling(alice: Caller, value: Any, is_error: bool) -> None:
    async def action(client: Any) -> Any:
        return await client.call_tool("memory_recall", {"query": "x"}, meta={CONTEXT_KEY: value})

    response = as_caller(alice, action)
    assert response.is_error is is_error
    if is_error:
        assert f"_meta.{CONTEXT_KEY}: " in response.content[0].text

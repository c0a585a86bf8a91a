"""MCP Apps: which clients are told about views, who may read them, and what their documents contain."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest
from mcp.client import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.shared.exceptions import MCPError

from foundation.people.caller import Caller, system_caller
from memory_project.accounts.tokens import create_token
from memory_project.mcp import mcp_apps
from memory_project.models import User
from tests.mcp_client import as_caller

pytestmark = pytest.mark.django_db(transaction=True)

SETTINGS = {"mimeTypes": [APP_MIME_TYPE]}
DECLARED = [advertise(EXTENSION_ID, SETTINGS)]
REVIEW, RECALL = "ui://commonplace/review", "ui://commonplace/recall"


def views_by_tool(tools: list[Any]) -> dict[str, str]:
    return {tool.name: tool.meta["ui"]["resourceUri"] for tool in tools if tool.meta}


def refusal(caller: Caller, uri: str) -> str:
    """Return the message of the error that reading the resource raises."""

    async def action(client: Any) -> str:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
        return str(refused.value)

    return str(as_caller(caller, action))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_name_their_views_to_clients_that_declare_the_extension(cora: Caller, mode: str) -> None:
    async def action(client: Any) -> Any:
        tools, resources = await client.list_tools(), await client.list_resources()
        assert all(link.meta == mcp_apps.META for link in resources.resources if str(link.uri).startswith("ui:"))
        return tools.tools, [str(link.uri) for link in resources.resources]

    tools, uris = as_caller(cora, action, mode, extensions=DECLARED)
    assert views_by_tool(tools) == {"apply_knowledge": REVIEW, "memory_recall": RECALL}
    assert [uri for uri in uris if uri.startswith("ui:")] == [REVIEW, RECALL]
    plain_tools, plain_uris = as_caller(cora, action, mode)
    assert views_by_tool(plain_tools) == {}
    assert [uri for uri in plain_uris if uri.startswith("ui:")] == []
    assert [tool.model_copy(update={"meta": None}) for tool in tools] == plain_tools


def test_client_that_shows_only_other_types_is_not_told(cora: Caller) -> None:
    other = [advertise(EXTENSION_ID, {"mimeTypes": ["text/uri-list"]})]
    assert views_by_tool(as_caller(cora, lambda client: client.list_tools(), extensions=other).tools) == {}


def test_only_callers_who_may_use_the_tool_see_its_view(alice: Caller) -> None:
    async def action(client: Any) -> Any:
        return [str(link.uri) for link in (await client.list_resources()).resources]

    denied = Caller(**{**vars(alice), "tools_deny": ("memory_recall",)})
    assert RECALL in as_caller(alice, action, extensions=DECLARED)
    assert RECALL not in as_caller(denied, action, extensions=DECLARED)
    assert "requires the tool memory_recall" in refusal(denied, RECALL)
    assert "there is no resource" in refusal(alice, "ui://commonplace/other")


def test_person_who_is_no_curator_neither_sees_nor_reads_the_review(alice: Caller) -> None:
    async def action(client: Any) -> Any:
        return [str(link.uri) for link in (await client.list_resources()).resources]

    assert REVIEW not in as_caller(alice, action, extensions=DECLARED)
    assert "requires the tool apply_knowledge" in refusal(alice, REVIEW)


@pytest.mark.parametrize("view", mcp_apps.VIEWS, ids=lambda view: view.name)
def test_document_loads_nothing_and_allows_only_its_own_script(cora: Caller, view: mcp_apps.AppView) -> None:
    (content,) = as_caller(cora, lambda client: client.read_resource(view.uri)).contents
    assert content.mime_type == APP_MIME_TYPE
    assert content.meta == mcp_apps.META
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', content.text)
    assert policy
    assert "unsafe" not in policy[1]
    assert policy[1].startswith("default-src 'none'")
    assert len(re.findall("<script>", content.text)) == len(re.findall("<style>", content.text)) == 1
    assert not re.search(r"""<(link|img|iframe)|\ssrc=|\son\w+="|innerHTML|url\(|@import""", content.text)
    assert len(content.text) < 68_000  # most of it is the style sheet of the pages


# -- HTTP of the revisions before 2026-07-28: the client declares the extension once ----------------------


def post(address: str, token: str, body: dict[str, Any], session: str = "") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    if session:
        headers["Mcp-Session-Id"] = session
    return httpx2.post(f"{address}/mcp", json={"jsonrpc": "2.0", "id": 1, **body}, headers=headers, timeout=60)


def initialize(address: str, token: str, capabilities: dict[str, Any]) -> httpx2.Response:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
    return post(address, token, {"method": "initialize", "params": params})


def test_session_id_carries_the_declaration_of_earlier_clients(http: str, alice_user: User) -> None:
    _, token = create_token(system_caller(), user=alice_user, name="apps")
    session = initialize(http, token, {"extensions": {EXTENSION_ID: SETTINGS}}).headers["Mcp-Session-Id"]
    assert RECALL in post(http, token, {"method": "tools/list"}, session).text
    assert "ui://" not in post(http, token, {"method": "tools/list"}).text
    others: list[dict[str, Any]] = [{}, {"extensions": {EXTENSION_ID: {}}}, {"extensions": {"other": SETTINGS}}]
    for capabilities in others:
        assert "Mcp-Session-Id" not in initialize(http, token, capabilities).headers


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"method": "initialize", "io.modelcontextprotocol/ui": ',
        b'["initialize", "io.modelcontextprotocol/ui"]',
    ],
)
def test_malformed_declarations_are_left_to_the_sdk(http: str, alice_user: User, body: bytes) -> None:
    _, token = create_token(system_caller(), user=alice_user, name="apps")
    accepted = "application/json, text/event-stream"
    headers = {"Authorization": f"Bearer {token}", "Accept": accepted, "Content-Type": "application/json"}
    answer = httpx2.post(f"{http}/mcp", content=body, headers=headers, timeout=60)
    assert 400 <= answer.status_code < 500
    assert "Mcp-Session-Id" not in answer.headers

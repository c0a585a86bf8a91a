"""What MCP asks of a server beyond its tools: methods, origins, errors for unknown names, pages of lists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx2
import pytest
from django.core.exceptions import ImproperlyConfigured
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memory_project.accounts.tokens import create_token
from memory_project.mcp import list_pages, resources
from memory_project.mcp.hosts import is_allowed_host, is_allowed_origin
from memory_project.models import AuditEvent, User
from memory_project.operating import env
from tests.mcp_client import as_caller

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "https://inspector.example.org"


@pytest.fixture
def bearer(alice_user: User) -> dict[str, str]:
    _, text = create_token(Caller(email="", persona="", personas=frozenset(), is_admin=True), user=alice_user, name="t")
    return {"Authorization": f"Bearer {text}"}


# -- methods and origins -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/x/memory/readonly"])
def test_other_methods_are_refused_with_and_without_a_token(
    http: str, bearer: dict[str, str], method: str, path: str
) -> None:
    for headers in ({}, bearer):
        stream = {"Accept": "text/event-stream", **headers}
        response = httpx2.request(method, f"{http}{path}", headers=stream, timeout=60)
        assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.fixture
def origins(settings: Any) -> None:
    settings.MCP_ORIGINS = [PAGE]


def preflight(origin: str, path: str = "/mcp") -> dict[str, Any]:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, mcp-param-x"}
    return {"url": path, "headers": {"Origin": origin, **asked}}


def test_named_origins_may_call_from_a_browser(origins: None, http: str, bearer: dict[str, str]) -> None:
    with httpx2.Client(base_url=http, timeout=60) as client:
        allowed = client.options(**preflight(PAGE))
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, PAGE)
        assert "mcp-param-x" in allowed.headers["access-control-allow-headers"]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream", "Origin": PAGE}
        for headers, status in (({}, 401), ({"Authorization": "Bearer cpl_wrong"}, 401), (bearer, 200)):
            response = client.post("/mcp", json=body, headers={**accept, **headers})
            assert (response.status_code, response.headers["access-control-allow-origin"]) == (status, PAGE)
            exposed = response.headers["access-control-expose-headers"]
            assert {"Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate"} <= set(exposed.split(", "))
            assert "access-control-allow-credentials" not in response.headers


def test_other_origins_and_other_paths_stay_closed(origins: None, http: str, bearer: dict[str, str]) -> None:
    with httpx2.Client(base_url=http, timeout=60) as client:
        assert "access-control-allow-origin" not in client.options(**preflight("https://evil.example.org")).headers
        assert "access-control-allow-origin" not in client.options(**preflight(PAGE, "/sign-in/")).headers
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        refused = client.post("/mcp", json=body, headers={**bearer, "Origin": "https://evil.example.org"})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("hosts", "host", "is_allowed"),
    [
        (["*"], "anything.example:8000", True),
        ([".example.org"], "memory.example.org", True),
        ([".example.org"], "example.org.evil.net", False),
        (["localhost", "[::1]"], "[::1]:8000", True),
        (["localhost"], "localhost:1@evil.example", False),
        (["localhost"], "", False),
    ],
)
def test_hosts_are_matched_as_for_pages(settings: Any, hosts: list[str], host: str, is_allowed: bool) -> None:
    settings.ALLOWED_HOSTS = hosts
    assert is_allowed_host(host) == is_allowed


@pytest.mark.parametrize(
    ("hosts", "origin", "is_allowed"),
    [
        (["localhost"], "http://localhost:5173", True),
        (["*"], "http://localhost:8000", True),
        (["*"], "https://evil.example", False),
        ([".example.org"], "https://chat.example.org", True),
        (["localhost"], "null", False),
        (["localhost"], "file://localhost", False),
    ],
)
def test_only_own_and_named_origins_are_allowed(settings: Any, hosts: list[str], origin: str, is_allowed: bool) -> None:
    settings.ALLOWED_HOSTS = hosts
    assert is_allowed_origin(origin, "localhost:8000") == is_allowed


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("https://App.example.org:443/, http://localhost:6274", ["https://app.example.org", "http://localhost:6274"]),
        ("http://[::1]:8000", ["http://[::1]:8000"]),
        ("", []),
    ],
)
def test_origins_are_read_as_browsers_send_them(monkeypatch: pytest.MonkeyPatch, text: str, origins: list[str]) -> None:
    monkeypatch.setenv("MCP_ORIGINS", text)
    assert env.origins("MCP_ORIGINS") == origins


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "app.example.org",
        "https://a.example/path",
        "https://u@a.example",
        "https://a:99999",
        "https://*.a.b",
    ],
)
def test_what_is_no_origin_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MCP_ORIGINS", text)
    with pytest.raises(ImproperlyConfigured, match=r"MCP_ORIGINS: .* is not an origin; allowed: values like"):
        env.origins("MCP_ORIGINS")


# -- unknown names -------------------------------------------------------------------------------------------


def refusal(caller: Caller, action: Callable[[Any], Awaitable[Any]]) -> str:
    async def refused(client: Any) -> MCPError:
        with pytest.raises(MCPError) as caught:
            await action(client)
        return caught.value

    error = as_caller(caller, refused)
    assert error.error.code == INVALID_PARAMS
    return str(error)


def test_an_unknown_tool_names_similar_ones_that_the_caller_may_use(alice: Caller) -> None:
    message = refusal(alice, lambda client: client.call_tool("memory_recal", {"query": "x"}))
    assert "unknown tool 'memory_recal'; allowed: memory_recall" in message
    assert "catalog" not in message
    assert AuditEvent.objects.get(tool="memory_recal").code == "not_found"
    hidden = refusal(alice, lambda client: client.call_tool("aply_knowledge", {}))
    assert "apply_knowledge" not in hidden.replace("aply_knowledge", "")  # she is no curator
    assert len(refusal(alice, lambda client: client.call_tool("x" * 10_000, {}))) < 300


def test_an_unknown_prompt_is_an_invalid_parameter(alice: Caller) -> None:
    assert "nothing" in refusal(alice, lambda client: client.get_prompt("nothing"))


# -- pages of lists ------------------------------------------------------------------------------------------


def test_the_list_of_resources_has_pages_that_new_memories_do_not_shift(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "MEMORIES_PER_PAGE", 2)

    async def action(client: Any) -> list[str]:
        texts = [f"Fact number {number} about orders." for number in range(5)]
        for text in texts:
            await client.call_tool("memory_manage", {"command": "remember", "content": text})
        uris, cursor = [], None
        while True:
            listing = await client.list_resources(cursor=cursor)
            uris += [str(resource.uri) for resource in listing.resources]
            cursor = listing.next_cursor
            if cursor is None:
                return uris
            await client.call_tool("memory_manage", {"command": "remember", "content": f"A later fact {len(uris)}."})

    uris = as_caller(alice, action)
    first = MemoryRecord.objects.filter(content__startswith="Fact number")
    assert len(uris) == len(set(uris))
    assert {f"commonplace://memory/{record.pk.hex}" for record in first} <= set(uris)


def test_all_lists_page_in_the_same_way(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def everything(client: Any, method: str, field: str) -> list[str]:
        names, cursor = [], None
        while True:
            listing = await getattr(client, method)(cursor=cursor)
            names += [entry.name for entry in getattr(listing, field)]
            if not (cursor := listing.next_cursor):
                return names

    lists = [("list_tools", "tools"), ("list_prompts", "prompts"), ("list_resource_templates", "resource_templates")]
    for method, field in lists:
        whole = as_caller(alice, partial(everything, method=method, field=field))
        with monkeypatch.context() as patch:
            patch.setattr(list_pages.page, "__defaults__", (1,))
            assert as_caller(alice, partial(everything, method=method, field=field)) == whole
        for cursor in ("nonsense", list_pages.to_cursor("no such entry"), "é"):
            refusal(alice, partial(one_page, method=method, cursor=cursor))
    refusal(alice, partial(one_page, method="list_resources", cursor="nonsense"))
    refusal(alice, partial(one_page, method="list_resources", cursor=list_pages.to_cursor("2026~x")))


async def one_page(client: Any, method: str, cursor: str) -> Any:
    return await getattr(client, method)(cursor=cursor)

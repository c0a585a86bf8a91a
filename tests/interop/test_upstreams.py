"""MCP servers of others as upstreams of the gateway, over stdio."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ElicitResult

from foundation.people.caller import Caller
from memory_project.mcp.gateway import registry as upstreams
from tests.fake_datahub import Faults, Handler
from tests.fake_datahub_store import Store
from tests.http_servers import serving
from tests.interop import registry
from tests.interop.registry import ForeignClient
from tests.knowledge.conftest import ORDERS, small_catalog_aspects
from tests.memory_project.gateway.conftest import as_caller, listed

pytestmark = pytest.mark.django_db(transaction=True)
PACKAGES = registry.NODE / "node_modules" / "@modelcontextprotocol"


@pytest.fixture
def declare(tmp_path: Path, settings: Any) -> Iterator[Any]:
    def declared(command: str, *arguments: str, environment: str = "{}") -> None:
        file = tmp_path / "upstreams.toml"
        names = json.dumps(list(arguments))
        file.write_text(
            f'[upstreams.other]\ncommand = "{command}"\nargs = {names}\npersonas = ["*"]\nenv = {environment}\n'
            "timeout_s = 90\n"
        )
        settings.MCP_UPSTREAMS = str(file)
        settings.MCP_TOOLS_LISTED = 200

    upstreams.forget()
    yield declared
    upstreams.forget()


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content if block.type == "text"]


@pytest.mark.parametrize("installed", ["upstream-everything"], indirect=True)
def test_what_the_reference_server_offers_passes_through(installed: ForeignClient, declare: Any, alice: Caller) -> None:
    declare("node", str(PACKAGES / "server-everything" / "dist" / "index.js"))
    questions: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"name": "Maya"})

    async def action(client: Any) -> Any:
        tools = await listed(client, "other_get-sum")
        calls = {
            "get-sum": {"a": 1, "b": 2},
            "get-tiny-image": {},
            "get-structured-content": {"location": "Chicago"},
            "get-resource-links": {"count": 2},
            "trigger-long-running-operation": {"duration": 1, "steps": 2},
            "trigger-elicitation-request": {},
        }
        results = {name: await client.call_tool(f"other_{name}", arguments) for name, arguments in calls.items()}
        resources = [entry.uri for entry in (await client.list_resources(cache_mode="refresh")).resources]
        theirs = [uri for uri in resources if uri.startswith("upstream://other/")]
        return tools, results, (await client.read_resource(theirs[0])).contents[0].text

    tools, results, text = as_caller(alice, action, elicitation_callback=answer)
    assert "other_get-sum" in tools
    assert texts(results["get-sum"])[0] == "The sum of 1 and 2 is 3."
    assert "image" in [block.type for block in results["get-tiny-image"].content]
    assert "temperature" in results["get-structured-content"].structured_content
    links = [block.uri for block in results["get-resource-links"].content if block.type == "resource_link"]
    assert all(str(link).startswith("upstream://other/") for link in links)
    assert not any(result.is_error for result in results.values())
    assert questions[0].startswith("other asks: ")
    assert text


@pytest.mark.parametrize("installed", ["upstream-filesystem"], indirect=True)
def test_the_file_server_stays_in_its_folder(
    installed: ForeignClient, declare: Any, alice: Caller, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("orders exclude refunds")
    declare("node", str(PACKAGES / "server-filesystem" / "dist" / "index.js"), str(tmp_path))

    async def action(client: Any) -> Any:
        await listed(client, "other_read_text_file")
        inside = await client.call_tool("other_read_text_file", {"path": str(tmp_path / "a.txt")})
        return inside, await client.call_tool("other_read_text_file", {"path": "/etc/passwd"})

    inside, outside = as_caller(alice, action)
    assert texts(inside)[0] == "orders exclude refunds"
    assert outside.is_error


@pytest.mark.parametrize("installed", ["upstream-sqlite"], indirect=True)
def test_a_database_server_answers(installed: ForeignClient, declare: Any, alice: Caller, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (id int)")
        database.execute("INSERT INTO orders VALUES (7)")
    declare(str(installed.folder / "bin" / "mcp-server-sqlite"), "--db-path", str(tmp_path / "shop.db"))

    async def action(client: Any) -> Any:
        await listed(client, "other_read_query")
        return await client.call_tool("other_read_query", {"query": "SELECT * FROM orders"})

    assert texts(as_caller(alice, action))[0] == "[{'id': 7}]"


class AnsweringHandler(Handler):
    """The fake DataHub, which also answers the query for one entity."""

    def _post(self, path: str, query: dict[str, list[str]], body: Any) -> Any:
        variables = body.get("variables") if isinstance(body, dict) else None
        if path != "/api/graphql" or (variables and "input" in variables):
            return super()._post(path, query, body)
        urn = (variables or {}).get("urn", "")
        return {"data": {"entity": {"urn": urn, "type": "DATASET", "name": "sales.orders"}}}


@pytest.mark.parametrize("installed", ["upstream-datahub"], indirect=True)
def test_datahubs_server_answers_about_an_entity(installed: ForeignClient, declare: Any, alice: Caller) -> None:
    Handler.faults, Handler.store = Faults(), Store()
    for urn, aspect, value in small_catalog_aspects():
        Handler.store.put(urn, aspect, value)

    async def action(client: Any) -> Any:
        await listed(client, "other_get_entities")
        return await client.call_tool("other_get_entities", {"urns": [ORDERS]})

    with serving(AnsweringHandler) as gms:
        address = f'{{ DATAHUB_GMS_URL = "{gms}", DATAHUB_TELEMETRY_ENABLED = "false" }}'
        declare(str(installed.folder / "bin" / "mcp-server-datahub"), environment=address)
        result = as_caller(alice, action)
    assert not result.is_error
    assert ORDERS in texts(result)[0]

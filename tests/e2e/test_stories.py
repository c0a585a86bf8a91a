"""End-to-end stories: agents call a running installation with a warehouse and a catalog over MCP."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, up

ORDERS = "urn:li:dataset:(urn:li:dataPlatform:snowflake,fernhill.sales.orders,PROD)"
SQL = "SELECT o.channel, sum(o.net_amount) AS net FROM fernhill.sales.orders o GROUP BY 1"
LARGE = 200_000
SOURCE = """
kind = "file"
read_personas = ["sales-analytics", "supply-chain"]
[models.till_line]
path = "till_lines.jsonl"
per_page_max = 10000
urn = "{urn}"
"""
DECLARE = (
    "from analysis.models import DeclaredSource\nDeclaredSource.objects.create(name='tills', declaration='''{text}''')"
)
AGENTS = ("maya", "priya", "jonas", "sam")
TOKENS = f"""
from django.core.management import call_command
for name in {AGENTS}:
    call_command("createtoken", f"{{name}}@fernhill.example")
"""
SWEEP = "from knowledge.freshness import stale_detection\nprint(stale_detection.check_all_entities(10_000))"


@dataclass
class Installation:
    home: Path
    port: int
    tokens: dict[str, str] = field(default_factory=dict)

    def manage(self, *arguments: str) -> str:
        process = subprocess.run(
            command(*arguments), env=environment(self.home, self.port), cwd=ROOT, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stderr
        return process.stdout.strip()

    def agent(self, name: str) -> Agent:
        if not self.tokens:
            created = self.manage("shell", "--no-imports", "-c", TOKENS).splitlines()
            self.tokens = dict(zip(AGENTS, created, strict=True))
        return Agent(f"http://localhost:{self.port}/mcp", self.tokens[name])


@dataclass
class Agent:
    """An MCP client of one person. Each call uses a new connection, as stateless HTTP does."""

    url: str
    token: str

    def __call__(self, tool: str, **arguments: Any) -> Any:
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        return result.structured_content

    def memory_context(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the memory context that is attached to the response."""
        result = self.call(tool, **arguments)
        assert not result.is_error, result.content[0].text
        return dict(json.loads(result.content[1].text)) if len(result.content) > 1 else {}

    def call(self, tool: str, **arguments: Any) -> Any:
        return self._run(lambda client: client.call_tool(tool, arguments))

    def read(self, uri: str) -> Any:
        return json.loads(self._run(lambda client: client.read_resource(uri)).contents[0].text)

    def _run(self, request: Any) -> Any:
        async def main() -> Any:
            async with (
                httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.token}"}, timeout=180) as http,
                Client(streamable_http_client(self.url, http_client=http)) as client,
            ):
                return await request(client)

        with ThreadPoolExecutor(1) as pool:  # Playwright may run an event loop in this thread
            return pool.submit(asyncio.run, main()).result()


@pytest.fixture(scope="module")
def installed() -> Iterator[Installation]:
    """Start what `make run` starts, with demo users, catalog and warehouse."""
    with prepared_home("demo") as (home, port), up(home, port) as process:
        assert process.poll() is None, (home / "up.log").read_text()
        yield Installation(home, port)


def test_a_memory_of_one_agent_is_attached_to_the_calls_of_another(installed: Installation) -> None:
    maya, priya, jonas = (installed.agent(name) for name in ("maya", "priya", "jonas"))
    fact = "net_amount in orders is after refunds since the till of May."
    remembered = maya("memory_manage", command="remember", content=fact, entity_urns=[ORDERS])
    response = priya("query_sql", sql=SQL)
    assert (response["columns"], response["row_count"]) == (["channel", "net"], 3)
    context = installed.agent("sam").memory_context("query_sql", sql=SQL)
    entries = {entry["content"]: entry for entry in context["memory_context"]}
    assert entries[fact]["created_by"] == "maya@fernhill.example"
    assert entries[fact]["why"] == "about fernhill.sales.orders"
    again = installed.agent("sam").memory_context("catalog_entity", urn=ORDERS)
    assert remembered["id"] in again["shown_before"]
    assert fact not in json.dumps(jonas.memory_context("catalog_entity", urn=ORDERS))  # Jonas has another persona
    entity = priya.read(f"commonplace://entity/{ORDERS}")
    assert fact in [entry["content"] for entry in entity["memories"]]
    memory = priya.read(f"commonplace://memory/{remembered['id']}")
    assert memory["memory"]["content"] == fact


def test_a_changed_column_makes_a_memory_stale_and_a_curator_corrects_it(installed: Installation) -> None:
    maya, priya = installed.agent("maya"), installed.agent("priya")
    related = [{"urn": ORDERS, "column": "promo_code", "relevance": "what it is about"}]
    text = "promo_code in orders is empty for store orders."
    id = maya("memory_manage", command="remember", content=text, entity_urns=[ORDERS], related_columns=related)["id"]
    schema = next(
        row
        for row in json.loads((ROOT / "memory_project" / "operating" / "demo" / "catalog.json").read_text())
        if row["entityUrn"] == ORDERS and row["aspectName"] == "schemaMetadata"
    )
    fields = schema["aspect"]["json"]["fields"]
    schema["aspect"]["json"]["fields"] = [column for column in fields if column["fieldPath"] != "promo_code"]
    changed = installed.home / "changed.json"
    changed.write_text(json.dumps([schema]))
    installed.manage("load_catalog", str(changed))
    installed.manage("shell", "--no-imports", "-c", SWEEP)
    stale = priya("memory_manage", command="review_stale", limit=100)
    assert id in [memory["id"] for memory in stale["records"]]
    new = priya(
        "memory_manage", command="supersede", id=id, content="Promotions of orders are in promotion_redemptions now."
    )
    history = priya("memory_manage", command="history", id=new["id"])
    texts = [change["content"] for change in history["history"]]
    assert list(dict.fromkeys(texts)) == [
        text,
        "Promotions of orders are in promotion_redemptions now.",
    ]


def test_an_insight_is_applied_to_the_catalog_and_rolled_back(installed: Installation) -> None:
    maya, priya = installed.agent("maya"), installed.agent("priya")
    action = {"action_type": "update_description", "target": "column:channel", "detail": "Where it was bought."}
    captured = maya(
        "capture_insight", insight_text="channel in orders says where something was bought.", category="data_quality",
        entity_urns=[ORDERS], suggested_actions=[action],
    )  # fmt: skip
    ids = [captured["insight_id"]]
    priya("apply_knowledge", action="approve", insight_ids=ids)
    change = {"change_type": "update_description", "target": "column:channel", "detail": "Where it was bought."}
    applied = priya(
        "apply_knowledge", action="apply", insight_ids=ids, entity_urn=ORDERS, changes=[change], confirm=True
    )
    assert applied["state"] == "applied"

    def description() -> str:
        columns = maya("catalog_entity", urn=ORDERS)["entity"]["columns"]
        return str(next(column["description"] for column in columns if column["column"] == "channel"))

    assert description() == "Where it was bought."
    priya("apply_knowledge", action="rollback", changeset_id=applied["changeset_id"], confirm=True)
    assert description() == "store, web or click_and_collect"


def test_an_analysis_of_200_000_rows_becomes_a_finding_an_insight_and_a_tag(installed: Installation) -> None:
    maya, priya = installed.agent("maya"), installed.agent("priya")
    files = installed.home / "files"
    files.mkdir(exist_ok=True)
    with open(files / "till_lines.jsonl", "w") as file:
        for number in range(LARGE):
            file.write(
                f'{{"id": {number}, "store": {number % 310}, "kind": "{"test" if number % 50 == 0 else "sale"}"}}\n'
            )
    installed.manage("shell", "--no-imports", "-c", DECLARE.format(text=SOURCE.format(urn=ORDERS)))
    first = installed.agent("maya").memory_context(
        "analysis_ingest", analysis_id="tills", model="till_line", per_page=10_000
    )
    # memories about the entity that the source's model is mapped to
    assert first["memory_context"] or first["shown_before"]
    response = maya("analysis_ingest", analysis_id="tills", model="till_line", ingest_all=True, per_page=10_000)
    assert response["records"] == LARGE
    counted = maya("analysis_query", analysis_id="tills", model="till_line", mode="aggregate", group_by="kind")
    assert {group["values"][0]: group["count"] for group in counted["groups"]} == {
        "sale": LARGE - LARGE // 50,
        "test": LARGE // 50,
    }
    response = maya(
        "analysis_store", analysis_id="tills", findings=[{"finding": "Two in a hundred till lines are of tests."}]
    )
    insight = maya(
        "capture_insight", category="data_quality", finding_id=response["ids"][0], entity_urns=[ORDERS],
        suggested_actions=[{"action_type": "flag_quality_issue", "detail": "2 % are tests."}],
    )  # fmt: skip
    ids = [insight["insight_id"]]
    priya("apply_knowledge", action="approve", insight_ids=ids)
    change = {"change_type": "flag_quality_issue", "detail": "2 % are tests."}
    applied = priya(
        "apply_knowledge", action="apply", insight_ids=ids, entity_urn=ORDERS, changes=[change], confirm=True
    )
    assert applied["state"] == "applied"
    assert "urn:li:tag:QualityIssue" in maya("catalog_entity", urn=ORDERS)["entity"]["tags"]
    # after applying, everyone may read it, and it is ranked first
    context = installed.agent("jonas").memory_context("catalog_entity", urn=ORDERS)
    assert context["memory_context"][0]["content"] == "Two in a hundred till lines are of tests."


def test_a_conversation_is_recalled_and_attached_in_a_later_session(installed: Installation) -> None:
    """A stored conversation is recalled in another session of the same user, and attached to catalog calls."""
    words = "Remember that fernhill.sales.orders counts a gift card twice until the tills are updated."
    messages = [{"role": "human", "content": words, "author": "Sam"}, {"role": "ai", "content": "I will."}]
    user = "sam@fernhill.example"

    async def talk() -> Any:
        server = StdioServerParameters(
            command=command()[0],
            args=[*command("mcp")[1:], "--as", user, "--toolsets", "conversation"],
            env=environment(installed.home, installed.port),
            cwd=str(ROOT),
        )
        async with Client(stdio_client(server)) as client:
            store = {"user_id": user, "conversation_id": "monday", "messages": messages}
            response = await client.call_tool("store_memory", store)
            recall = {"user_id": user, "query": "gift card counted twice"}
            return response.structured_content, (await client.call_tool("recall_memory", recall)).structured_content

    with ThreadPoolExecutor(1) as pool:
        store_response, recall_response = pool.submit(asyncio.run, talk()).result()
    assert store_response["count"] == 2
    assert words in [result["content"] for result in recall_response["results"][:2]]
    installed.manage("shell", "-c", "from memories.conversation import tasks; print(tasks.enrich())")
    agent = installed.agent("sam")
    assert words in [memory["content"] for memory in agent("memory_recall", query="gift card twice")["memories"]]
    assert words in json.dumps(agent.memory_context("catalog_entity", urn=ORDERS))
    assert words not in json.dumps(installed.agent("priya").memory_context("catalog_entity", urn=ORDERS))
    assert words not in json.dumps(installed.agent("priya")("memory_recall", query="gift card twice"))

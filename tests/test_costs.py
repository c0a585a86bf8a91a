"""No frequent operation gets more expensive unnoticed: a rise by more than a tenth fails, and stands in the diff."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

import duckdb
import pytest
from django.core.cache import caches
from django.db import connection
from django.test import Client
from django.urls import reverse

from analysis.models import DeclaredSource
from analysis.sql import execute
from foundation import embedding
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from knowledge.context import attached_memories
from memories.retrieval import term_statistics
from memories.writing.bulk_import import remember_many
from memory_project.mcp.server import build_server
from memory_project.mcp.workers import Running
from memory_project.models import User
from memory_project.operating.demo import warehouse
from tests import costs
from tests.knowledge.conftest import MART, ORDERS, cora_user, curators, fill_catalog

__all__ = ["cora_user", "curators"]
pytestmark = pytest.mark.django_db(transaction=True)
TOLERANCE = 1.1
SUBJECTS = ("refunds", "returns", "discounts", "vouchers", "training tills", "web orders", "late stores", "tax")
# Each is remembered once. They are unlike each other, because the answer lists similar memories.
FACTS = (
    "Stores in Denmark report a day late.",
    "Loyalty points expire in March.",
    "Invoices exclude tax before 2019.",
    "The courier's file arrives at noon.",
    "Margins are weighted by volume.",
    "Gift cards count as liabilities.",
    "Survey scores range from 0 to 10.",
    "Warehouse 7 was closed in May.",
)
SESSION = {"session": "s1", "program": "claude-code"}


@pytest.fixture
def installation(alice: Caller, tmp_path: Path, settings: Any) -> Iterator[None]:
    """Fill a catalog, a warehouse and forty memories, and keep the connection, as a server does."""
    fill_catalog()
    settings.ANALYSIS_FILES = tmp_path
    with duckdb.connect(str(tmp_path / warehouse.FILE)) as shop:
        shop.execute("CREATE SCHEMA sales")
        shop.execute("CREATE TABLE sales.orders AS SELECT range AS amount, 'paid' AS status FROM range(12)")
    DeclaredSource.objects.create(name="warehouse", declaration=warehouse.SOURCE.replace("sales-analytics", "sales"))
    texts = [
        f"Net revenue leaves out {subject} since {year}, says ticket {year}{number}."
        for number, (subject, year) in enumerate(itertools.product(SUBJECTS, range(2020, 2025)))
    ]
    entities = itertools.cycle([[ORDERS], [MART], []])
    remember_many(alice, facts=[{"content": text, "entity_urns": next(entities)} for text in texts])
    term_statistics.refresh()
    embedding.current(60)
    age, connection.settings_dict["CONN_MAX_AGE"] = connection.settings_dict["CONN_MAX_AGE"], None
    yield
    connection.settings_dict["CONN_MAX_AGE"] = age


def agent(person: User, *, is_new: bool = False) -> Callable[..., dict[str, Any]]:
    """Return a function that calls a tool as a worker of a server over stdio does.

    With `is_new`, each call is the first on its connection, so that memories are attached.
    """
    numbers = itertools.count()

    def identify(request: object) -> Caller:
        return build_caller(person, channel="mcp-stdio", connection=f"stdio {next(numbers) if is_new else 0}")

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        running = Running()
        result = running.call(server._for_caller, None, server._call, tool, arguments, None, running, "")
        assert not result.is_error, result.content[0].text
        return {"texts": [block.text for block in result.content], "data": result.structured_content}

    server = build_server(toolsets=["all"], identify=identify)
    return call


def characters(result: dict[str, Any]) -> str:
    return "".join(result["texts"])


def operations(alice: User, bob: User, cora: User) -> dict[str, Callable[[], str]]:
    """Return the most frequent operations. Each is carried out several times."""
    author, colleague, curator = agent(alice), agent(bob), agent(cora)
    newcomer = agent(bob, is_new=True)
    client = Client()
    client.force_login(cora)
    numbers = itertools.count()
    facts = iter(FACTS)

    def tool(call: Callable[..., dict[str, Any]], name: str, **arguments: Any) -> Callable[[], str]:
        return lambda: characters(call(name, **arguments))

    def remember() -> str:
        return characters(author("memory_manage", command="remember", content=next(facts)))

    def captured(text: str = "Orders of the pilot store are test data") -> str:
        text = f"{text}, remark {next(numbers)}."
        insight = author(
            "capture_insight",
            insight_text=text,
            category="data_quality",
            entity_urns=[ORDERS],
            suggested_actions=[{"action_type": "add_tag", "detail": f"Pilot{next(numbers)}"}],
        )
        return str(insight["data"]["insight_id"])

    waiting: list[str] = []
    approved: list[str] = []

    def capture() -> str:
        waiting.append(captured())
        return waiting[-1]

    def approve() -> str:
        approved.append(waiting.pop())
        return characters(curator("apply_knowledge", action="approve", insight_ids=[approved[-1]]))

    def apply() -> str:
        pk = approved.pop()
        changes = [{"change_type": "add_tag", "detail": f"Pilot{next(numbers)}"}]
        return characters(
            curator(
                "apply_knowledge", action="apply", insight_ids=[pk], entity_urn=ORDERS, changes=changes, confirm=True
            )
        )

    def get(address: str) -> Callable[[], str]:
        return lambda: _text(client.get(address, follow=True))

    def post(address: str, body: dict[str, Any]) -> Callable[[], str]:
        return lambda: _text(client.post(address, json.dumps(body), content_type="application/json"))

    def in_new_session(address: str, body: dict[str, Any]) -> Callable[[], str]:
        return lambda: post(address, {**SESSION, "session": f"s{next(numbers)}", **body})()

    query = "do refunds count as net revenue?"
    return {
        "remember": remember,
        "recall, auto": tool(colleague, "memory_recall", query=query),
        "recall, semantic": tool(colleague, "memory_recall", query=query, strategy="semantic"),
        "recall, lexical": tool(colleague, "memory_recall", query=query, strategy="lexical"),
        "recall, entity": tool(colleague, "memory_recall", entity_urns=[ORDERS], strategy="entity"),
        "recall, graph": tool(colleague, "memory_recall", entity_urns=[ORDERS], strategy="graph"),
        "query_sql with memories": tool(
            newcomer, "query_sql", sql="SELECT sum(amount) FROM sales.orders WHERE status = 'paid'"
        ),
        "catalog_search": tool(newcomer, "catalog_search", query="orders"),
        "capture_insight": capture,
        "approve": approve,
        "apply": apply,
        "My Knowledge": get(reverse("my-knowledge")),
        "review page": get(reverse("review")),
        "REST list": get("/api/v1/memories/"),
        "REST recall": post("/api/v1/memories/recall/", {"query": query}),
        "start of a session": in_new_session("/api/v1/hooks/session-start/", {"entities": ["sales.orders"]}),
        "hook of a prompt": in_new_session("/api/v1/hooks/prompt/", {"prompt": query}),
        "hook of a statement": in_new_session("/api/v1/hooks/tool/", {"statement": "SELECT 1 FROM sales.orders"}),
    }


def _text(response: Any) -> str:
    assert response.status_code == 200, (response.status_code, response.content[:500])
    return str(response.content.decode())


def test_no_operation_costs_more_than_recorded(
    alice_user: User, bob_user: User, cora_user: User, installation: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # what a slow machine would do once more, or more often
    monkeypatch.setattr(attached_memories, "LOOKUP_LASTS_S", inf)
    monkeypatch.setattr(execute, "POLL_S", 60.0)
    caches["calls"].clear()  # what earlier tests called is offered as the subject of a new memory
    found: dict[str, costs.Cost] = {}
    every = operations(alice_user, bob_user, cora_user)
    for _ in range(6):  # measuring approves and applies several insights, and each has to be captured before
        every["capture_insight"]()
    for name, operation in every.items():
        for _ in range(2):  # the first ones import, compile and prepare
            operation()
        found[name] = costs.measure(operation)
    if os.environ.get("RECORD"):
        costs.TABLE.write_text(costs.table(found), encoding="utf-8")
    recorded = costs.recorded()
    assert list(found) == list(recorded), "make costs writes the table anew"
    risen = [
        f"{name}: {measure} {getattr(recorded[name], measure)} → {getattr(cost, measure)}"
        for name, cost in found.items()
        for measure in ("statements", "calls", "characters")
        if getattr(cost, measure) > TOLERANCE * getattr(recorded[name], measure)
        # Other versions of Python enter other frames.
        and (measure != "calls" or costs.recorded_version() == costs.VERSION)
    ]
    assert risen == [], "make costs writes the table anew; say in the commit why these rise"

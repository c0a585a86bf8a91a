"""The examples of docs/extending.md, installed and called as an agent would."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from foundation.cases.kinds import CASE_KINDS
from foundation.people.caller import Caller
from knowledge.catalog.embedded import LocalCatalog
from memories import services
from memories.operations import Remember
from memory_project.models import User
from tests.example_app.change_types import CERTIFIED
from tests.knowledge.conftest import ORDERS
from tests.mcp_client import content_of, environment
from tests.pages import browser, give, inbox, take_back
from tests.rest_client import client

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).resolve().parent.parent.parent


def call(person: User, *calls: tuple[str, dict[str, Any]], **settings: str) -> list[dict[str, Any]]:
    """Call tools over stdio on a server that has the example app, and return their responses."""
    arguments = [str(ROOT / "manage.py"), "mcp", "--as", person.email, "--toolsets", "example,knowledge,analysis"]
    variables = {**environment(), "DJANGO_SETTINGS_MODULE": "tests.example_app.settings", **settings}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=variables, cwd=str(ROOT))

    async def main() -> list[dict[str, Any]]:
        async with Client(stdio_client(server)) as client:
            results = [await client.call_tool(name, values) for name, values in calls]
            return [result.structured_content or content_of(result) for result in results]

    return asyncio.run(main())


def tags() -> list[str]:
    aspect = LocalCatalog().read([ORDERS], ["globalTags"])[ORDERS].get("globalTags")
    return [entry["tag"] for entry in (aspect.value or {}).get("tags", [])] if aspect else []


def test_a_tool_counts_what_its_caller_may_read(
    alice: Caller, bob_user: User, olga_user: User, small_catalog: None
) -> None:
    for text, visibility in (("Orders are counted once.", "persona"), ("Orders have a secret.", "private")):
        operation = Remember(content=text, entity_urns=[ORDERS], category="data_quality", visibility=visibility)
        services.remember(alice, operation)
    (counted,) = call(bob_user, ("count_memories", {"entity_urn": ORDERS}))
    assert counted == {"total": 1, "by_category": {"data_quality": 1}}
    counted, refused = call(
        olga_user, ("count_memories", {"entity_urn": ORDERS}), ("count_memories", {"entity_urn": "nothing"})
    )
    assert counted["total"] == 0
    assert refused["error"].startswith("entity_urn: 'nothing' is not in the catalog")


def test_a_change_type_is_applied_and_rolled_back(alice_user: User, ada_user: User, small_catalog: None) -> None:
    insight = {"insight_text": "Orders were reconciled.", "category": "data_quality", "entity_urns": [ORDERS]}
    (captured,) = call(alice_user, ("capture_insight", insight))
    chosen = {"insight_ids": [captured["insight_id"]]}
    change = {"change_type": "certify", "detail": "reconciled with the ledger"}
    application = {"action": "apply", **chosen, "entity_urn": ORDERS, "changes": [change], "confirm": True}
    _, applied = call(
        ada_user,
        ("apply_knowledge", {"action": "approve", **chosen}),
        ("apply_knowledge", application),
    )
    assert (applied["state"], tags()) == ("applied", [CERTIFIED])
    rollback = {"action": "rollback", "changeset_id": applied["changeset_id"], "confirm": True}
    (rolled_back,) = call(ada_user, ("apply_knowledge", rollback))
    assert (rolled_back["state"], tags()) == ("rolled_back", [])


LIBRARY = """
kind = "sqlite"
read_personas = ["{persona}"]

[models.book]
path = "library.sqlite:book"

[models.book.filters.author]
type = "text"
"""


def test_a_table_of_an_sqlite_file_is_a_source(alice: Caller, alice_user: User, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "library.sqlite")) as connection:
        connection.execute("CREATE TABLE book (id INTEGER PRIMARY KEY, author TEXT)")
        connection.executemany("INSERT INTO book (author) VALUES (?)", [(f"author {number}",) for number in range(450)])
        connection.commit()
    (tmp_path / "library.toml").write_text(LIBRARY.format(persona=alice.persona))
    ingest = {"analysis_id": "books", "model": "book", "ingest_all": True}
    ingested, refused = call(
        alice_user,
        ("analysis_ingest", ingest),
        ("analysis_ingest", {**ingest, "filters": {"author": "author 7"}}),
        ANALYSIS_SOURCES=str(tmp_path / "library.toml"),
        ANALYSIS_FILES=str(tmp_path),
    )
    assert (ingested["records"], ingested["complete"]) == (450, True)
    assert "has no filters" in refused["error"]


def test_a_kind_of_cases_is_decided_and_undone_on_every_door(
    alice: Caller, alice_user: User, bob_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CASE_KINDS._providers, "to_do", "tests.example_app.cases.ToDoCases")
    operations = [Remember(content=f"Ask the till of shop {n}.", tags=["to-do"]) for n in range(2)]
    ids = [services.remember(alice, operation).record.pk.hex for operation in operations]
    owner, door = browser(alice_user), client(alice_user)
    page = owner.get(inbox("to_do")).content.decode()
    assert all(operation.content in page for operation in operations)
    assert "Ask the till" not in browser(bob_user).get(inbox("to_do")).content.decode()
    assert "no such memory" not in give(owner, "to_do", "done", *ids)
    assert door.get("/api/v1/cases/?kind=to_do").json()["items"] == []
    assert "Undone." in take_back(owner, "to_do")
    assert {item["id"] for item in door.get("/api/v1/cases/?kind=to_do").json()["items"]} == set(ids)

"""The first example of the README: two people's calls through an MCP client. RECORD=1 writes it anew."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.models import DeclaredSource
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.catalog import metadata_files
from knowledge.freshness import catalog_load
from memory_project.operating import demo
from memory_project.operating.demo import warehouse
from tests.conftest import person
from tests.mcp_client import as_caller, content_of

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.django_db(transaction=True)
FACT = "Net revenue in sales.revenue_mart excludes refunds since April."
SQL = "SELECT sum(net_revenue) FROM fernhill.sales.revenue_mart"
QUESTION = "do refunds count as revenue?"
ID = "5f0c…"
DAY = "2026-11-17"
INDENT = " " * 37
EXAMPLE = """
agent    › memory_manage  remember   "{fact}"
                                     → {{"id": "{id}", "status": "{status}", "detected": {detected}, …}}

A week later, a colleague's agent queries the warehouse. What is known about the table comes with the answer.
agent    › query_sql      "{sql}"
                                     → {rows} row
                                        memory_context: "{content}"
                                        {why}

It can also ask.
agent    › memory_recall  "{question}"
                                     → {line}
                                     …
"""


@pytest.fixture
def shop(tmp_path: Path, settings: Any) -> None:
    settings.ANALYSIS_FILES = tmp_path
    with duckdb.connect(str(tmp_path / warehouse.FILE)) as connection:
        connection.execute("CREATE SCHEMA sales")
        connection.execute(
            "CREATE TABLE sales.revenue_mart AS SELECT range AS month, 1.5 AS net_revenue FROM range(12)"
        )
    DeclaredSource.objects.create(name="warehouse", declaration=warehouse.SOURCE.replace("sales-analytics", "sales"))
    list(catalog_load.load(metadata_files.read_file(demo.FOLDER / "catalog.json")))


@pytest.fixture
def maya(personas: dict[str, Persona]) -> Caller:
    return build_caller(person("maya@fernhill.example", personas["sales"]), channel="test")


@pytest.fixture
def jonas(personas: dict[str, Persona]) -> Caller:
    return build_caller(person("jonas@fernhill.example", personas["sales"]), channel="test")


def call(caller: Caller, tool: str, **arguments: Any) -> Any:
    async def use(client: Any) -> Any:
        return await client.call_tool(tool, arguments)

    return as_caller(caller, use)


def transcript(maya: Caller, jonas: Caller) -> str:
    """Return what the README shows: two people's calls, and the parts of the answers that matter.

    Ids and the day differ each time, so they are written as those of the README.
    """
    remembered = content_of(call(maya, "memory_manage", command="remember", content=FACT))
    result = call(jonas, "query_sql", sql=SQL)
    (attached,) = json.loads(result.content[1].text)["memory_context"]
    (first, *_) = call(jonas, "memory_recall", query=QUESTION).content[0].text.splitlines()
    text, about = first.removesuffix(")").split(" (", 1)
    about = re.sub(r"\d{4}-\d\d-\d\d", DAY, about.replace(remembered["id"], ID))
    return EXAMPLE.format(
        fact=FACT,
        sql=SQL,
        question=QUESTION,
        id=ID,
        status=remembered["status"],
        detected=json.dumps([{"name": found["name"]} for found in remembered["detected"]]),
        rows=len(content_of(result)["rows"]),
        content=attached["content"],
        why=f"by {attached['created_by']}, {attached['why']}",
        line=f"{text}\n{INDENT}   ({about})",
    )


def test_the_first_example_of_the_readme_is_what_happens(maya: Caller, jonas: Caller, shop: None) -> None:
    readme = ROOT / "README.md"
    before, shown, after = readme.read_text().split("```", 2)
    happened = transcript(maya, jonas)
    if "RECORD" in os.environ:
        readme.write_text("```".join((before, happened, after)))
        return
    assert shown == happened


def test_a_fact_that_names_its_table_asks_for_nothing_more(maya: Caller, shop: None) -> None:
    assert "settle" not in content_of(call(maya, "memory_manage", command="remember", content=FACT))

"""The first example of the README, replayed word for word by an MCP client as two people."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from analysis.models import DeclaredSource
from foundation.people.caller import Caller
from knowledge.catalog import metadata_files
from knowledge.freshness import catalog_load
from memory_project.operating import demo
from memory_project.operating.demo import warehouse
from tests.mcp_client import as_caller, content_of

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.django_db(transaction=True)
TABLE = "fernhill.sales.revenue_mart"


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


def test_the_first_example_of_the_readme_works_word_for_word(alice: Caller, bob: Caller, shop: None) -> None:
    example = (ROOT / "README.md").read_text().split("```")[1]
    fact, sql, question = re.findall(r"^agent .*?\"(.*)\"$", example, re.MULTILINE)

    async def remember(client: Any) -> Any:
        return await client.call_tool("memory_manage", {"command": "remember", "content": fact})

    async def query(client: Any) -> Any:
        return await client.call_tool("query_sql", {"sql": sql})

    async def recall(client: Any) -> Any:
        return await client.call_tool("memory_recall", {"query": question})

    remembered = content_of(as_caller(alice, remember))
    assert (remembered["status"], [found["name"] for found in remembered["detected"]]) == ("active", [TABLE])
    assert "settle" not in remembered  # its text says what it is about
    result = as_caller(bob, query)
    assert len(content_of(result)["rows"]) == 1
    (attached,) = json.loads(result.content[1].text)["memory_context"]
    assert (attached["id"], attached["content"], attached["created_by"]) == (remembered["id"], fact, alice.email)
    assert attached["why"] == f"about {TABLE}, detected in the text"
    assert f'memory_context: "{fact}"' in example
    assert f"about {TABLE}" in example
    (line, *_) = as_caller(bob, recall).content[0].text.splitlines()
    assert re.fullmatch(
        rf"1\. {re.escape(fact)} \({alice.email}; [\d-]{{10}}; {remembered['id']}; about {TABLE}\)", line
    )
    assert f"1. {fact}\n" in example
